package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// TestInboxRange: an actor's messages are read again between two sequences, in order and once, and no other's.
func TestInboxRange(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.InProcess(t, srv), natstest.Names(t)
	layout, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names, Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	const me, other = actor.ID("Ada L."), actor.ID("Ada")
	var seqs []uint64
	for i := range 300 {
		for _, to := range []actor.ID{me, other} {
			seq, err := conn.Send(names.Inbox(to, []actor.Lane{actor.LaneA, actor.LaneCtl, actor.LaneHost}[i%3], "from"), fmt.Append(nil, i)).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if to == me {
				seqs = append(seqs, seq)
			}
		}
	}
	read := func(from, upto uint64, most int) (got []store.Letter) {
		err := s.Inbox.Range(natstest.Context(t), subjects.Partition(me, layout.Partitions), me, from, upto, func(l store.Letter) bool {
			got = append(got, l)
			return len(got) < most
		})
		if err != nil {
			t.Fatalf("read %d to %d: %v", from, upto, err)
		}
		return got
	}
	if got := read(seqs[10], seqs[250], 1000); len(got) != 241 || string(got[0].Data) != "10" || got[240].Seq != seqs[250] ||
		!slices.IsSortedFunc(got, func(a, b store.Letter) int { return int(a.Seq) - int(b.Seq) }) || got[0].Lane != actor.LaneCtl || got[0].From != "from" {
		t.Errorf("of 241 messages %d were read, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	if got := read(0, seqs[299]+1000, 1000); len(got) != 300 {
		t.Errorf("of 300 messages %d were read, with an end that the stream does not reach", len(got))
	}
	if got := read(seqs[0], seqs[299], 100); len(got) != 100 {
		t.Errorf("%d messages were read, and 100 were enough", len(got))
	}
	if got := read(seqs[299]+1, seqs[299]+10, 1000); len(got) != 0 {
		t.Errorf("behind the last message there are %d", len(got))
	}
}
