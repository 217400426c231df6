package host

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

const (
	pause    = 50 * time.Millisecond // before something is tried again
	maxPause = 2 * time.Second       // when it has failed for a while
)

// A pace is how something is tried again that fails for now: ever more slowly. Many may fail together, so
// only the first failure is a warning.
type pace struct{ failures int }

// failed waits for the next try. It reports false when ctx ended.
func (p *pace) failed(ctx context.Context, log *zerolog.Event) bool {
	log.Int("failures", p.failures+1).Msg("will be tried again")
	d := min(pause<<min(p.failures, 10), maxPause)
	p.failures++
	return sleep(ctx, d)
}

// level is the severity of the next failure.
func (p *pace) level() zerolog.Level {
	if p.failures > 0 {
		return zerolog.DebugLevel
	}
	return zerolog.WarnLevel
}

// report begins to tell of a failure that concerns the actor.
func (c *cell) report(p *pace, err error, what string) *zerolog.Event {
	c.p.h.noteFull(err)
	return c.p.h.Log.WithLevel(p.level()).Err(err).Str("actor", c.addr.String()).Str("what", what)
}

// patiently does what needs the server to begin, until it has begun or ctx ends: a host that starts while the
// server is away waits for it, unless its connection is closed for good.
func (h *Host) patiently(ctx context.Context, what string, begin func() error) error {
	for again := (pace{}); ; {
		err := begin()
		kind := actor.KindOf(err)
		if kind != actor.Unavailable && kind != actor.Timeout || h.Conn.Closed() {
			return err
		}
		if !again.failed(ctx, h.Log.WithLevel(again.level()).Err(err).Str("what", what)) {
			return nil
		}
	}
}

// steadily does what a job needs of the store, until it is done, or fails for another reason than that
// nobody answers, or ctx ends: what is accepted must not fail because a server was away.
func (h *Host) steadily(ctx context.Context, what string, f func() error) error {
	for again := (pace{}); ; {
		err := f()
		if actor.KindOf(err) != actor.Unavailable || ctx.Err() != nil {
			return err
		}
		again.failed(ctx, h.Log.WithLevel(again.level()).Err(err).Str("what", what))
	}
}
