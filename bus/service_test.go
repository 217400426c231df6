package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func newMsg(subject, header, value string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{header: {value}}}
}

// serveA2E runs the service until the test ends, once it answers.
func serveA2E(t *testing.T, conn *bus.Conn, names subjects.Names, handle func(bus.Request)) (stop func()) {
	t.Helper()
	stop = serve(t, func(ctx context.Context) error { return conn.ServeA2E(ctx, names, "1.2.3", func() {}, handle) })
	natstest.Await(t, "the service answers", func() bool {
		_, err := conn.Request(natstest.Context(t), "$SRV.PING."+names.Namespace(), nil)
		return err == nil
	})
	return stop
}

func TestServeA2E(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.Conn(t, srv), natstest.Names(t)
	ctx := natstest.Context(t)
	stop := serveA2E(t, conn, names, func(r bus.Request) {
		if err := conn.Publish(r.Reply, fmt.Appendf(nil, "%s|%s|%s", r.Agent, r.Data, r.Header["X"])); err != nil {
			t.Error(err)
		}
	})
	asker := natstest.Conn(t, srv)
	const agent = actor.ID("a.b > *")
	if got, err := asker.Request(ctx, names.A2E(agent), []byte("hi")); err != nil || string(got) != "a.b > *|hi|[]" {
		t.Errorf("the answer is %q, %v", got, err)
	}
	if got, err := asker.RequestWith(ctx, names.A2E("x"), map[string][]string{"X": {"h"}}, nil); err != nil || string(got) != "x||[h]" {
		t.Errorf("a request with a header is answered with %q, %v", got, err)
	}
	_, err := asker.Request(ctx, names.Namespace()+".a2e.=zz", []byte("hi"))
	wantKind(t, "a token that is no agent", err, actor.SchemaViolation)
	var refusal *bus.ServiceError
	if !errors.As(err, &refusal) || refusal.Code != "400" || len(refusal.Data) == 0 {
		t.Errorf("the refusal is %#v, want code 400 with the body that came with it", refusal)
	}
	refused, err := asker.NC.RequestWithContext(ctx, names.Namespace()+".a2e.=zz", []byte(`{"type":"SUBAGENT_LIST_REQ","id":"r1"}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := a2e.DecodeAnswer(refused.Data)
	if e, ok := body.(*a2e.Error); !ok || e.Code != actor.SchemaViolation || e.ReqID != "r1" {
		t.Errorf("the body for a token that is no agent is %q, %v; want the protocol's error, about the request r1", refused.Data, err)
	}

	var info micro.Info
	text, err := asker.Request(ctx, "$SRV.INFO."+names.Namespace(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &info); err != nil || info.Version != "1.2.3" || len(info.Endpoints) != 1 || info.Endpoints[0].Subject != names.A2EAll() {
		t.Errorf("info %s (error: %v), want one endpoint at %s", text, err, names.A2EAll())
	}
	var stats micro.Stats
	text, err = asker.Request(ctx, "$SRV.STATS."+names.Namespace(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &stats); err != nil || len(stats.Endpoints) != 1 || stats.Endpoints[0].NumRequests != 4 {
		t.Errorf("stats %s (error: %v), want 4 requests", text, err)
	}
	stop()
	_, err = asker.Request(ctx, names.A2E("x"), nil)
	wantKind(t, "after the service has stopped", err, actor.Unavailable)
	err = conn.ServeA2E(ctx, names, "not a version", func() {}, func(bus.Request) {})
	wantKind(t, "a version that is none", err, actor.SchemaViolation)
}

// A request must not make the runtime write where the caller may not.
func TestServeA2EForbiddenReply(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.Conn(t, srv), natstest.Names(t)
	got := make(chan bus.Request, 10)
	serveA2E(t, conn, names, func(r bus.Request) { got <- r })
	for _, reply := range []string{names.Inbox("sub_1", actor.LaneCtl, "runtime"), "$JS.API.STREAM.DELETE.x", "$KV.b.k"} {
		for _, subject := range []string{names.A2E("x"), names.Namespace() + ".a2e.=zz"} {
			if err := conn.NC.PublishRequest(subject, reply, []byte("evil")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := conn.Publish(names.A2E("x"), []byte("good")); err != nil {
		t.Fatal(err)
	}
	if r := next(t, "a request", got); string(r.Data) != "good" || r.Reply != "" {
		t.Errorf("handle got %+v, want only the request without a reply", r)
	}
}

// What has arrived when the service stops is handled, what comes later is not.
func TestServeA2EDrains(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.Conn(t, srv), natstest.Names(t)
	var handled atomic.Int64
	stop := serveA2E(t, conn, names, func(bus.Request) { handled.Add(1) })
	asker := natstest.Conn(t, srv)
	const n = 5000
	for range n {
		if err := asker.Publish(names.A2E("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := asker.NC.FlushWithContext(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	if handled.Load() != n {
		t.Errorf("%d of %d requests were handled", handled.Load(), n)
	}
}

// Large requests that come faster than they are handled wait, and are answered.
func TestServeA2EBurst(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.Conn(t, srv), natstest.Names(t)
	open := make(chan struct{})
	serveA2E(t, conn, names, func(r bus.Request) {
		<-open
		if err := conn.Publish(r.Reply, nil); err != nil {
			t.Error(err)
		}
	})
	asker := natstest.Conn(t, srv)
	const n = 100 // 100 MB, where NATS keeps 64 by default
	answers := make(chan struct{}, n)
	inbox := asker.NewInbox()
	stop, err := asker.Subscribe(inbox, func(string, []byte) { answers <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	data := make([]byte, 1_000_000)
	for range n {
		if err := asker.NC.PublishRequest(names.A2E("x"), inbox, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := asker.NC.FlushWithContext(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := conn.NC.FlushWithContext(natstest.Context(t)); err != nil { // all have arrived
		t.Fatal(err)
	}
	close(open)
	for i := range n {
		next(t, fmt.Sprint("answer ", i), answers)
	}
}

// Two processes share the requests.
func TestServeA2EShares(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	names := natstest.Names(t)
	got := make(chan int, 1000)
	for i := range 2 {
		conn := natstest.Conn(t, srv)
		serveA2E(t, conn, names, func(bus.Request) { got <- i })
	}
	asker := natstest.Conn(t, srv)
	natstest.Await(t, "both have had a request", func() bool {
		if err := asker.Publish(names.A2E("x"), nil); err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for range len(got) {
			i := <-got
			seen[i] = true
			got <- i
		}
		return len(seen) == 2
	})
}
