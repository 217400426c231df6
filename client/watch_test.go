package client_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

func TestEventsOfTheTree(t *testing.T) {
	r := newRoom(t)
	events := make(chan a2e.Event, 100)
	stop, err := r.Subscribe(func(e a2e.Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	other := newClient(t, r.Troupe, r.Conn, "somebody else")
	if _, err := other.Spawn(r.ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "builtin/echo"}}); err != nil {
		t.Fatal(err)
	}
	id := r.spawn(t, "s", "builtin/echo")
	if e := next(t, "the event spawned", events); e.SubagentID != id || e.Event != "spawned" {
		t.Fatalf("event %s of %s, want spawned of %s and nothing of other trees", e.Event, e.SubagentID, id)
	}
	stop()
	r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: "x"})
	r.wants(t, id, a2e.Completed, `{"output":"x"}`)
	if len(events) > 0 {
		t.Fatalf("%s was told after stop", (<-events).Event)
	}
	serve(t, "Watch", func(ctx context.Context) error { return r.Watch(ctx, func(a2e.Event) {}) })
}

func TestEntries(t *testing.T) {
	r := newRoom(t)
	a := r.spawn(t, "first", "builtin/echo")
	changes := make(chan agent.Entry, 100)
	serve(t, "WatchEntries", func(ctx context.Context) error { return r.WatchEntries(ctx, "", func(e agent.Entry) { changes <- e }) })
	if e := next(t, "what was there", changes); e.SubagentID != a || e.A2E() != a2e.Ready {
		t.Fatalf("the first entry is %+v, want %s, READY", e, a)
	}
	b := r.spawn(t, "second", "builtin/echo")
	r.task(t, a, a2e.TaskDefinition{Name: "t", Instruction: "x"})
	seq := map[actor.ID]uint64{}
	for closed := false; !closed || seq[b] == 0; {
		e := next(t, "a change", changes)
		if e.Seq < seq[e.SubagentID] {
			t.Fatalf("%s was told as of %d after %d", e.SubagentID, e.Seq, seq[e.SubagentID])
		}
		seq[e.SubagentID] = e.Seq
		closed = closed || e.SubagentID == a && e.A2E() == a2e.Completed
	}
	entries, err := r.Entries(r.ctx, "")
	if err != nil || len(entries) != 2 || entries[0].Name != "first" || entries[1].Name != "second" {
		t.Fatalf("%+v, %v; want both, in creation order", entries, err)
	}
}

// Mail has every completion once, also for a reader that goes on where it was, and messages.
func TestMailExactlyOnce(t *testing.T) {
	r := newRoom(t)
	want := map[actor.ID]bool{}
	for range 20 {
		id := r.spawn(t, "s", "builtin/echo")
		r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: "x"})
		want[id] = true
	}
	mail := make(chan client.Delivery, 100)
	reading, leave := context.WithCancel(r.ctx)
	left := make(chan error, 1)
	go func() { left <- r.Mail(reading, 0, func(d client.Delivery) { mail <- d }) }()
	var last client.Delivery
	for range want {
		last = next(t, "a completion", mail)
		if !want[last.From] || last.Completion == nil || last.Completion.Session != 1 {
			t.Fatalf("%+v: twice, or not what was to come", last)
		}
		want[last.From] = false
	}
	leave()
	if err := <-left; err != nil {
		t.Fatalf("Mail ended with %v, want nil when its context ends", err)
	}
	delivered, err := r.Send(r.ctx, client.Message{From: last.From, To: r.Agent(), Type: "note", Content: json.RawMessage(`[1]`)})
	if err != nil || !delivered {
		t.Fatalf("a message to the agent: %v, %v; want it delivered", delivered, err)
	}
	serve(t, "Mail", func(ctx context.Context) error { return r.Mail(ctx, last.Seq, func(d client.Delivery) { mail <- d }) })
	if d := next(t, "the message", mail); d.Message == nil || string(d.Message.Message.Content) != "[1]" || d.From != last.From {
		t.Fatalf("behind the last completion comes %+v, want the message alone", d)
	}
}

func TestPublishOpensASession(t *testing.T) {
	r := newRoom(t)
	mail := make(chan client.Delivery, 10)
	serve(t, "Mail", func(ctx context.Context) error { return r.Mail(ctx, 0, func(d client.Delivery) { mail <- d }) })
	id := r.spawn(t, "s", "builtin/echo")
	if seq, err := r.Publish(r.ctx, client.Message{To: id, Content: json.RawMessage(`"wake up"`)}); err != nil || seq == 0 {
		t.Fatalf("published as %d, %v", seq, err)
	}
	d := next(t, "the completion", mail)
	if d.From != id || string(d.Completion.Result) != `{"output":"wake up"}` {
		t.Fatalf("the mail is %+v, want the outcome of a session that the message opened", d)
	}
	_, err := r.Publish(r.ctx, client.Message{To: id, Content: json.RawMessage(`{`)})
	wantKind(t, "a message that is not JSON", err, actor.SchemaViolation, "content")
}
