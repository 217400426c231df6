package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// What a partition stops when it is shut is told to the next owner, which may be this process again: its
// answers will never come.
func TestShutActorStaysBusy(t *testing.T) {
	t.Parallel()
	p := newPartition(&Host{}, 0, store.Lease{}, 1)
	busy, idle := actor.Address{ID: "parent_1", Host: true}, actor.Address{ID: "sub_00000001"}
	c := p.cell(busy)
	ended := false
	c.jobs[1] = &task{cancel: func() { ended = true }}
	p.cell(idle).shut()
	c.shut()
	if !ended {
		t.Error("the job of an actor that was shut goes on; another process may run it now")
	}
	c.finished(nil) // a turn that was under way ends
	if _, all := p.cut(); !slices.Equal(all, []actor.Address{busy}) {
		t.Errorf("the lease would name %v as busy; the job of %v would be lost", all, busy)
	}
}

// A job waits for a server that is away, and for nothing else.
func TestSteadily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Host{Config: Config{Log: zerolog.Nop()}}
		fails := func(n int, with error) (tries int, err error) {
			err = h.steadily(t.Context(), "a test", func() error {
				if tries++; tries <= n {
					return with
				}
				return nil
			})
			return tries, err
		}
		away := &actor.Error{Kind: actor.Unavailable}
		if tries, err := fails(20, away); tries != 21 || err != nil {
			t.Errorf("with a server that is back after 20 tries: %v after %d", err, tries)
		}
		if tries, err := fails(20, &actor.Error{Kind: actor.NotFound}); tries != 1 || !errors.Is(err, actor.NotFound) {
			t.Errorf("what is not there was looked for %d times, and then: %v", tries, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.steadily(ctx, "a test", func() error { return away }); !errors.Is(err, actor.Unavailable) {
			t.Errorf("a job that was ended tries on: %v", err)
		}
	})
}
