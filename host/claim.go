package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// errTaken says that another process goes by this one's name.
var errTaken = errors.New("another process has the name of this member")

func (h *Host) taken(m store.Member) error {
	return &actor.Error{Op: "host.Serve", Kind: actor.Conflict, Field: "member", Err: fmt.Errorf("%w: %s is process %d on %q, since %s; give each process a name of its own",
		errTaken, m.ID, m.PID, m.Host, m.Started.UTC().Format(time.RFC3339))}
}

// claim makes this process the one that goes by the member's name. Where another process has said so last it is waited
// for: if it says anything more within the term of a lease it lives, and has the name. Every later word of this process
// is written over its own last one, so that of two that claim at once one is refused.
func (h *Host) claim(ctx context.Context) error {
	host, _ := os.Hostname() // "" says that it is not known
	h.me = store.Member{ID: h.Member, Host: host, PID: os.Getpid(), Started: time.Now(), Version: h.Version, Assigns: assignEvenly}
	for again := (pace{}); ctx.Err() == nil; {
		rev, err := h.vacant(ctx)
		if err == nil {
			h.rev, err = h.Store.Members.Beat(ctx, h.me, rev)
		}
		switch {
		case err == nil, errors.Is(err, errTaken):
			return err
		case errors.Is(err, actor.Conflict): // somebody was faster
		case h.Conn.Closed():
			return err
		default:
			again.failed(ctx, h.Log.WithLevel(again.level()).Err(err).Str("what", "membership"))
		}
	}
	return ctx.Err()
}

// vacant waits until nobody goes by the member's name, and gives the revision of what was said last.
func (h *Host) vacant(ctx context.Context) (rev uint64, err error) {
	there, rev, err := h.Store.Members.Get(ctx, h.Member)
	if err != nil || there.ID == "" || h.Sole {
		return rev, err
	}
	for since := time.Now(); time.Since(since) <= h.LeaseTerm && sleep(ctx, h.hurryEvery()); {
		now, next, err := h.Store.Members.Get(ctx, h.Member)
		switch {
		case err != nil || now.ID == "":
			return next, err
		case next != rev:
			return 0, h.taken(now)
		}
	}
	return rev, ctx.Err()
}

// beat says that this process lives, and what it owns.
func (h *Host) beat(ctx context.Context) error {
	me := h.me
	me.Partitions = h.ownedNumbers()
	rev, err := h.Store.Members.Beat(ctx, me, h.rev)
	if errors.Is(err, actor.Conflict) {
		var there store.Member
		there, rev, err = h.Store.Members.Get(ctx, h.Member)
		if err == nil && there.ID != "" && !there.Same(h.me) {
			h.rev = 0
			return h.taken(there)
		}
		if err == nil { // it was too old, or a word of ours that we took for lost
			rev, err = h.Store.Members.Beat(ctx, me, rev)
		}
	}
	if err == nil {
		h.rev = rev
	}
	return err
}
