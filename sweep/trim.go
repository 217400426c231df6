package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// Grace is how long a host's record stays at least. Envelopes that were not acknowledged are sent again for as long as
// their sender's partition has an owner, within seconds.
const Grace = 24 * time.Hour

// trimHosts removes the records that the hosts of trees don't need any more.
func (r *run) trimHosts(ctx context.Context, began time.Time) error {
	if !r.owned() {
		return nil
	}
	cutoff := r.cutoff
	if grace := began.Add(-Grace); cutoff.After(grace) {
		cutoff = grace
	}
	young, err := r.Store.Journal.Since(ctx, cutoff)
	if err == nil {
		young, err = r.unsettled(ctx, cutoff, young)
	}
	if err != nil {
		return err
	}
	return r.Store.Journal.Hosts(ctx, func(root actor.ID, records int) error {
		if records <= 1 {
			return nil
		}
		n, err := r.trim(ctx, actor.Address{ID: root, Host: true}, young)
		r.report.Records += n
		return err
	})
}

// unsettled gives the sequence from which on records may yet be sent again, or young if that is lower: the last record of
// an actor that is busy may, and while a partition has not moved for as long as records are kept nothing is known.
func (r *run) unsettled(ctx context.Context, cutoff time.Time, young uint64) (uint64, error) {
	for n := range r.Partitions {
		lease := r.leases[n]
		at, waits, err := r.Store.Inbox.FirstAbove(ctx, n, lease.Watermark)
		if err != nil {
			return 0, err
		}
		if waits && at.Before(cutoff) {
			return 0, nil
		}
		for _, a := range lease.Stragglers {
			last, err := r.Store.Journal.Last(ctx, a)
			if err != nil && !errors.Is(err, actor.NotFound) {
				return 0, err
			}
			if err == nil {
				young = min(young, last.Seq)
			}
		}
	}
	return young, nil
}

// owned reports whether every partition has an owner. One that died lately may be named still: it comes back, or another
// takes its place, within seconds.
func (r *run) owned() bool {
	for n := range r.Partitions {
		if r.leases[n].Owner == "" {
			return false
		}
	}
	return true
}

// trim removes, or counts, records of a host below the sequence young: not the last, nor those that it is to be read with.
func (r *run) trim(ctx context.Context, host actor.Address, young uint64) (int, error) {
	last, err := r.Store.Journal.Last(ctx, host)
	if errors.Is(err, actor.NotFound) {
		return 0, nil // the tree was removed by this run
	}
	if err != nil {
		return 0, err
	}
	record, err := agent.UnpackRecord(last.Data)
	if err != nil {
		return 0, &actor.Error{Op: "sweep.Run", ID: host.ID, Kind: actor.KindOf(err), Err: err}
	}
	below := min(young, last.Seq)
	for _, needed := range append(record.Unsent, record.Base) {
		if needed != 0 {
			below = min(below, needed)
		}
	}
	if !r.DryRun {
		return r.Store.Journal.Trim(ctx, host, below, last.Seq)
	}
	n := 0
	err = r.Store.Journal.Range(ctx, host, 1, last.Seq, func(m store.Message) error {
		if m.Seq >= below {
			return errEnough
		}
		n++
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return n, err
}

var errEnough = errors.New("enough")

// reclaim removes the scoped values of requests that were never finished, once they are as old as any request may be.
func (r *run) reclaim(ctx context.Context, began time.Time) error {
	if r.DryRun {
		return nil
	}
	return r.Store.Env.Reclaim(ctx, began.Add(-Grace))
}
