package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/test/natstest"
)

// A host that is frozen takes its share of the requests and answers none. Every request succeeds all the
// same, and is done once.
func TestAFrozenHostIsOutvoted(t *testing.T) {
	r := newRoom(t)
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute) // half of all tries are lost
	defer cancel()
	ids := make([]actor.ID, 5)
	for i := range ids {
		ids[i] = r.spawn(t, "s", "builtin/echo")
	}
	r.task(t, ids[0], a2e.TaskDefinition{Name: "t", Instruction: "x"})
	r.wants(t, ids[0], a2e.Completed, `{"output":"x"}`)
	var swallowed atomic.Int64
	frozen := natstest.Conn(t, r.Server)
	if _, err := frozen.NC.QueueSubscribe(r.Names.A2EAll(), "q", func(*nats.Msg) { swallowed.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if err := frozen.NC.FlushWithContext(r.ctx); err != nil {
		t.Fatal(err)
	}
	for swallowed.Load() == 0 {
		if _, err := r.List(r.ctx, client.ListRequest{}); err != nil {
			t.Fatalf("list: %v", err)
		}
	}
	calls := r.everyCall(ids)
	done := make(chan error, len(calls))
	for name, call := range calls {
		go func() {
			err := call()
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			done <- err
		}()
	}
	for range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if list, err := r.List(r.ctx, client.ListRequest{}); err != nil || len(list) != len(ids)+1 {
		t.Fatalf("%d subagents, %v; want %d: a spawn was done twice, or not at all", len(list), err, len(ids)+1)
	}
}

// everyCall makes each kind of request once, of five subagents, of which the first has completed.
func (r room) everyCall(ids []actor.ID) map[string]func() error {
	return map[string]func() error{
		"spawn": func() error {
			_, err := r.Spawn(r.ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "builtin/echo"}})
			return err
		},
		"await": func() error {
			resp, err := r.Await(r.ctx, ids[0])
			if err == nil && resp.Status != a2e.Completed {
				err = fmt.Errorf("%+v, want COMPLETED", resp)
			}
			return err
		},
		"merge": func() error {
			_, err := r.Merge(r.ctx, a2e.Voting, ids[0])
			return err
		},
		"delegate": func() error {
			resp, err := r.Delegate(r.ctx, ids[1], a2e.TaskDefinition{Name: "t", Instruction: "x"})
			if err == nil && !resp.Accepted {
				err = fmt.Errorf("%+v, want it accepted", resp)
			}
			return err
		},
		"message": func() error {
			_, err := r.Send(r.ctx, client.Message{To: ids[2], Type: "note", Content: json.RawMessage(`1`)})
			return err
		},
		"cancel": func() error {
			_, err := r.Cancel(r.ctx, ids[3])
			return err
		},
		"terminate": func() error {
			_, err := r.Terminate(r.ctx, ids[4])
			return err
		},
	}
}

// The first answer wins, also when it is that to a try which others have followed, and no answer in sight
// ends with the context.
func TestALateAnswerCounts(t *testing.T) {
	t.Parallel()
	conn := natstest.Conn(t, natstest.Start(t))
	ctx, names := natstest.Context(t), natstest.Names(t)
	first := make(chan bus.Request, 100)
	serve(t, "the door", func(ctx context.Context) error {
		return conn.ServeA2E(ctx, names, "0.0.1", func() {}, func(r bus.Request) { first <- r })
	})
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	spawned := make(chan error, 1)
	go func() {
		_, err := c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "m"}})
		spawned <- err
	}()
	early := next(t, "the first try", first)
	again := next(t, "the second", first)
	if env, other := a2e.DecodeEnvelope(early.Data), a2e.DecodeEnvelope(again.Data); env.ID != other.ID {
		t.Fatalf("the tries have the keys %q and %q, want one", env.ID, other.ID)
	}
	data, err := a2e.Encode(&a2e.SpawnResp{Envelope: a2e.Answer(a2e.DecodeEnvelope(early.Data), time.Now()), SubagentID: "sub_00000001", Status: a2e.Ready})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(early.Reply, data); err != nil {
		t.Fatal(err)
	}
	if err := next(t, "the answer", spawned); err != nil {
		t.Fatalf("the answer to the first try came after the second, and was lost: %v", err)
	}
	_, err = c.Spawn(shortly(t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "m"}})
	wantKind(t, "no answer at all", err, actor.Timeout, "")
}

// That a host waited in vain is not the end, until the request's own time is over.
func TestAHostsTimeoutIsAskedAgain(t *testing.T) {
	t.Parallel()
	conn := natstest.Conn(t, natstest.Start(t))
	ctx, names := natstest.Context(t), natstest.Names(t)
	tries := 0
	serve(t, "the door", func(ctx context.Context) error {
		return serveDoor(ctx, conn, names, func(env a2e.Envelope) a2e.Message {
			if tries++; tries != 2 {
				return a2e.NewError(env, time.Now(), &actor.Error{Kind: actor.Timeout})
			}
			return &a2e.AwaitResp{Envelope: a2e.Answer(env, time.Now()), SubagentID: "sub_00000001", Status: a2e.Completed}
		})
	})
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Await(ctx, "sub_00000001"); err != nil || resp.Status != a2e.Completed {
		t.Fatalf("%+v, %v; want the answer to the second try", resp, err)
	}
	start := time.Now()
	_, err = c.Do(ctx, &a2e.AwaitReq{SubagentID: "sub_00000001", TimeoutSeconds: 0.1})
	wantKind(t, "the host's word that the time is over", err, actor.Timeout, "")
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Fatalf("after %v of 100 ms: the host's word was not taken for the end", took)
	}
}
