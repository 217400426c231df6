package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// A forgetful sender stores what it sends and, while it is on, loses the answer.
type forgetful struct {
	store.Sender
	on atomic.Bool
}

func (f *forgetful) SendMsg(m *nats.Msg) actor.Ack {
	ack := f.Sender.SendMsg(m)
	if !f.on.Load() {
		return ack
	}
	return lost{ack}
}

type lost struct{ actor.Ack }

func (l lost) Wait(ctx context.Context) (uint64, error) {
	if _, err := l.Ack.Wait(ctx); err != nil {
		return 0, err
	}
	return 0, &actor.Error{Op: "send", Kind: actor.Unavailable, Err: errors.New("the answer was lost")}
}

// TestLostAnswers: writes whose outcome is unknown have happened once, if at all.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	e := single(t)
	f := &forgetful{Sender: e.conn}
	s := e.other(t, func(c *store.Config) { c.Sender = f })
	r := ask(t, s, "parent", `1`)
	f.on.Store(true)
	if err := s.Requests.Use(t.Context(), r.Parent, r.ID, r.Rev); err != nil {
		t.Errorf("Use gave %v, want success: the request shows who has used it", err)
	}
	wantGone(t, "a used one", s, r, r.Rev)
	calls := 0
	err := s.Memory.Update(t.Context(), "space", func(d *store.Draft) error {
		calls++
		return add(t.Context(), d, "n", 1)
	})
	wantKind(t, "an update whose answer was lost", err, actor.Unavailable)
	if remembers(t, e, "space", "n", "1"); calls != 1 {
		t.Errorf("the update was made %d times: it must not be tried again when it may have happened", calls)
	}
}
