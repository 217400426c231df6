package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
	"github.com/troupehq/troupe/worker"
)

// withUsers is a server with an account for workers of tool/render, as docs/worker-protocol.md gives it.
const withUsers = `listen: 127.0.0.1:-1
authorization { users: [
	{user: admin, password: admin}
	{user: render, password: mine, permissions: {
		publish: [
			"troupe.inbox.*.job.tool=2Frender", "troupe.job.*.*.progress",
			"$JS.API.CONSUMER.CREATE.troupe_work.work_tool_render.troupe.work.tool.render.>",
			"$JS.API.CONSUMER.INFO.troupe_work.work_tool_render", "$JS.API.CONSUMER.MSG.NEXT.troupe_work.work_tool_render",
			"$JS.ACK.troupe_work.work_tool_render.>"
		]
		subscribe: ["_INBOX.>", "troupe.job.*.*.cancel"]
	}}
] }
`

// A worker's account can serve its own service and nothing else: it answers for no other, and sees no other's jobs.
func TestARestrictedWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(withUsers), 0o600); err != nil {
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
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	tr := &natstest.Troupe{Conn: hosting(t, srv, names), Names: names}
	s := &stage{tr, t}
	refusals := make(chan string, 100)
	mine, err := bus.Connect(natstest.Context(t), bus.Config{URL: strings.Replace(srv.URL(), "nats://", "nats://render:mine@", 1), Options: []nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err.Error() }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mine.Close)
	w, err := worker.New(worker.Config{Conn: mine, Names: names, Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		j.Progress("rendering")
		return result(`"rendered"`)
	})})
	if err != nil {
		t.Fatal(err)
	}
	serving(t, w.Serve)
	s.ends(s.calls("render", `{"text":"x"}`), "COMPLETED", "rendered")
	s.queueEmpties()
	if len(refusals) > 0 {
		t.Errorf("the server refused what a worker needs: %s", <-refusals)
	}
	for _, subject := range []string{
		names.Inbox("sub_00000001", actor.LaneJob, "tool/other"), names.Inbox("sub_00000001", actor.LaneCtl, "x"), names.Inbox("sub_00000001", actor.LaneA, "render"),
		names.Work("tool", "render", "sub_00000001", 1), names.JobCancel("sub_00000001", 1),
		"$JS.API.CONSUMER.MSG.NEXT.troupe_work.work_tool_other", "$JS.API.STREAM.PURGE.troupe_work", "$JS.ACK.troupe_work.work_tool_other.1",
	} {
		if err := mine.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := mine.NC.FlushWithContext(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
		if said := s.next(refusals, "the refusal of "+subject); !strings.Contains(said, subject) {
			t.Errorf("a worker publishes to %s; the server said %q", subject, said)
		}
	}
}

// hosting runs a host on a server, and gives a connection for whoever asks it.
func hosting(t *testing.T, srv *bus.Server, names subjects.Names) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	layout, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tool.New(tool.Config{Remotes: []tool.Remote{{Name: "render", Schema: json.RawMessage(`{"type":"object"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Conn: conn, Store: st, Names: names, Partitions: layout.Partitions, Member: srv.Member(), Version: "0.1.0", Tools: registry})
	if err != nil {
		t.Fatal(err)
	}
	serving(t, h.Serve)
	select {
	case <-h.Ready():
	case <-natstest.Context(t).Done():
		t.Fatal("the host is not ready")
	}
	return conn
}

// serving runs what has Serve until the test ends.
func serving(t *testing.T, serve func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}
