package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// join starts a host on a connection of its own, and gives what stops it.
func join(t *testing.T, conn *bus.Conn, layout bus.Layout, member string) (stop func()) {
	t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	return joinAs(t, conn, layout, host.Config{Member: member, Log: log})
}

// joinAs is join for a host that is configured.
func joinAs(t *testing.T, conn *bus.Conn, layout bus.Layout, cfg host.Config) (stop func()) {
	t.Helper()
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: layout.Names})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Conn, cfg.Store, cfg.Names, cfg.Partitions, cfg.Version = conn, st, layout.Names, layout.Partitions, "0.1.0"
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	select {
	case <-h.Ready():
	case err := <-done:
		t.Fatalf("host %s ended before it was ready: %v", cfg.Member, err)
	case <-natstest.Context(t).Done():
		t.Fatalf("host %s was not ready in time", cfg.Member)
	}
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("host %s ended with %v", cfg.Member, err)
		}
	})
}

// Two hosts on a cluster of three servers go on when the leader of the journal is stopped: no task is lost and
// no completion comes twice.
func TestClusterLosesALeader(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cluster := natstest.NewCluster(t, 3)
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	conn := cluster.Conn(t)
	layout, err := conn.Ensure(ctx, bus.Layout{Names: names, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer join(t, cluster.Conn(t), layout, "one")()
	defer join(t, cluster.Conn(t), layout, "two")()
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "parent_1"})
	if err != nil {
		t.Fatal(err)
	}
	const children = 40
	task := a2e.TaskDefinition{Name: "t", Instruction: "x", SuccessCriteria: []string{}, Metadata: map[string]json.RawMessage{
		"script": json.RawMessage(`[{"sleep_ms":300},{"progress":"half"},{"sleep_ms":300},{"result":{"done":true}}]`),
	}}
	ids := make([]actor.ID, children)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: fmt.Sprint("child ", i), Model: "builtin/script"}})
			if err == nil {
				ids[i] = id
				_, err = c.Delegate(ctx, id, task)
			}
			if err != nil {
				t.Errorf("child %d: %v", i, err)
			}
			if i == children/2 {
				cluster.Leader(t, conn, names.JournalStream()).Stop(t)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		resp, err := c.Await(ctx, id)
		if err != nil || resp.Status != a2e.Completed {
			t.Errorf("%s ended as %+v, %v; want COMPLETED", id, resp, err)
		}
	}
	mailed(ctx, t, c, ids)
}

// mailed reads the mail until each of ids has one completion in it, and fails if one comes twice.
func mailed(ctx context.Context, t *testing.T, c *client.Client, ids []actor.ID) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := map[actor.ID]int{}
	err := c.Mail(ctx, 0, func(d client.Delivery) {
		seen[d.From]++
		if len(seen) == len(ids) {
			cancel()
		}
	})
	if err != nil && ctx.Err() == nil {
		t.Fatalf("read the mail: %v", err)
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("%s has %d completions in the mail, want 1", id, seen[id])
		}
	}
}
