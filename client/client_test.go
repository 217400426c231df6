package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/test/natstest"
)

func TestFromSpawnToTermination(t *testing.T) {
	r := newRoom(t)
	id := r.spawn(t, "researcher", "builtin/echo")
	r.wants(t, id, a2e.Ready, "")
	r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: "hello"})
	r.wants(t, id, a2e.Completed, `{"output":"hello"}`)

	list, err := r.List(r.ctx, client.ListRequest{Status: []a2e.Status{a2e.Completed}})
	if err != nil || len(list) != 1 || list[0].SubagentID != id {
		t.Fatalf("the list is %+v, %v; want %s alone", list, err, id)
	}
	merged, err := r.Merge(r.ctx, a2e.Voting, id)
	if err != nil || !strings.Contains(string(merged), `"votes":1`) {
		t.Fatalf("merged: %s, %v; want one vote", merged, err)
	}
	event, err := r.Cancel(r.ctx, id)
	if err != nil || event.Event != "status_changed" {
		t.Fatalf("cancel of a closed one: %+v, %v; want the event that nothing changed", event, err)
	}
	event, err = r.Terminate(r.ctx, id)
	if err != nil || event.Event != "terminated" {
		t.Fatalf("terminate: %+v, %v", event, err)
	}
	resp, err := r.Delegate(r.ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "more"})
	if err != nil || resp.Accepted || resp.Status != a2e.Terminated {
		t.Fatalf("a task for a terminated one: %+v, %v; want it refused in the answer", resp, err)
	}
	delivered, err := r.Send(r.ctx, client.Message{To: id, Type: "note", Content: json.RawMessage(`null`)})
	if err != nil || delivered {
		t.Fatalf("a message to a terminated one: delivered %v, %v; want false", delivered, err)
	}
}

func TestListFollowsCursors(t *testing.T) {
	r := newRoom(t)
	const n = 10
	for i := range n {
		config := a2e.SubagentConfig{Name: fmt.Sprint("s", i), Model: "builtin/echo", SystemPrompt: strings.Repeat("p", 100<<10)}
		if _, err := r.Spawn(r.ctx, client.SpawnRequest{Agent: config}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List(r.ctx, client.ListRequest{})
	if err != nil || len(list) != n {
		t.Fatalf("%d listed, %v; want all %d, over several pages", len(list), err, n)
	}
	for i, s := range list {
		if s.Name != fmt.Sprint("s", i) {
			t.Fatalf("place %d has %s: not in creation order", i, s.Name)
		}
	}
	if list, err = r.List(r.ctx, client.ListRequest{Limit: 7}); err != nil || len(list) != 7 {
		t.Fatalf("%d listed, %v; want the limit of 7", len(list), err)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	r := newRoom(t)
	id := r.spawn(t, "s", "builtin/echo")
	_, err := r.Await(r.ctx, "sub_00000000")
	wantKind(t, "await of one that does not exist", err, actor.NotFound, "")
	_, err = r.Cancel(r.ctx, "sub_00000000")
	wantKind(t, "cancel of one that does not exist", err, actor.NotFound, "subagent_id")
	_, err = r.Spawn(r.ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Model: "builtin/echo"}})
	wantKind(t, "spawn without a name", err, actor.SchemaViolation, "agent.name")
	_, err = r.Merge(r.ctx, "custom:nobody", id)
	wantKind(t, "a merge by nobody", err, actor.SchemaViolation, "strategy")
	_, err = r.Gather(r.ctx, a2e.ModeQuorum, 2, id)
	wantKind(t, "a quorum of two of one", err, actor.SchemaViolation, "quorum")
	_, err = r.Delegate(r.ctx, id, a2e.TaskDefinition{Name: "t", Instruction: strings.Repeat("x", 2<<20)})
	wantKind(t, "a task that is too large", err, actor.TooLarge, "")
	r.wants(t, id, a2e.Ready, "") // it was not sent

	busy := r.play(t, `[{"sleep_ms":60000}]`)
	_, err = r.Await(shortly(t), busy)
	wantKind(t, "await of one that takes longer", err, actor.Timeout, "")

	stranger := newClient(t, r.Troupe, r.Conn, "stranger")
	_, err = stranger.Await(r.ctx, id)
	wantKind(t, "await of another's subagent", err, actor.NotFound, "")
	_, err = client.New(client.Config{Conn: r.Conn, Names: r.Names})
	wantKind(t, "a client for nobody", err, actor.SchemaViolation, "agent")
}

func TestUnavailableWithoutAHost(t *testing.T) {
	r := newRoom(t)
	r.StopHost(t)
	_, err := r.Spawn(shortly(t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "builtin/echo"}})
	wantKind(t, "spawn while no host runs", err, actor.Unavailable, "")
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	_, err = r.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "builtin/echo"}})
	wantKind(t, "spawn with a cancelled context", err, actor.Timeout, "")
}

// CASES 9: the tries of one request have one key.
func TestOneKeyForAllTries(t *testing.T) {
	t.Parallel()
	conn := natstest.Conn(t, natstest.Start(t))
	names := natstest.Names(t)
	seen := make(chan string, 100)
	tries := 0
	serve(t, "the door", func(ctx context.Context) error { // the first tries may find nobody at all
		return serveDoor(ctx, conn, names, func(env a2e.Envelope) a2e.Message {
			seen <- env.ID
			if tries++; tries%3 != 0 {
				return a2e.NewError(env, time.Now(), &actor.Error{Kind: actor.Unavailable})
			}
			return &a2e.SpawnResp{Envelope: a2e.Answer(env, time.Now()), SubagentID: "sub_00000001", Status: a2e.Ready}
		})
	})
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Spawn(natstest.Context(t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "m"}}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for range 6 {
		keys = append(keys, next(t, "a try", seen))
	}
	if keys[0] == "" || keys[0] != keys[1] || keys[0] != keys[2] || keys[3] != keys[5] || keys[0] == keys[3] {
		t.Fatalf("the tries had the keys %q; want one for the first three, another for the rest", keys)
	}
}

// CASES 8: the same key gives the same child, another key another one.
func TestCallersKey(t *testing.T) {
	r := newRoom(t)
	spawn := func(key, name string) (actor.ID, error) {
		return r.WithKey(key).Spawn(r.ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: name, Model: "builtin/echo"}})
	}
	first, err := spawn("order 17", "s")
	if err != nil {
		t.Fatal(err)
	}
	again, err := spawn("order 17", "s")
	if err != nil || again != first {
		t.Fatalf("the same key made %s, %v; want %s again", again, err, first)
	}
	other, err := spawn("order 18", "s")
	if err != nil || other == first {
		t.Fatalf("another key made %s, %v; want another child", other, err)
	}
	_, err = spawn("order 17", "something else")
	wantKind(t, "the key with another request", err, actor.Conflict, "id")
	for range 2 {
		resp, err := r.WithKey("task 1").Delegate(r.ctx, first, a2e.TaskDefinition{Name: "t", Instruction: "x"})
		if err != nil || !resp.Accepted {
			t.Fatalf("a task with a key: %+v, %v; want the answer of the first time", resp, err)
		}
	}
}
