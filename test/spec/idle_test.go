package spec

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

// A task without progress for idle_timeout_seconds ends as FAILED with stopReason timeout; a model that tells how it
// goes, or a session that waits for another, may take longer.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	talks := modelFunc(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < 2500*time.Millisecond; {
			select {
			case <-tick.C:
				r.Progress("still at it")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return &model.Response{Done: true, Result: json.RawMessage(`{"took":"its time"}`)}, nil
	})
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": newGate(), "test/talks": talks})
	hangs := s.spawn(me, `"model":"test/gate","idle_timeout_seconds":1`)
	told := s.spawn(me, `"model":"test/talks","idle_timeout_seconds":1`)
	waits := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"],"idle_timeout_seconds":1`)
	s.delegate(me, hangs, `null`)
	s.delegate(me, told, `null`)
	s.delegate(me, waits, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"slow","model":"test/talks"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"i"}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}}]`)
	got := s.await(me, hangs)
	got.is("status", `"FAILED"`)
	got.is("error", `"no progress for 1s"`)
	if e := s.entry(hangs); e.StopReason != "timeout" {
		t.Errorf("it was stopped by %q, want timeout", e.StopReason)
	}
	s.await(me, told).is("result", `{"took":"its time"}`)
	s.await(me, waits).is("result.result", `{"took":"its time"}`)
	s.noDeadLetters()
}

// Whoever is above may give a task more time, once for each request; the extension survives a restart.
func TestExtend(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	id := s.spawn(me, `"model":"test/gate","timeout_seconds":1`)
	s.refused("conflict", "", me, `{"type":"SUBAGENT_EXTEND_REQ","subagent_id":%q,"seconds":60}`, id)
	w := s.watch(me)
	s.delegate(me, id, `null`)
	next(s, "the step", g.entered)
	const extend = `{"type":"SUBAGENT_EXTEND_REQ","id":"e1","subagent_id":%q,"seconds":60}`
	got := s.ask(me, extend, id)
	got.is("event", `"extended"`)
	deadline := got.text("content.deadline")
	if again := s.ask(me, extend, id); again.text("content.deadline") != deadline {
		t.Errorf("the same request gave the deadline %s, and then %s", deadline, again.text("content.deadline"))
	}
	if e := s.entry(id); e.Deadline-e.SessionAt != 61e6 {
		t.Errorf("the task has %v in all, want 61s", time.Duration(e.Deadline-e.SessionAt)*time.Microsecond)
	}
	w.named(id, "extended").is("content.deadline", deadline)
	s.refused("not_found", "", "stranger", extend, id)
	s.refused("schema_violation", "seconds", me, `{"type":"SUBAGENT_EXTEND_REQ","subagent_id":%q,"seconds":0}`, id)
	s.StopHost(t)
	s.StartHost(t)
	next(s, "the step again", g.entered)
	over := time.NewTimer(1500 * time.Millisecond) // the deadline that it had first is over then
	defer over.Stop()
	<-over.C
	g.open <- struct{}{}
	s.await(me, id).is("status", `"COMPLETED"`)
	s.refused("conflict", "", me, `{"type":"SUBAGENT_EXTEND_REQ","subagent_id":%q,"seconds":60}`, id)
	s.noDeadLetters()
}

// A step that waits for its turn under --max-running could make no progress: its clock begins when it does. One that runs
// and says nothing is ended all the same, also while another call of its session waits.
func TestIdleClockStandsInLine(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{Running: 1}, map[string]model.Model{"test/gate": g})
	holds := s.spawn(me, `"model":"test/gate"`)
	s.delegate(me, holds, `null`)
	next(s, "the step that has the place", g.entered)
	waits := s.spawn(me, `"model":"test/gate","idle_timeout_seconds":1`)
	s.delegate(me, waits, `null`)
	over := time.NewTimer(2500 * time.Millisecond) // the idle timer has fired twice by then
	defer over.Stop()
	<-over.C
	s.eventually(me, waits, "RUNNING")
	g.open <- struct{}{}
	if id := next(s, "the step that waited", g.entered); id != waits {
		t.Fatalf("the step of %s began, want that of %s, which waited", id, waits)
	}
	s.await(me, holds).is("status", `"COMPLETED"`)
	s.await(me, waits).is("error", `"no progress for 1s"`) // it runs now, and hangs
	next(s, "the end of the step", g.aborted)
	s.noDeadLetters()
}
