package client_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// A room is a host with a client of it.
type room struct {
	*natstest.Troupe
	*client.Client
	ctx context.Context
}

func newRoom(t *testing.T) room {
	t.Helper()
	t.Parallel()
	tr := natstest.StartTroupe(t, host.Config{})
	return room{tr, newClient(t, tr, natstest.Conn(t, tr.Server), "planner"), natstest.Context(t)}
}

func newClient(t *testing.T, tr *natstest.Troupe, conn *bus.Conn, agent actor.ID) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Conn: conn, Names: tr.Names, Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r room) spawn(t *testing.T, name, model string) actor.ID {
	t.Helper()
	id, err := r.Spawn(r.ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: name, Model: model}})
	if err != nil {
		t.Fatalf("spawn %s: %v", name, err)
	}
	return id
}

// play spawns a subagent that plays a script, and starts it.
func (r room) play(t *testing.T, script string) actor.ID {
	t.Helper()
	id := r.spawn(t, "player", "builtin/script")
	r.task(t, id, a2e.TaskDefinition{Name: "play", Instruction: "play", Metadata: map[string]json.RawMessage{"script": json.RawMessage(script)}})
	return id
}

func (r room) task(t *testing.T, id actor.ID, task a2e.TaskDefinition) {
	t.Helper()
	resp, err := r.Delegate(r.ctx, id, task)
	if err != nil || !resp.Accepted {
		t.Fatalf("delegate to %s: %+v, %v; want it accepted", id, resp, err)
	}
}

// wants awaits a subagent and holds its answer against what is wanted.
func (r room) wants(t *testing.T, id actor.ID, status a2e.Status, result string) {
	t.Helper()
	resp, err := r.Await(r.ctx, id)
	if err != nil {
		t.Fatalf("await %s: %v", id, err)
	}
	if resp.Status != status || string(resp.Result) != result {
		t.Fatalf("%s is %s with %.300s, want %s with %.300s", id, resp.Status, resp.Result, status, result)
	}
}

func wantKind(t *testing.T, what string, err error, kind actor.Kind, field string) {
	t.Helper()
	var e *actor.Error
	if e, _ = err.(*actor.Error); e == nil {
		t.Fatalf("%s: %v is not an *actor.Error", what, err)
	}
	if e.Kind != kind || e.Field != field {
		t.Fatalf("%s: kind %q, field %q, want %q and %q (%v)", what, e.Kind, e.Field, kind, field, err)
	}
}

// next takes what must come.
func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-natstest.Context(t).Done():
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// serve runs something until the test ends.
func serve(t *testing.T, what string, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v, want nil when its context ends", what, err)
		}
	})
}

// shortly is long enough for what must not happen to happen.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
