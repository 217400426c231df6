package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS1_3_1_Paths: "Instances are created by: the injected subagent_create lifecycle tool, runtime code … from tools,
// hooks, and handlers, immediate configuration at thread creation."
func TestS1_3_1_Paths(t *testing.T) {
	t.Parallel()
	spawns := func(_ context.Context, h *host.State) error {
		if h.Message.Kind == model.EntryMessage && h.Message.Type == "" {
			h.CreateChild(host.Child{Relationship: "worker", Name: "by code"})
		}
		return nil
	}
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"by tool"}`)})
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"spawns": spawns}}, map[string]model.Model{"test/boss": boss}, worker,
		defined("tool", "test/boss", only(`{"agent":"worker"}`)),
		`{"name":"code","sideA":{"handler":"spawns"`+only(`{"agent":"worker"}`)+`}}`,
		defined("start", "test/boss", only(`{"agent":"worker","immediate":true}`)))
	id, _ := s.runs("tool")
	if c := s.child(id); c.ThreadName != "by tool" || c.Relationship != "worker" {
		t.Errorf("the tool made %+v", c)
	}
	id = s.instance("code")
	s.say(id, `"go"`)
	natstest.Await(t, "the child that code makes", func() bool { return len(s.children(id)) == 1 })
	if c := s.child(id); c.ThreadName != "by code" || c.Relationship != "worker" {
		t.Errorf("code made %+v", c)
	}
	if c := s.child(s.instance("start")); c.Relationship != "worker" || c.Session != 0 {
		t.Errorf("with the thread came %+v", c)
	}
}

// TestS1_3_2_Immediate: "immediate relationships spawn at thread creation, before any side takes a turn — immediate
// children exist even when the first inbound message arrives instantly, and when the owning side is a handler with no
// prompt to activate. Immediate spawning is recursive". And decision 14: "depth first, before any turn and before the
// create call returns; one instance a relationship; one spawnGroupId a creation."
func TestS1_3_2_Immediate(t *testing.T) {
	t.Parallel()
	m := thinks(says("here"))
	s := stageOf(t, map[string]model.Model{"test/m": m},
		defined("leaf", "test/m", ""),
		defined("node", "test/m", only(`{"agent":"leaf","as":"l1","immediate":true}`, `{"agent":"leaf","as":"none","immediate":false}`)),
		`{"name":"top","sideA":{"handler":"nobody"`+only(`{"agent":"node","as":"n1","immediate":true}`, `{"agent":"leaf","as":"l2","immediate":true}`)+`},`+
			`"sideB":{"prompt":{"text":"b","model":"test/m"}`+only(`{"agent":"leaf","as":"l3","immediate":true}`, `{"agent":"leaf","as":"later"}`)+`}}`)
	got := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"top"}`)
	id := got.text("subagent_id")
	list := s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents")
	var names, ids []string
	for _, one := range list {
		e := s.entry(one.text("subagent_id"))
		names = append(names, fmt.Sprintf("%s at %d", e.Relationship, e.Depth))
		ids = append(ids, string(e.SubagentID))
		if e.Session != 0 || e.Status != agent.StatusIdle {
			t.Errorf("%s took a turn: %+v", e.Relationship, e)
		}
		if first := s.entry(id); e.SpawnGroupID == "" || e.SpawnGroupID != first.SpawnGroupID {
			t.Errorf("%s is of group %q, and the thread it came with of %q", e.Relationship, e.SpawnGroupID, first.SpawnGroupID)
		}
	}
	if want := "top at 1, n1 at 2, l1 at 3, l2 at 2, l3 at 2"; strings.Join(names, ", ") != want {
		t.Errorf("in the order of their creation there are %s; want %s", strings.Join(names, ", "), want)
	}
	if children := got.at("children").raw; canonical(t, children) != canonical(t, `["`+strings.Join(ids[1:], `","`)+`"]`) {
		t.Errorf("the answer names the children %s, want %v", children, ids[1:])
	}
	if n := len(m.seen); n > 0 {
		t.Errorf("%d steps were taken before anybody was prompted", n)
	}
	other := s.instance("top")
	if a, b := s.entry(id).SpawnGroupID, s.entry(other).SpawnGroupID; a == b {
		t.Errorf("two creations have the same group %q", a)
	}
}

// TestS1_3_2_Recursive: what a tool creates has its immediate children before its own first turn and before the call
// returns.
func TestS1_3_2_Recursive(t *testing.T) {
	t.Parallel()
	var s *stage
	var atFirst, atReturn int
	node := thinks(func(r *model.Request) *model.Response {
		atFirst = len(s.children(string(r.Thread)))
		return says("here")(r)
	})
	boss := plans(plan{
		does("subagent_create", `{"agent":"node","name":"n"}`),
		func(r *model.Request) *model.Response {
			all := s.children(string(r.Thread))
			if len(all) == 1 {
				atReturn = len(s.children(string(all[0].SubagentID)))
			}
			return does("subagent_message", fmt.Sprintf(`{"reference":%q,"message":"go"}`, all[0].Reference))(r)
		},
	})
	s = stageOf(t, map[string]model.Model{"test/boss": boss, "test/node": node}, worker,
		defined("node", "test/node", only(`{"agent":"worker","as":"w1","immediate":true}`, `{"agent":"worker","as":"w2","immediate":{}}`)),
		defined("boss", "test/boss", only(`{"agent":"node"}`)))
	id, _ := s.runs("boss")
	s.rests(string(s.child(id).SubagentID), 1, agent.StatusIdle)
	if atReturn != 2 || atFirst != 2 {
		t.Errorf("when the call returned there were %d immediate children, at the child's first turn %d; want 2 both times", atReturn, atFirst)
	}
}

// TestS1_3_2_ScopedEnv: "runtimes MAY use nameEnv and descriptionEnv as model-visible hints"; "MUST treat scopedEnv as
// runtime-only transfer data"; "MUST NOT expose scopedEnv values to the model unless the same env name is explicitly
// designated by nameEnv or descriptionEnv."
func TestS1_3_2_ScopedEnv(t *testing.T) {
	t.Parallel()
	m := thinks(says("here"))
	env := func(_ context.Context, h *host.State) error {
		v, ok, err := h.Env(context.Background(), "SECRET")
		h.Say(json.RawMessage(fmt.Sprintf(`{"has":%v,"right":%v}`, ok, v == "s3cr3t-value")))
		return err
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"env": env}}, map[string]model.Model{"test/m": m},
		`{"name":"child","sideA":{"prompt":{"text":"You are {{description}}. {{SECRET}}","model":"test/m"}}}`,
		`{"name":"code","sideA":{"handler":"env"}}`,
		defined("boss", "test/m", only(`{"agent":"child","immediate":{"nameEnv":"NAME","descriptionEnv":"ABOUT","scopedEnv":["SECRET","NAME"]}}`,
			`{"agent":"code","immediate":{"scopedEnv":["SECRET"]}}`, `{"agent":"code","as":"without","immediate":true}`)))
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"SECRET":"s3cr3t-value","NAME":"Ada","ABOUT":"a finder"}}`).text("subagent_id")
	children := s.children(id)
	if len(children) != 3 || children[0].ThreadName != "Ada" {
		t.Fatalf("the children are %+v; want the first to be named Ada", children)
	}
	for _, one := range append(children, s.entry(id)) {
		s.say(string(one.SubagentID), `"hello"`)
		s.rests(string(one.SubagentID), 1, agent.StatusIdle)
	}
	if shown := m.shown(string(children[0].SubagentID)); !strings.HasPrefix(shown[0].System, "You are a finder.") {
		t.Errorf("the designated description is not shown: %q", shown[0].System)
	}
	for _, r := range m.seen {
		data, err := json.Marshal([]any{r.System, r.History, r.Tools, r.Config, r.Task})
		if err != nil || strings.Contains(string(data), "s3cr3t") {
			t.Errorf("a model is shown the secret (%v): %s", err, data)
		}
	}
	s.await(me, string(children[1].SubagentID)).is("result", `{"has":true,"right":true}`)
	s.await(me, string(children[2].SubagentID)).is("result", `{"has":false,"right":false}`)
}

// TestS1Decision14_Missing: "Missing arguments or env: no child, a logged event, the parent still exists."
func TestS1Decision14_Missing(t *testing.T) {
	t.Parallel()
	s := stageOf(t, nil, worker,
		`{"name":"needs_args","sideA":{"prompt":{"text":"t","model":"builtin/echo","requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
		`{"name":"needs_env","requiredEnv":["KEY"],`+prompted("builtin/echo", "")+`}`,
		defined("boss", "builtin/echo", only(`{"agent":"needs_args","immediate":true}`, `{"agent":"needs_env","immediate":{"scopedEnv":["KEY"]}}`, `{"agent":"worker","immediate":true}`)))
	id := s.instance("boss")
	if c := s.child(id); c.Relationship != "worker" {
		t.Errorf("the child is %+v; want only the one that lacks nothing", c)
	}
	s.say(id, `"hello"`)
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result", `{"output":"hello"}`)
	s.noDeadLetters()
}

// TestS1_3_3_Blocking: "blocking: true makes subagent_create await the child session's close and return its result
// payload." And decision 2: "A blocking child's result goes only into the tool result." It defaults to false.
func TestS1_3_3_Blocking(t *testing.T) {
	t.Parallel()
	g := newGate()
	boss := plans(plan{
		does("subagent_create", `{"agent":"free","name":"f","message":"m"}`),
		does("subagent_create", `{"agent":"slow","name":"s","message":"m"}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/gate": g}, defined("slow", "test/gate", ""),
		defined("boss", "test/boss", only(`{"agent":"slow","blocking":true}`, `{"agent":"slow","as":"free","parentCommunication":"explicit"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	next(s, "the first child's step", g.entered)
	next(s, "the second child's step", g.entered)
	s.eventually(me, id, "WAITING") // a state, for the whole of the child's session
	if n := len(boss.shown(id)); n != 2 {
		t.Errorf("the parent took %d steps while it waits, want 2", n)
	}
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	got := s.await(me, id)
	got.is("result.results.0.content.status", `"running"`) // not awaited
	got.is("result.results.1.content.status", `"idle"`)
	got.is("result.results.1.content.result", `{"output":"through the gate"}`)
	got.is("result.results.1.error", `false`)
	s.settled(me)
	if e := s.entry(id); e.Session != 1 {
		t.Errorf("the blocking child's end came a second time: the parent is in session %d", e.Session)
	}
}

// TestS1_3_3_CreateOrContinue: "When blocking: true is combined with maxInstances: 1 and an instance already exists,
// subagent_create MUST behave as create-or-continue: message the existing instance and await that session's close,
// rather than erroring on the cap." And decision 5: "queue the message, await the close of the session that consumes
// it. Spawn-time arguments stay; name does not rename."
func TestS1_3_3_CreateOrContinue(t *testing.T) {
	t.Parallel()
	child := thinks(func(r *model.Request) *model.Response {
		m := entriesOf(r.History, model.EntryMessage)
		return &model.Response{Done: true, Result: json.RawMessage(fmt.Sprintf(`{"session":%d,"system":%q,"last":%s}`, r.Session, r.System, m[len(m)-1].Content))}
	})
	boss := plans(plan{
		does("subagent_create", `{"agent":"one","name":"Ada","message":"first","arguments":{"topic":"ports"}}`),
		does("subagent_create", `{"agent":"one","name":"Bea","message":"second","arguments":{"topic":"ships"}}`),
	}, plan{
		does("subagent_create", `{"agent":"one","name":"Cleo","message":"third","arguments":{"topic":"tides"}}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/child": child},
		`{"name":"child","sideA":{"prompt":{"text":"on {{topic}}","model":"test/child","requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
		defined("boss", "test/boss", only(`{"agent":"child","as":"one","blocking":true,"maxInstances":1,"initUserMessageProperty":"message"}`)))
	id := s.instance("boss")
	got := s.session(id, 1, `"go"`)
	got = append(got, s.session(id, 2, `"again"`)...)
	for i, want := range []string{"first", "second", "third"} {
		got[i].is("error", `false`)
		got[i].is("content.result", fmt.Sprintf(`{"session":%d,"system":"on ports","last":%q}`, i+1, want))
		got[i].is("content.reference", quote(got[0].text("content.reference")))
	}
	if c := s.child(id); c.ThreadName != "Ada" || string(c.InitialArguments) == "" || !strings.Contains(string(c.InitialArguments), "ports") {
		t.Errorf("continuing changed what the child was born with: %+v", c)
	}
}

// TestS1_3_3_ContinueBusy: the session whose close is awaited is the one that takes the message, also when another is
// under way, and also when two calls of one step make and continue the instance.
func TestS1_3_3_ContinueBusy(t *testing.T) {
	t.Parallel()
	g := newGate()
	var s *stage
	boss := plans(plan{does(
		"subagent_create", `{"agent":"one","name":"a","message":"first"}`,
		"subagent_create", `{"agent":"one","name":"b","message":"second"}`)})
	child := plans(plan{func(r *model.Request) *model.Response {
		g.entered <- "first"
		<-g.open
		return &model.Response{Done: true, Result: json.RawMessage(`{"n":1}`)}
	}})
	s = stageOf(t, map[string]model.Model{"test/boss": boss, "test/child": child}, defined("child", "test/child", ""),
		defined("boss", "test/boss", only(`{"agent":"child","as":"one","blocking":true,"maxInstances":1}`)))
	id := s.instance("boss")
	w := s.watch(me)
	s.say(id, `"go"`)
	next(s, "the child's first step", g.entered)
	c := string(s.child(id).SubagentID)
	w.until("its second message", c, func(event) bool { return w.count(c, "message_received") == 2 || len(child.shown(c)) > 1 })
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	got := s.await(me, id).list("result.results")
	for _, r := range got {
		r.is("error", `false`)
		r.is("content.reference", quote(s.child(id).Reference))
	}
	if len(got) != 2 {
		t.Fatalf("the parent has %d results, want 2", len(got))
	}
	shown := child.shown(c)
	if m := entriesOf(shown[len(shown)-1].History, model.EntryMessage); len(m) != 2 {
		t.Errorf("the child was shown %d messages, want 2", len(m))
	}
}

// TestS1Decision2_NobodyWaits: "if nobody waits any more, it is queued once, as for a non-blocking child (implicit
// only). Blocking + explicit still answers the waiter."
func TestS1Decision2_NobodyWaits(t *testing.T) {
	t.Parallel()
	// The question of a child ends its parent's wait.
	asker := plans(plan{does("ask", `{"question":"which?"}`)})
	boss := plans(plan{
		does("subagent_create", `{"agent":"loud","name":"l","message":"m"}`),
		does("subagent_create", `{"agent":"quiet","name":"q","message":"m"}`),
		refers(0, "subagent_message", `{"reference":%q,"message":"this"}`),
		refers(1, "subagent_message", `{"reference":%q,"message":"that"}`),
	})
	waits := plans(plan{does("subagent_create", `{"agent":"quiet","name":"q","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/asker": asker, "test/waits": waits}, worker,
		defined("asker", "test/asker", `,"askParent":"ask"`),
		defined("waits", "test/waits", only(`{"agent":"worker","as":"quiet","blocking":true,"parentCommunication":"explicit"}`)),
		defined("boss", "test/boss", only(`{"agent":"asker","as":"loud","blocking":true}`, `{"agent":"asker","as":"quiet","blocking":true,"parentCommunication":"explicit"}`)))
	id, got := s.runs("waits")
	got[0].is("content.result", `{"output":"m"}`)
	if e := s.entry(id); e.Session != 1 {
		t.Errorf("an explicit blocking child's end came beside its result")
	}

	id = s.instance("boss")
	s.say(id, `"go"`)
	completions := func() (of []string) {
		shown := boss.shown(id)
		for _, e := range entriesOf(shown[len(shown)-1].History, model.EntryCompletion) {
			of = append(of, s.entry(string(e.From)).Relationship)
		}
		return of
	}
	natstest.Await(t, "the completion of the implicit child", func() bool { return len(boss.shown(id)) > 0 && len(completions()) > 0 })
	for _, c := range s.children(id) {
		s.rests(string(c.SubagentID), 1, agent.StatusIdle)
	}
	s.settled(me)
	natstest.Await(t, "the parent's rest", func() bool { return s.entry(id).Status == agent.StatusIdle })
	if of := completions(); fmt.Sprint(of) != "[loud]" {
		t.Errorf("after their questions the parent was shown the completions of %v, want that of the implicit child, once", of)
	}
}

// TestS1Decision3_Failed: "A blocking child that fails, errs, runs over a limit or is terminated gives a tool error
// with {reference, status, stopReason, message}."
func TestS1Decision3_Failed(t *testing.T) {
	t.Parallel()
	g := newGate()
	boss := plans(plan{does(
		"subagent_create", `{"agent":"fails","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"errs","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"steps","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"turns","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"gone","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"stopped","name":"n","message":"m"}`)})
	rel := func(name string) string { return `{"agent":"` + name + `","blocking":true}` }
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/gate": g},
		`{"name":"fails","sideA":{"prompt":`+plays(`[{"fail":"no luck"}]`)+`}}`,
		`{"name":"errs","sideA":{"prompt":`+plays(`[{"panic":"bang"}]`)+`}}`,
		`{"name":"steps","sideA":{"prompt":`+plays(`[{"sleep_ms":0},{"sleep_ms":0}]`)+`,"maxSteps":1,"stopOnResponse":false}}`,
		`{"name":"turns","maxSessionTurns":1,"sideA":{"prompt":`+plays(`[{"say":"hi"}]`)+`},"sideB":{"prompt":`+plays(`[{"say":"ho"}]`)+`}}`,
		defined("gone", "test/gate", ""), defined("stopped", "test/gate", ""),
		defined("boss", "test/boss", only(rel("fails"), rel("errs"), rel("steps"), rel("turns"), rel("gone"), rel("stopped"))))
	id := s.instance("boss")
	s.say(id, `"go"`)
	next(s, "a child's step", g.entered)
	next(s, "another child's step", g.entered)
	for _, c := range s.children(id) {
		switch c.Relationship {
		case "gone":
			s.terminate(me, string(c.SubagentID))
		case "stopped":
			s.cancel(me, string(c.SubagentID))
		}
	}
	s.rests(id, 1, agent.StatusIdle)
	got := s.await(me, id).list("result.results")
	for i, want := range []struct{ status, reason, message string }{
		{"failed", "fail", "no luck"}, {"failed", "error", "bang"}, {"failed", "max_steps", "steps"}, {"failed", "max_turns", "turns"},
		{"terminated", "terminated", "terminated"}, {"idle", "cancelled", "cancelled"},
	} {
		r := got[i]
		r.is("error", `true`)
		r.is("content.status", quote(want.status))
		r.is("content.stopReason", quote(want.reason))
		if !strings.Contains(r.text("content.message"), want.message) {
			t.Errorf("the message does not say %q: %s", want.message, r.raw)
		}
		r.missing("content.result")
		if ref := r.text("content.reference"); !slices.ContainsFunc(s.children(id), func(e agent.Entry) bool { return e.Reference == ref }) {
			t.Errorf("%s is no child's reference", ref)
		}
	}
	s.settled(me)
	if e := s.entry(id); e.Session != 1 {
		t.Errorf("what was told as a result was told again: the parent is in session %d", e.Session)
	}
	s.noDeadLetters()
}
