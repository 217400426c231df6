package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

func contextWithin(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func TestSend(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	ack := r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), []byte("x"))
	for range 2 {
		if seq, err := ack.Wait(ctx); err != nil || seq != 1 {
			t.Errorf("Wait gave %d, %v; want 1, each time", seq, err)
		}
	}
	s, err := r.conn.JS.Stream(ctx, r.names.InboxStream())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(ctx, 1); err != nil || len(m.Header) != 0 {
		t.Errorf("stored message has headers %v (error: %v), want none", m.Header, err)
	}
	_, err = r.conn.Send("nobody.listens.here", nil).Wait(ctx)
	wantKind(t, "a subject of no stream", err, actor.Unavailable)
	_, err = r.conn.Send("not a subject", nil).Wait(ctx)
	wantKind(t, "a subject with spaces", err, actor.SchemaViolation)
	_, err = r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), make([]byte, r.conn.MaxPayload()+1)).Wait(ctx)
	wantKind(t, "a message over the server's limit", err, actor.TooLarge)
	err = r.conn.Publish("some.event", make([]byte, r.conn.MaxPayload()+1))
	wantKind(t, "an event over the server's limit", err, actor.TooLarge)
	_, err = r.conn.Request(ctx, "some.request", make([]byte, r.conn.MaxPayload()+1))
	wantKind(t, "a request over the server's limit", err, actor.TooLarge)
}

func TestSendWholeMaxPayload(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rd := r.read(t, "sub_1", 0)
	data := bytes.Repeat([]byte("x"), int(r.conn.MaxPayload()))
	const n = 12
	for range n {
		stored(t, r.conn.Send(r.names.Inbox("sub_1", actor.LaneB, "me"), data))
	}
	for i := range n {
		if d := next(t, fmt.Sprintf("large message %d", i), rd.got); !bytes.Equal(d.Data, data) {
			t.Fatalf("large message %d came with %d bytes", i, len(d.Data))
		}
	}
	if len(rd.retry) != 0 {
		t.Errorf("large messages made the reader begin anew: %v", <-rd.retry)
	}
}

func TestSendExpect(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	subject := r.names.Journal(actor.Address{ID: "sub_1"})
	first := stored(t, r.conn.SendExpect(subject, 0, []byte("birth")))
	second := stored(t, r.conn.SendExpect(subject, first, []byte("turn")))
	for what, last := range map[string]uint64{"no message": 0, "the one before": first, "a later one": second + 1} {
		_, err := r.conn.SendExpect(subject, last, nil).Wait(ctx)
		wantKind(t, "expecting "+what, err, actor.Conflict)
	}
	// Pipelined: of many that expect the same, one wins.
	acks := make([]actor.Ack, 50)
	for i := range acks {
		acks[i] = r.conn.SendExpect(subject, second, []byte("race"))
	}
	won := 0
	for _, a := range acks {
		if _, err := a.Wait(ctx); err == nil {
			won++
		} else {
			wantKind(t, "a lost race", err, actor.Conflict)
		}
	}
	if won != 1 {
		t.Errorf("%d of 50 conditional publishes won, want 1", won)
	}
}

func TestSendWhileServerIsDown(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	subject := r.names.Inbox("sub_1", actor.LaneA, "me")
	r.send(t, "sub_1", "before")
	r.srv.Stop(t)
	natstest.Await(t, "the connection has noticed", func() bool { return r.conn.NC.IsReconnecting() })
	begin := time.Now()
	_, err := r.conn.Send(subject, []byte("lost")).Wait(ctx)
	wantKind(t, "a send while disconnected", err, actor.Unavailable)
	wantKind(t, "an event while disconnected", r.conn.Publish("some.event", nil), actor.Unavailable)
	_, err = r.conn.Request(ctx, "some.request", nil)
	wantKind(t, "a request while disconnected", err, actor.Unavailable)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v to fail, want at once", took)
	}
	r.srv.Restart(t)
	natstest.Await(t, "the connection is back", func() bool { return r.conn.NC.IsConnected() })
	if seq := r.send(t, "sub_1", "after"); seq != 2 {
		t.Errorf("the next message has sequence %d, want 2: what failed must not be stored later", seq)
	}
}

func TestAckOutlivesItsWaiter(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ack := r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), nil)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ack.Wait(gone); err != nil { // it may have come by now
		wantKind(t, "waiting with an ended context", err, actor.Timeout)
	}
	if seq := stored(t, ack); seq != 1 {
		t.Errorf("sequence %d, want 1", seq)
	}
}

func TestRequestAndSubscribe(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn := natstest.Conn(t, srv)
	ctx := natstest.Context(t)
	_, err := conn.Request(ctx, "nobody.answers", nil)
	wantKind(t, "nobody listens", err, actor.Unavailable)

	got := make(chan string, 10)
	stop, err := conn.Subscribe("events.*", func(subject string, data []byte) { got <- subject + " " + string(data) })
	if err != nil {
		t.Fatal(err)
	}
	publisher := natstest.Conn(t, srv)
	for i := range 3 {
		if err := publisher.Publish(fmt.Sprintf("events.%d", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if m := next(t, "an event", got); m != fmt.Sprintf("events.%d x", i) {
			t.Errorf("event %q, want number %d", m, i)
		}
	}
	short, cancel := contextWithin(50 * time.Millisecond)
	defer cancel()
	_, err = conn.Request(short, "events.unanswered", nil)
	wantKind(t, "somebody listens and does not answer", err, actor.Timeout)
	stop()
	stop()
	_, err = conn.Request(ctx, "events.unheard", nil)
	wantKind(t, "after stop", err, actor.Unavailable)

	_, err = bus.NewReader(bus.ReaderConfig{Conn: conn})
	wantKind(t, "a reader without a function", err, actor.SchemaViolation)
}

// TestSubscribeAcrossACut: a connection that is lost while the server is told of a subscription, and is made
// again, does not make the subscription fail.
func TestSubscribeAcrossACut(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	proxy := natstest.NewProxy(t, srv)
	conn, err := bus.Connect(natstest.Context(t), bus.Config{URL: proxy.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	before := conn.NC.NumSubscriptions()
	proxy.Hold()
	got := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Share("events", "group", func(_ string, data []byte) { got <- string(data) })
		done <- err
	}()
	natstest.Await(t, "the subscription is on its way", func() bool { return conn.NC.NumSubscriptions() > before })
	proxy.Cut()
	proxy.Heal()
	if err := <-done; err != nil {
		t.Fatalf("the subscription failed: %v", err)
	}
	if err := natstest.Conn(t, srv).Publish("events", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m := next(t, "an event", got); m != "x" {
		t.Errorf("event %q, want x", m)
	}
}
