package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// late is how late a timer may fire here: what SetTimer promises, and what a busy machine adds.
const late = 3 * time.Second

func TestTimerFires(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	const id, name = actor.ID("a.b > *"), "deadline 1.0"
	rd := r.read(t, id, 0)
	at := time.Now().Add(700 * time.Millisecond)
	stored(t, r.conn.Timers(r.names).SetTimer(id, name, at, []byte("body")))
	d := next(t, "the timer", rd.got)
	if d.To != id || d.Lane != actor.LaneCtl || d.From != name || string(d.Data) != "body" {
		t.Errorf("the timer came as %+v, want lane ctl of %q from %q", d, id, name)
	}
	off := time.Since(at)
	t.Logf("fired %v after its time", off)
	if off < 0 || off > late {
		t.Errorf("fired %v after its time, want within %v, never before", off, late)
	}
}

func TestTimerInThePast(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	begin := time.Now()
	stored(t, r.conn.Timers(r.names).SetTimer("sub_1", "deadline", begin.Add(-time.Hour), nil))
	next(t, "the timer", rd.got)
	t.Logf("fired %v after it was set", time.Since(begin))
	if took := time.Since(begin); took > late {
		t.Errorf("fired %v after it was set, want at once", took)
	}
}

// Of a timer that is set twice, one that is cleared and a plain one, what fires is the second
// setting of the first, and the last. All are set before any is due.
func TestTimerReplacedAndCleared(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	timers := r.conn.Timers(r.names)
	soon := time.Now().Add(500 * time.Millisecond)
	acks := []actor.Ack{
		timers.SetTimer("sub_1", "twice", soon, []byte("first")),
		timers.SetTimer("sub_1", "cleared", soon, []byte("never")),
		timers.SetTimer("sub_1", "twice", soon.Add(time.Second), []byte("second")),
		timers.ClearTimer("sub_1", "cleared"),
		timers.ClearTimer("sub_1", "never was"),
		timers.SetTimer("sub_1", "last", soon.Add(2*time.Second), []byte("last")),
	}
	for _, a := range acks {
		stored(t, a)
	}
	for _, want := range []string{"second", "last"} {
		if d := next(t, "timer "+want, rd.got); string(d.Data) != want {
			t.Errorf("timer %q fired, want %q", d.Data, want)
		}
	}
}

func TestTimerClearedAfterItFired(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	timers := r.conn.Timers(r.names)
	stored(t, timers.SetTimer("sub_1", "x", time.Now(), []byte("0")))
	rd.inOrder(t, 0, 1)
	stored(t, timers.ClearTimer("sub_1", "x"))
	stored(t, timers.SetTimer("sub_1", "x", time.Now(), []byte("1")))
	rd.inOrder(t, 1, 1)
}

// A timer outlives a restart, a cleared one stays cleared, and one that has fired and was compacted
// away does not fire anew.
func TestTimerRestart(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	timers := r.conn.Timers(r.names)
	rd := r.read(t, "sub_1", 0)
	stored(t, timers.SetTimer("sub_1", "fired", time.Now(), []byte("0")))
	rd.inOrder(t, 0, 1)
	rd.stop()
	if err := r.conn.Compact(natstest.Context(t), r.names, 1); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Second)
	stored(t, timers.SetTimer("sub_1", "cleared", soon, []byte("never")))
	stored(t, timers.SetTimer("sub_1", "kept", soon, []byte("1")))
	stored(t, timers.ClearTimer("sub_1", "cleared"))
	lives := r.conn.NC.Stats().Reconnects
	r.srv.Stop(t)
	r.srv.Restart(t)
	natstest.Await(t, "the connection is back", func() bool { return r.conn.NC.IsConnected() && r.conn.NC.Stats().Reconnects > lives })
	stored(t, timers.SetTimer("sub_1", "last", soon.Add(2*time.Second), []byte("2")))
	rd = r.read(t, "sub_1", 0)
	rd.inOrder(t, 1, 2)
}

// Sourced messages go through the inbox stream's own transform: every timer lands in the partition
// of its actor.
func TestTimerPartition(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	const n = 40
	for i := range n {
		stored(t, r.conn.Timers(r.names).SetTimer(actor.ID(fmt.Sprintf("sub_%d", i)), "x", time.Now(), nil))
	}
	var s = natstest.Context(t)
	stream, err := r.conn.JS.Stream(s, r.names.InboxStream())
	if err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "all timers are in the inbox", func() bool {
		info, err := stream.Info(s)
		return err == nil && info.State.Msgs == n
	})
	for seq := range uint64(n) {
		m, err := stream.GetMsg(s, seq+1)
		if err != nil {
			t.Fatal(err)
		}
		p, route, err := r.names.ParseStoredInbox(m.Subject)
		if err != nil || p != subjects.Partition(route.To, r.parts) || route.Lane != actor.LaneCtl || route.From != "x" {
			t.Errorf("a timer is stored as %s (error: %v), want partition %d", m.Subject, err, subjects.Partition(route.To, r.parts))
		}
	}
	timer, err := r.conn.JS.Stream(s, r.names.TimerStream())
	if err != nil {
		t.Fatal(err)
	}
	if left := timer.CachedInfo().State.Msgs; left != n {
		t.Errorf("the timer stream keeps %d messages, want only the %d fired ones: schedules go when they fire", left, n)
	}
}

// A plain publisher to an inbox can't erase or schedule anything there.
func TestInboxRefusesTricks(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.send(t, "sub_1", "0")
	for header, value := range map[string]string{
		"Nats-Rollup":   "all",
		"Nats-TTL":      "1s",
		"Nats-Schedule": "@at 2020-01-01T00:00:00Z",
	} {
		m := newMsg(r.names.Inbox("sub_1", actor.LaneA, "me"), header, value)
		if header == "Nats-Schedule" {
			m.Header.Set("Nats-Schedule-Target", r.names.Inbox("sub_2", actor.LaneCtl, "runtime"))
		}
		if _, err := r.conn.JS.PublishMsg(natstest.Context(t), m); err == nil {
			t.Errorf("the inbox took a message with %s", header)
		}
	}
}

// TestTimerWithoutRoom: a timer that comes due while its server has no room for what it fires is fired once there is room
// and it is set again.
func TestTimerWithoutRoom(t *testing.T) {
	t.Parallel()
	srv := natstest.StartWith(t, "jetstream { max_file_store: 8MB }")
	conn := natstest.Conn(t, srv)
	names := natstest.Names(t)
	ctx := natstest.Context(t)
	if _, err := conn.Ensure(ctx, bus.Layout{Names: names, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(time.Second)
	if _, err := conn.Timers(names).SetTimer("sub_1", fmt.Sprint("sleep-", due.UnixMicro()), due, []byte("x")).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.JS.CreateStream(ctx, jetstream.StreamConfig{Name: "ballast", Subjects: []string{"ballast"}}); err != nil {
		t.Fatal(err)
	}
	for size := 256 << 10; size > 0; {
		if _, err := conn.Send("ballast", make([]byte, size)).Wait(ctx); err != nil {
			wantKind(t, "a publish to a server without room", err, actor.Unavailable)
			if !bus.Full(err) {
				t.Errorf("%v does not say that there is no room", err)
			}
			size /= 2
		}
	}
	natstest.Await(t, "the timer is due for a while", func() bool { return time.Since(due) > time.Second })
	if err := conn.JS.DeleteStream(ctx, "ballast"); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the timer has fired", func() bool {
		if _, err := conn.Timers(names).SetOverdue(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		end, err := conn.InboxEnd(ctx, names)
		return err == nil && end > 0
	})
}
