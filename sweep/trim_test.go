package sweep_test

import (
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/sweep"
	"github.com/troupehq/troupe/test/natstest"
)

// The host of a tree whose root is an agent outside writes for as long as that has children. What it does not need any
// more goes once it is old, and what is left is enough: a host that begins anew knows its live children and its cap.
func TestTrimHosts(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	root := actor.Address{ID: "cli", Host: true}
	var live []actor.ID
	for i := range 300 {
		if i%30 == 0 {
			live = append(live, r.spawn(""))
		}
		id := r.spawn("")
		r.task(id, "x")
		r.terminate(id)
	}
	r.settle()
	before := r.records(root)
	if before < 1200 {
		t.Fatalf("the host wrote %d records; the test wants many", before)
	}
	late := func(dry bool) func(*sweep.Config) {
		return func(c *sweep.Config) {
			c.DryRun, c.Older = dry, sweep.Grace
			c.Now = func() time.Time { return time.Now().Add(sweep.Grace + time.Hour) }
		}
	}
	if got := r.sweep(func(c *sweep.Config) { c.Older = 0; c.DryRun = true }); got.Records != 0 {
		t.Errorf("a run would remove %d records of this minute, want none before %v", got.Records, sweep.Grace)
	}
	would := r.sweep(late(true)).Records
	if now := r.records(root); now != before {
		t.Fatalf("a dry run left %d of %d records", now, before)
	}
	if did := r.sweep(late(false)).Records; did != would || did < before/2 {
		t.Errorf("removed %d of %d records, and would have removed %d", did, before, would)
	}
	after := r.records(root)
	if again := r.sweep(late(false)).Records; again != 0 {
		t.Errorf("another run removed %d more records, want none", again)
	}
	t.Logf("%d records, then %d", before, after)

	r.KillHost(t)
	r.StartHost(t)
	for _, id := range live {
		r.task(id, "after")
	}
	listed, err := r.List(natstest.Context(t), client.ListRequest{})
	if err != nil || len(listed) != len(live) {
		t.Errorf("%d children are listed (%v), want %d", len(listed), err, len(live))
	}
	r.terminate(live[0])
	r.spawn("")
}

// Who might send again is a partition without an owner: hosts' records stay while there is one.
func TestTrimWantsOwners(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for range 100 {
		r.spawn("")
	}
	r.settle()
	r.StopHost(t)
	got := r.sweep(func(c *sweep.Config) {
		c.Older = sweep.Grace
		c.Now = func() time.Time { return time.Now().Add(sweep.Grace + time.Hour) }
	})
	if got.Records != 0 {
		t.Errorf("removed %d records while nobody owned the partitions", got.Records)
	}
}

// records counts the records of a journal.
func (r *room) records(a actor.Address) (n int) {
	r.t.Helper()
	ctx := natstest.Context(r.t)
	last, err := r.Store.Journal.Last(ctx, a)
	if err == nil {
		err = r.Store.Journal.Range(ctx, a, 1, last.Seq, func(store.Message) error { n++; return nil })
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// Since finds its place whatever was removed before it.
func TestSince(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	var seqs []uint64
	var times []time.Time
	for range 20 {
		id := r.spawn("")
		last, err := r.Store.Journal.Last(ctx, actor.Address{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		seqs, times = append(seqs, last.Seq), append(times, last.Time)
		if len(seqs)%3 == 0 {
			if err := r.Store.Journal.Remove(ctx, actor.Address{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, at := range times {
		got, err := r.Store.Journal.Since(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		if removed := (i+1)%3 == 0; got > seqs[i] && !removed || i > 0 && got <= seqs[i-1] && !times[i-1].Equal(at) && i%3 != 0 {
			t.Errorf("since %v: %d, want at most %d, and above %v", at, got, seqs[i], slices.Max(append([]uint64{0}, seqs[:i]...)))
		}
	}
	if got, err := r.Store.Journal.Since(ctx, time.Now().Add(time.Hour)); err != nil || got <= seqs[len(seqs)-1] {
		t.Errorf("since the future: %d (%v), want more than all", got, err)
	}
	if got, err := r.Store.Journal.Since(ctx, times[0].Add(-time.Hour)); err != nil || got > 1 {
		t.Errorf("since before the first: %d (%v), want the beginning", got, err)
	}
}
