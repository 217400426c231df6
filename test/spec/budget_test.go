package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/tool"
)

// used adds up what all of me used, by the registry.
func (s *stage) used() (u agent.Usage) {
	s.t.Helper()
	stored, err := s.Store.Registry.Tree(s.ctx, me)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, one := range stored {
		var e agent.Entry
		if err := json.Unmarshal(one.Data, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Usage != nil {
			u.Add(*e.Usage)
		}
	}
	return u
}

// stopped wants a session that ended for want of budget, and gives how it was told.
func (s *stage) stopped(id string) answer {
	s.t.Helper()
	got := s.await(me, id)
	got.is("status", `"FAILED"`)
	if e := s.entry(id); e.StopReason != agent.StopBudget {
		s.t.Errorf("%s was stopped by %q, want budget: %s", id, e.StopReason, got.raw)
	}
	return got
}

// A budget of steps bounds a thread and all below it, however they run beside each other.
func TestBudgetOfSteps(t *testing.T) {
	t.Parallel()
	s := start(t)
	boss := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"],"budget":{"steps":9}`)
	const child = `{"agent":{"name":"c","model":"builtin/script","metadata":{"script":[{"say":"one"},{"say":"two"},{"say":"three"},{"say":"four"},{"result":5}]}}}`
	task := func(n int) string {
		return fmt.Sprintf(`{"call":"subagent_delegate","arguments":{"subagent_id":"$results.%d.subagent_id","task":{"name":"t","instruction":"i"}}}`, n)
	}
	s.delegate(me, boss, fmt.Sprintf(`[{"calls":[%s,%[1]s,%[1]s]},{"calls":[%s,%s,%s]},
		{"call":"subagent_await","arguments":{"mode":"all","subagent_ids":["$results.0.subagent_id","$results.1.subagent_id","$results.2.subagent_id"]}},{"result":"$last"}]`,
		`{"call":"subagent_spawn","arguments":`+child+`}`, task(0), task(1), task(2)))
	got := s.stopped(boss)
	got.is("error", fmt.Sprintf(`"the budget of %s is used up: 9 of 9 steps"`, boss))
	if u := s.used(); u.Steps != 9 {
		t.Errorf("%d steps were taken, want all 9 that the budget has, and none more", u.Steps)
	}
	partial := 0
	for _, one := range s.ask(me, `{"type":"SUBAGENT_LIST_REQ","parent_agent_id":%q}`, boss).list("subagents") {
		if told := s.await(me, one.text("subagent_id")); told.text("status") == "FAILED" && told.has("result.partial") {
			partial++
		}
	}
	if partial == 0 {
		t.Error("no child that was stopped kept what it had said")
	}
	s.delegate(me, boss, `[{"result":1}]`) // accepted, and ends at once the same way
	s.stopped(boss)
	s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"late","model":"m"}}`, boss).is("code", `"quota_exceeded"`)
	s.refused("quota_exceeded", "", me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"late","model":"m"}}`, boss)
	if u := s.used(); u.Steps != 9 {
		t.Errorf("in the end %d steps were taken, want 9", u.Steps)
	}
	s.noDeadLetters()
}

// A budget of money: ten threads at a time, each of whose steps costs a cent, spend no more than there is.
func TestBudgetOfDollars(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/cent": modelFunc(func(_ context.Context, r *model.Request) (*model.Response, error) {
		resp := &model.Response{Usage: &model.Usage{InputTokens: 90, OutputTokens: 10, USD: 0.01}}
		if r.Step == 5 {
			resp.Done, resp.Result = true, json.RawMessage(`{}`)
		}
		return resp, nil
	})})
	boss := s.spawn(me, `"model":"test/cent","budget":{"usd":0.2,"tokens":100000}`)
	s.delegate(me, boss, `null`)
	s.await(me, boss).is("status", `"COMPLETED"`) // now it is known what a step takes
	var ids []string
	for range 10 {
		id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"c","model":"test/cent"}}`, boss).text("subagent_id")
		ids = append(ids, id)
	}
	for _, id := range ids {
		s.delegate(me, id, `null`)
	}
	completed := 0
	for _, id := range ids {
		if got := s.await(me, id); got.text("status") == "COMPLETED" {
			completed++
		} else {
			s.stopped(id)
		}
	}
	if u := s.used(); u.USD != 200_000 {
		t.Errorf("%d of 10 completed and $%s were spent, want all of the $0.2 that the budget has", completed, u.USD)
	}
}

// What a thread holds and does not use comes back when it is stopped, and a restart loses nothing of the books.
func TestBudgetComesBack(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	boss := s.spawn(me, `"model":"builtin/echo","budget":{"steps":5}`)
	child := func(fields string) string {
		return s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"c",%s}}`, boss, fields).text("subagent_id")
	}
	holds := child(`"model":"test/gate"`)
	s.delegate(me, holds, `null`)
	next(s, "the step of the first", g.entered)
	talks := child(`"model":"builtin/script"`)
	s.delegate(me, talks, `[{"say":"one"},{"say":"two"},{"say":"three"},{"result":4}]`) // the first holds three that it needs
	s.StopHost(t)
	s.StartHost(t)
	next(s, "the step of the first again", g.entered)
	s.cancel(me, holds).is("event", `"cancelled"`)
	s.await(me, talks).is("result", `{"output":4}`)
	if u := s.used(); u.Steps != 5 {
		t.Errorf("%d steps were taken, want 5", u.Steps)
	}
	s.delegate(me, talks, `null`)
	s.stopped(talks)
	s.terminate(me, boss).is("event", `"terminated"`)
	s.noDeadLetters()
}

// A budget of seconds ends each session of the thread that has it, also of an agent that is defined; what is below it
// gets no further steps until it begins anew.
func TestBudgetOfSeconds(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	s.agents(`{"name":"slow","budget":{"seconds":0.3},"sideA":{"prompt":{"text":"t","model":"test/gate"}}}`)
	id := s.instance("slow")
	s.say(id, `"go"`)
	next(s, "the step", g.entered)
	s.rests(id, 1, agent.StatusFailed)
	s.stopped(id).is("error", `"the budget is used up: 300ms for a session"`)
	if aborted := next(s, "the end of the step", g.aborted); aborted != id {
		t.Errorf("the step of %s was broken off, want that of %s", aborted, id)
	}
	s.refused("quota_exceeded", "", me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"late","model":"m"}}`, id)
	s.say(id, `"again"`)
	next(s, "the step of the next session", g.entered)
	s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"in time","model":"m"}}`, id).is("status", `"READY"`)
	s.rests(id, 2, agent.StatusFailed)
}

// While a tool is called nothing of a reservation is in use: a sibling that needs it has it.
func TestBudgetIsAskedBack(t *testing.T) {
	t.Parallel()
	called, open := make(chan struct{}, 1), make(chan struct{})
	slow, err := tool.Func(tool.Description{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		called <- struct{}{}
		select {
		case <-open:
		case <-ctx.Done():
		}
		return "at last", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tool.New(tool.Config{Tools: []tool.Tool{slow}})
	if err != nil {
		t.Fatal(err)
	}
	s := startWith(t, host.Config{Tools: registry}, nil)
	boss := s.spawn(me, `"model":"builtin/echo","budget":{"steps":6}`)
	child := func(fields string) string {
		return s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"c","model":"builtin/script",%s}}`, boss, fields).text("subagent_id")
	}
	holds := child(`"capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["slow"]}`)
	s.delegate(me, holds, `[{"call":"slow","arguments":{}},{"result":1}]`)
	next(s, "the call", called)
	talks := child(`"max_steps":9`)
	s.delegate(me, talks, `[{"say":"one"},{"say":"two"},{"say":"three"},{"result":4}]`)
	s.await(me, talks).is("result", `{"output":4}`) // the first holds four, and uses one
	close(open)
	s.await(me, holds).is("result", `{"output":1}`)
	if u := s.used(); u.Steps != 6 {
		t.Errorf("%d steps were taken, want 6", u.Steps)
	}
	s.noDeadLetters()
}
