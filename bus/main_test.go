package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// A room is a namespace on a server of its own.
type room struct {
	srv   *natstest.Server
	conn  *bus.Conn
	names subjects.Names
	parts int
}

func newRoom(t testing.TB) room {
	t.Helper()
	srv := natstest.Start(t)
	return furnish(t, srv, natstest.Conn(t, srv), bus.Layout{Names: natstest.Names(t), Partitions: 4})
}

func furnish(t testing.TB, srv *natstest.Server, conn *bus.Conn, l bus.Layout) room {
	t.Helper()
	got, err := conn.Ensure(natstest.Context(t), l)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return room{srv: srv, conn: conn, names: l.Names, parts: got.Partitions}
}

// send sends text to an actor's lane a and waits until it is stored.
func (r room) send(t testing.TB, to actor.ID, text string) uint64 {
	t.Helper()
	return stored(t, r.conn.Send(r.names.Inbox(to, actor.LaneA, "me"), []byte(text)))
}

func stored(t testing.TB, ack actor.Ack) uint64 {
	t.Helper()
	seq, err := ack.Wait(natstest.Context(t))
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return seq
}

func wantKind(t testing.TB, what string, err error, want actor.Kind) {
	t.Helper()
	if got := actor.KindOf(err); got != want {
		t.Fatalf("%s: kind %q, want %q (error: %v)", what, got, want, err)
	}
}

// A reading is a Reader at work, with everything that it delivered.
type reading struct {
	*bus.Reader
	got   chan bus.Delivery
	bad   chan string
	retry chan error
	stop  func()

	seq   uint64   // of the last delivery, and
	texts []string // the different ones so far: see distinct
}

// read runs a Reader on the partition of an actor.
func (r room) read(t testing.TB, of actor.ID, from uint64) *reading {
	t.Helper()
	rd := &reading{got: make(chan bus.Delivery, 100_000), bad: make(chan string, 100), retry: make(chan error, 1000)}
	var err error
	rd.Reader, err = bus.NewReader(bus.ReaderConfig{
		Conn: r.conn, Names: r.names, Partition: subjects.Partition(of, r.parts), From: from,
		Deliver: func(d bus.Delivery) { rd.got <- d },
		OnBad:   func(subject string, _ []byte) { rd.bad <- subject },
		OnRetry: func(err error) { rd.retry <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	rd.stop = serve(t, rd.Serve)
	return rd
}

// serve runs something that serves until the test ends or the result is called.
func serve(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func next[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-natstest.Context(t).Done():
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// inOrder takes n deliveries whose texts are 0, 1, 2…: none lost, none twice, none out of order.
func (rd *reading) inOrder(t testing.TB, first, n int) {
	t.Helper()
	var seq uint64
	for i := first; i < first+n; i++ {
		d := next(t, fmt.Sprintf("message %d", i), rd.got)
		if string(d.Data) != fmt.Sprint(i) || d.Seq <= seq {
			t.Fatalf("delivered %q at sequence %d after %d, want message %d: lost, repeated or out of order",
				d.Data, d.Seq, seq, i)
		}
		seq = d.Seq
	}
}
