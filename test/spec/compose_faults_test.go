package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// The values that come with a spawn are that instance's alone, also when many are spawned at once.
func TestScopedEnvIsTheInstancesAlone(t *testing.T) {
	t.Parallel()
	s := stageOf(t, nil, worker, `{"name":"keyed","requiredEnv":["KEY"],`+prompted("builtin/echo", "")+`}`)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","id":"r%d","definition":"keyed","scoped_env":{"KEY":"v%d"}}`, i, i).text("subagent_id")
			if v, err := s.Store.Env.Get(s.ctx, actor.ID(id)); err != nil || v["KEY"] != fmt.Sprintf("v%d", i) {
				t.Errorf("the instance of request %d has KEY=%q, %v: another's, or none", i, v["KEY"], err)
			}
		})
	}
	wg.Wait()
	if v, err := s.Store.Env.Get(s.ctx, actor.ID(s.instance("worker"))); err != nil || len(v) > 0 {
		t.Errorf("an instance that was spawned without values has %v, %v", v, err)
	}
	s.refused("subagent_env_required", "scoped_env", me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"keyed"}`)
}

// A cancel finds children wherever their creation is: what the parent gave work to does not live on.
func TestCancelDuringCreations(t *testing.T) {
	t.Parallel()
	var calls []string
	for i := range 4 {
		calls = append(calls, "subagent_create", fmt.Sprintf(`{"agent":%q,"name":"n%d","message":"m"}`, []string{"slow", "blocking"}[i%2], i))
	}
	s := stageWith(t, host.Config{Limits: host.Limits{MaxLive: 5000}}, map[string]model.Model{"test/boss": plans(plan{does(calls...)})},
		`{"name":"slow","sideA":{"prompt":`+plays(`[{"sleep_ms":600000}]`)+`}}`,
		defined("boss", "test/boss", only(`{"agent":"slow"}`, `{"agent":"slow","as":"blocking","blocking":true}`)))
	w := s.watch(me)
	for i := range 40 {
		id := s.instance("boss")
		s.say(id, `"go"`)
		w.named(id, []string{"delegated", "step", "status_changed", "message_received"}[1+i%3])
		s.cancel(me, id)
	}
	natstest.Await(t, "the end of everything below what was cancelled", func() bool {
		for _, one := range s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents") {
			if x := one.text("status"); x == "RUNNING" || x == "WAITING" {
				return false
			}
		}
		return true
	})
}

// Of two creations for the one instance, a wrong one does not spoil the right one.
func TestQueuedCreationTriesItself(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"f","name":"good","arguments":{"topic":"x"}}`, "subagent_create", `{"agent":"f","name":"bad","arguments":{"topic":7}}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/finder": plans()}, finder, defined("boss", "test/boss", only(`{"agent":"finder","as":"f","blocking":true,"maxInstances":1}`)))
	for range 10 {
		_, got := s.runs("boss")
		if strings.Contains(got[0].raw, `"error":true`) {
			t.Fatalf("the right creation failed by the other's arguments: %s", got[0].raw)
		}
	}
}

// What is asked of a person is what came last, and only a person answers it.
func TestPersonIsAskedWhatCameLast(t *testing.T) {
	t.Parallel()
	s := stageOf(t, nil, `{"name":"person","sideA":{"human":true}}`)
	id := s.instance("person")
	w := s.watch(me)
	s.say(id, `"first question"`)
	first := s.asks(id, 1)
	thread := s.run(me, fmt.Sprintf(`[{"call":"subagent_send","arguments":{"to_subagent_id":%q,"message":{"type":"answer","content":"yes","metadata":{"answers":%q}}}},{"result":"$last"}]`, id, first.Request))
	s.await(me, thread).is("result.code", `"unauthorized"`)
	s.say(id, `"second question"`)
	w.named(id, "message_received")
	if err := s.answers(first.Request, `"answer to the first"`); err != nil {
		t.Fatal(err)
	}
	var second *agent.Awaiting
	natstest.Await(t, "the second request", func() bool {
		second = s.entry(id).Awaiting
		return second != nil && second.Request != first.Request
	})
	if second.Question != "second question" {
		t.Errorf("then the person is asked %q", second.Question)
	}
	delegated := s.instance("person")
	s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"May I book?"}}`, delegated)
	ask := s.asks(delegated, 1)
	if ask.Question != "May I book?" {
		t.Errorf("of a task the person is asked %q, want its instruction", ask.Question)
	}
	s.terminate(me, delegated)
	if err := s.answers(ask.Request, `"late"`); !errors.Is(err, actor.ThreadTerminated) {
		t.Errorf("an answer to a terminated thread: %v", err)
	}
}

// What a handler asks for wrongly is its own error; what is large travels by reference. Neither ends more than the session.
func TestHandlerAsksForTooMuch(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
	asks := map[string]func(s *host.State){
		"not json":   func(s *host.State) { s.Say(json.RawMessage(`{bad`)) },
		"bad result": func(s *host.State) { s.StopSession(host.Stop{Result: json.RawMessage(`{bad`)}) },
		"bad notify": func(s *host.State) { _ = s.NotifyParent(json.RawMessage(`bad}`)) },
		"bad arguments": func(s *host.State) {
			s.CreateChild(host.Child{Relationship: "worker", Name: "n", Arguments: json.RawMessage("{bad")})
		},
		"large arguments": func(s *host.State) {
			s.CreateChild(host.Child{Relationship: "worker", Name: "n", Arguments: json.RawMessage(`{"a":` + string(large) + `}`)})
		},
		"long name":        func(s *host.State) { s.CreateChild(host.Child{Relationship: "worker", Name: string(large)}) },
		"large result":     func(s *host.State) { s.StopSession(host.Stop{Result: large}) },
		"large say":        func(s *host.State) { s.Say(large) },
		"large everything": func(s *host.State) { s.Say(large); _ = s.NotifyParent(large); s.StopSession(host.Stop{Result: large}) },
	}
	handler := func(_ context.Context, s *host.State) error {
		var what string
		if err := json.Unmarshal(s.Message.Content, &what); err != nil {
			return nil // what a child says
		}
		asks[what](s)
		return nil
	}
	s := startWith(t, host.Config{Handlers: map[string]host.Handler{"asks": handler}}, nil)
	s.agents(worker, `{"name":"asks","sideA":{"handler":"asks","subagents":[{"agent":"worker","parentCommunication":"explicit"}]}}`)
	var wg sync.WaitGroup
	for what := range asks {
		wg.Go(func() {
			id := s.instance("asks")
			s.say(id, quote(what))
			status := agent.StatusFailed
			if strings.HasPrefix(what, "large") && what != "large arguments" {
				status = agent.StatusIdle
			}
			s.rests(id, 1, status)
		})
	}
	wg.Wait()
	s.noDeadLetters()
}
