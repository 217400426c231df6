package bus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func TestReaderDelivers(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	// Names that need escapes, and the lanes, must come out as they went in.
	const to, from = actor.ID("a.b > *é"), actor.ID("me = you")
	rd := r.read(t, to, 0)
	before := time.Now()
	for _, lane := range []actor.Lane{actor.LaneA, actor.LaneB, actor.LaneHost, actor.LaneCtl} {
		seq := stored(t, r.conn.Send(r.names.Inbox(to, lane, from), []byte(lane)))
		d := next(t, "a delivery", rd.got)
		if d.Seq != seq || d.To != to || d.Lane != lane || d.From != from || string(d.Data) != string(lane) {
			t.Errorf("delivered %+v, want sequence %d of lane %s", d, seq, lane)
		}
		if d.Time.Before(before.Add(-time.Second)) || d.Time.After(time.Now().Add(time.Second)) {
			t.Errorf("stored at %v, want about now", d.Time)
		}
	}
}

func TestReaderOnlyItsPartition(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	const n = 200
	var readings []*reading
	for p := range r.parts {
		for i := 0; ; i++ { // some actor of partition p
			if id := actor.ID(fmt.Sprintf("sub_%d", i)); subjects.Partition(id, r.parts) == p {
				readings = append(readings, r.read(t, id, 0))
				break
			}
		}
	}
	want := make([]int, r.parts)
	for i := range n {
		id := actor.ID(fmt.Sprintf("sub_%d", i))
		r.send(t, id, "")
		want[subjects.Partition(id, r.parts)]++
	}
	for p, rd := range readings {
		for range want[p] {
			if d := next(t, "a delivery", rd.got); subjects.Partition(d.To, r.parts) != p {
				t.Errorf("partition %d got a message to %s", p, d.To)
			}
		}
	}
}

func TestReaderFrom(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for i := range 10 {
		r.send(t, "sub_1", fmt.Sprint(i))
	}
	r.read(t, "sub_1", 6).inOrder(t, 5, 5)
	if err := r.conn.Compact(natstest.Context(t), r.names, 8); err != nil {
		t.Fatal(err)
	}
	r.read(t, "sub_1", 3).inOrder(t, 8, 2)
	ahead := r.read(t, "sub_1", 12)
	r.send(t, "sub_1", "skipped") // 11
	r.send(t, "sub_1", "wanted")  // 12
	if d := next(t, "a delivery", ahead.got); d.Seq != 12 {
		t.Errorf("the first delivery from 12 on has sequence %d", d.Seq)
	}
}

func TestReaderBadSubject(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	stored(t, r.conn.Send(r.names.Namespace()+".inbox.sub_1.nolane.me", []byte("x")))
	r.send(t, "sub_1", "0")
	if got, want := next(t, "the bad one", rd.bad), r.names.StoredInbox(subjects.Partition("sub_1", r.parts), "sub_1", "nolane", "me"); got != want {
		t.Errorf("OnBad got %q, want %q", got, want)
	}
	rd.inOrder(t, 0, 1)
}

// While Deliver blocks nothing is lost, however long; the requests for messages may have expired.
func TestReaderBlocks(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	gate, got := make(chan struct{}), make(chan uint64, 10_000)
	reader, err := bus.NewReader(bus.ReaderConfig{
		Conn: r.conn, Names: r.names, Partition: subjects.Partition("sub_1", r.parts),
		Deliver: func(d bus.Delivery) { <-gate; got <- d.Seq },
		OnBad:   func(string, []byte) {},
		OnRetry: func(err error) { t.Errorf("the reader began anew: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, reader.Serve)
	const n = 6000
	var last actor.Ack
	for range n {
		last = r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), nil)
	}
	stored(t, last)
	if seq, idle, err := reader.CaughtUp(natstest.Context(t)); seq != 0 || idle || err != nil {
		t.Errorf("CaughtUp while Deliver blocks: %d, %v, %v; want 0, not idle", seq, idle, err)
	}
	close(gate)
	for i := range uint64(n) {
		if seq := next(t, "a delivery", got); seq != i+1 {
			t.Fatalf("delivery %d has sequence %d", i+1, seq)
		}
	}
}

func TestReaderCaughtUp(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	rd := r.read(t, "sub_1", 0)
	check := func(what string, want uint64) {
		t.Helper()
		if seq, idle, err := rd.CaughtUp(ctx); seq != want || !idle || err != nil {
			t.Errorf("%s: CaughtUp gave %d, %v, %v; want %d and idle", what, seq, idle, err, want)
		}
	}
	check("an empty stream", 0)
	r.send(t, "sub_1", "0")
	rd.inOrder(t, 0, 1)
	natstest.Await(t, "Deliver has returned", func() bool {
		seq, _, err := rd.CaughtUp(ctx)
		return err == nil && seq == 1
	})
	// Others' messages count, though this reader never sees them.
	other := actor.ID("sub_2")
	for i := 3; subjects.Partition(other, r.parts) == subjects.Partition("sub_1", r.parts); i++ {
		other = actor.ID(fmt.Sprintf("sub_%d", i))
	}
	for range 5 {
		r.send(t, other, "")
	}
	check("five messages of another partition", 6)
	if err := r.conn.Compact(ctx, r.names, 6); err != nil {
		t.Fatal(err)
	}
	check("after a purge", 6)
}

func TestReaderCaughtUpPastTheEnd(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.send(t, "sub_1", "0")
	rd := r.read(t, "sub_1", 9)
	_, _, err := rd.CaughtUp(natstest.Context(t))
	wantKind(t, "a stream that ends before the watermark", err, actor.Conflict)
	wantKind(t, "compacting past the end", r.conn.Compact(natstest.Context(t), r.names, 8), actor.Conflict)
}

// CaughtUp never vouches for a message that was not delivered, whatever runs meanwhile.
func TestReaderCaughtUpIsTrue(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx, cancel := context.WithCancel(natstest.Context(t))
	defer cancel()
	var delivered [4000]bool // by sequence; written by Deliver, read once CaughtUp vouches for it
	mine := subjects.Partition("sub_1", r.parts)
	reader, err := bus.NewReader(bus.ReaderConfig{
		Conn: r.conn, Names: r.names, Partition: mine,
		Deliver: func(d bus.Delivery) { delivered[d.Seq] = true },
		OnBad:   func(string, []byte) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, reader.Serve)
	isMine := make([]bool, len(delivered))
	var last actor.Ack
	for seq := 1; seq < len(delivered); seq++ {
		id := actor.ID(fmt.Sprintf("sub_%d", rand.IntN(50)))
		isMine[seq] = subjects.Partition(id, r.parts) == mine
		last = r.conn.Send(r.names.Inbox(id, actor.LaneA, "me"), nil)
	}
	for upto := uint64(0); upto < uint64(len(delivered)-1); {
		seq, _, err := reader.CaughtUp(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for ; upto < seq; upto++ {
			if isMine[upto+1] && !delivered[upto+1] {
				t.Fatalf("CaughtUp vouches for %d, and %d was not delivered", seq, upto+1)
			}
		}
	}
	stored(t, last)
}

func TestReaderLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	s, err := r.conn.JS.Stream(ctx, r.names.InboxStream())
	if err != nil {
		t.Fatal(err)
	}
	rd := r.read(t, "sub_1", 0)
	r.send(t, "sub_1", "0")
	rd.inOrder(t, 0, 1)
	var name string
	for n := range s.ConsumerNames(ctx).Name() {
		name = n
	}
	info, err := s.Consumer(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if c := info.CachedInfo().Config; c.AckPolicy != jetstream.AckNonePolicy || !c.MemoryStorage || c.Replicas != 1 || c.Durable != "" {
		t.Errorf("the consumer is %+v, want ack-none, ephemeral, in memory, not replicated", c)
	}
	// Somebody deletes it: the reader makes another one.
	if err := s.DeleteConsumer(ctx, name); err != nil {
		t.Fatal(err)
	}
	r.send(t, "sub_1", "1")
	rd.inOrder(t, 1, 1)
	if err := next(t, "word that the reader began anew", rd.retry); actor.KindOf(err) != actor.Unavailable {
		t.Errorf("the reader began anew for %v, want unavailable", err)
	}
	rd.stop()
	for n := range s.ConsumerNames(ctx).Name() {
		t.Errorf("consumer %s is left behind", n)
	}
}

func TestReaderStreamMissing(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	reader, err := bus.NewReader(bus.ReaderConfig{Conn: natstest.Conn(t, srv), Names: natstest.Names(t),
		Deliver: func(bus.Delivery) {}, OnBad: func(string, []byte) {}})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a stream that does not exist", reader.Serve(natstest.Context(t)), actor.NotFound)
}

func TestReaderConnectionClosed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	conn := natstest.Conn(t, r.srv)
	got := make(chan bus.Delivery, 1)
	reader, err := bus.NewReader(bus.ReaderConfig{Conn: conn, Names: r.names, Partition: subjects.Partition("sub_1", r.parts),
		Deliver: func(d bus.Delivery) { got <- d }, OnBad: func(string, []byte) {}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- reader.Serve(natstest.Context(t)) }()
	r.send(t, "sub_1", "")
	next(t, "a delivery", got)
	conn.Close()
	wantKind(t, "a closed connection", next(t, "the end of Serve", done), actor.Unavailable)
}

// The server restarts while a Reader runs and others publish: nothing is lost, nothing comes twice.
func TestReaderServerRestart(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	sent := 0
	for round := range 3 {
		for range 500 {
			r.send(t, "sub_1", fmt.Sprint(sent))
			sent++
		}
		if round == 0 {
			rd.inOrder(t, 0, 500) // later rounds restart with deliveries still under way
		}
		lives := r.conn.NC.Stats().Reconnects
		r.srv.Stop(t)
		r.srv.Restart(t)
		natstest.Await(t, "the connection is back", func() bool { return r.conn.NC.IsConnected() && r.conn.NC.Stats().Reconnects > lives })
	}
	for range 500 {
		r.send(t, "sub_1", fmt.Sprint(sent))
		sent++
	}
	rd.inOrder(t, 500, sent-500)
	if len(rd.got) != 0 {
		t.Errorf("%d deliveries too many", len(rd.got))
	}
}

// Connections break again and again in the middle of a flood.
func TestReaderConnectionBreaks(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	publisher := natstest.Conn(t, r.srv)
	rd := r.read(t, "sub_1", 0)
	const n = 20_000
	var last actor.Ack
	for i := range n {
		last = publisher.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), fmt.Append(nil, i))
		if i%2000 == 0 {
			if err := r.conn.NC.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stored(t, last)
	rd.inOrder(t, 0, n)
}

// A stranger takes messages from the Reader's own consumer. The Reader sees the gap, also when no
// message follows it, reads again from there, and leaves the old consumer no longer than needed.
func TestReaderRobbed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	rd := r.read(t, "sub_1", 0)
	r.send(t, "sub_1", "0")
	rd.inOrder(t, 0, 1)
	s, err := r.conn.JS.Stream(ctx, r.names.InboxStream())
	if err != nil {
		t.Fatal(err)
	}
	consumers := func() (names []string) {
		for n := range s.ConsumerNames(ctx).Name() {
			names = append(names, n)
		}
		return names
	}
	thief := natstest.Conn(t, r.srv)
	loot := make(chan string, 10)
	stop, err := thief.Subscribe("loot", func(subject string, data []byte) { loot <- string(data) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i := range 2 {
		name := consumers()[0]
		if err := thief.NC.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+r.names.InboxStream()+"."+name, "loot", nil); err != nil {
			t.Fatal(err)
		}
		if err := thief.NC.FlushWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		first := 1 + 10*i
		for n := range 10 {
			r.send(t, "sub_1", fmt.Sprint(first+n))
		}
		next(t, "the thief's message", loot)
		rd.inOrder(t, first, 10)
		natstest.Await(t, "one consumer, another one, is left", func() bool {
			left := consumers()
			return len(left) == 1 && left[0] != name
		})
	}
}
