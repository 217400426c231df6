package store

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// borrowed begins the names that values are kept under while a request is under way whose own they are.
const borrowed = "request "

// Borrowed gives a name to keep the values of one request under: nobody else's values get into these. What it is for may be
// told in it.
func Borrowed(what string) actor.ID {
	return actor.ID(borrowed + strings.TrimLeft(what+" ", " ") + rand.Text())
}

// isBorrowed reports whether a name is one of Borrowed's.
func isBorrowed(id string) bool {
	rest, ok := strings.CutPrefix(id, borrowed)
	text := rest[strings.LastIndexByte(rest, ' ')+1:]
	return ok && len(text) == len(rand.Text()) && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Reclaim removes the values of requests that were stored before a time: of those whose process has ended in between.
func (e *Env) Reclaim(ctx context.Context, before time.Time) error {
	err := e.kv.scan(ctx, scan{e.kv.subject(">"), 1, everything, smallMessages}, func(m stored) error {
		id, err := subjects.DecodeToken(e.kv.key(m.Subject))
		if err != nil || !isBorrowed(id) || !m.Time.Before(before) {
			return nil
		}
		return e.kv.forget(ctx, e.kv.key(m.Subject))
	})
	return fault("store.Env.Reclaim", "", err)
}
