package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

func TestSmoke(t *testing.T) {
	server, err := bus.StartServer(bus.ServerConfig{Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Config{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names, _ := subjects.New("")
	layout, err := conn.Ensure(ctx, bus.Layout{Names: names, Partitions: 8, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Conn: conn, Store: st, Names: names, Partitions: layout.Partitions, Member: server.Member(), Version: "0.1.0", Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	hctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Serve(hctx) }()
	<-h.Ready()
	ask := func(q string) string {
		data, err := conn.Request(ctx, names.A2E("parent_1"), []byte(q))
		t.Logf("%s\n -> %s %v", q, data, err)
		return string(data)
	}
	resp := ask(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"researcher","model":"builtin/echo"}}`)
	id := resp[len(`{"type":"SUBAGENT_SPAWN_RESP","subagent_id":"`):][:12]
	ask(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"` + id + `","task":{"name":"t","instruction":"hello"}}`)
	ask(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"` + id + `"}`)
	ask(`{"type":"SUBAGENT_LIST_REQ"}`)
	ask(`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["` + id + `"]}`)
	ask(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":"` + id + `"}`)
	ask(`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":"` + id + `"}`)
	ask(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"` + id + `"}`)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
