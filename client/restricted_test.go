package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

const twoUsers = `listen: 127.0.0.1:-1
authorization { users: [
	{user: admin, password: admin}
	{user: me, password: mine, permissions: {
		publish: ["troupe.a2e.me", "troupe.inbox.*.a.me"]
		subscribe: "_INBOX.>"
	}}
] }
`

// hostWithUsers runs a host on an embedded server whose configuration asks for credentials.
func hostWithUsers(t *testing.T, config string) (*bus.Server, subjects.Names) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	srv, err := bus.StartServer(bus.ServerConfig{Store: filepath.Join(dir, "store"), ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Conn: conn, Store: st, Names: names, Partitions: layout.Partitions, Member: srv.Member(), Version: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, "the host", h.Serve)
	next(t, "the host", h.Ready())
	return srv, names
}

// An agent that may publish its own requests and messages, and listen to answers, can do its work and
// nothing else.
func TestARestrictedAgent(t *testing.T) {
	t.Parallel()
	srv, names := hostWithUsers(t, twoUsers)
	ctx := natstest.Context(t)
	refusals := make(chan string, 100)
	conn, err := bus.Connect(ctx, bus.Config{URL: strings.Replace(srv.URL(), "nats://", "nats://me:mine@", 1), Options: []nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err.Error() }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "me"})
	if err != nil {
		t.Fatal(err)
	}
	r := room{Client: c, ctx: ctx}
	id := r.spawn(t, "s", "builtin/echo")
	r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: "hello"})
	r.wants(t, id, a2e.Completed, `{"output":"hello"}`)
	if err := conn.Publish(names.Inbox(id, actor.LaneA, "me"), []byte(`{"content":"hi"}`)); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{
		names.Inbox(id, actor.LaneCtl, "me"), names.Inbox(id, actor.LaneQueue, "me"), names.Inbox(id, actor.LaneHost, "me"),
		names.Inbox(id, actor.LaneA, "you"), names.A2E("you"), "$JS.API.INFO", "$JS.API.STREAM.DELETE." + names.InboxStream(),
	} {
		if err := conn.Publish(subject, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("Permissions Violation for Publish to %q", subject)
		if got := next(t, "the refusal of "+subject, refusals); !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
			t.Fatalf("after a publish to %s: %s; want %s", subject, got, want)
		}
	}
	for _, subject := range []string{"troupe.>", "$JS.>", "$KV.>"} {
		if _, err := conn.NC.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if got := next(t, "the refusal of "+subject, refusals); !strings.Contains(strings.ToLower(got), strings.ToLower(fmt.Sprintf("for Subscription to %q", subject))) {
			t.Fatalf("after a subscription to %s: %s; want it refused", subject, got)
		}
	}
}
