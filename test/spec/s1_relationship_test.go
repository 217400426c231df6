package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS1_1_MaxInstances: "Cap on simultaneous instances. When reached, creation attempts SHOULD return a tool error
// explaining the cap and suggesting messaging an existing instance." And decision 4: "counts every instance that is
// not terminated; check and insert are one atomic step; the cap error lists the existing references".
func TestS1_1_MaxInstances(t *testing.T) {
	t.Parallel()
	const create = `{"agent":"worker","name":"w","message":"m"}`
	boss := plans(plan{
		does("subagent_create", create, "subagent_create", create, "subagent_create", create), // at once
		does("subagent_create", create), // one after the other
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker","maxInstances":2}`)))
	id, got := s.runs("boss")
	refused := 0
	all := s.children(id)
	for i, r := range got {
		if r.text("error") == "false" {
			continue
		}
		refused++
		r.is("content.code", `"max_instances"`)
		want := []string{"2 instances", "subagent_message"}
		if i == 3 { // those of the step before exist
			want = append(want, all[0].Reference, all[1].Reference)
		}
		for _, want := range want {
			if !strings.Contains(r.text("content.message"), want) {
				t.Errorf("the error does not speak of %q: %s", want, r.raw)
			}
		}
	}
	if made := len(s.children(id)); made != 2 || refused != 2 {
		t.Errorf("of 4 creations under a cap of 2, %d made a child and %d were refused", made, refused)
	}
	s.noDeadLetters()
}

// TestS1_1_Description: "Model-facing description override for this relationship"; "falls back to the child's
// toolDescription".
func TestS1_1_Description(t *testing.T) {
	t.Parallel()
	boss := plans()
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker,
		defined("boss", "test/boss", only(`{"agent":"worker"}`, `{"agent":"worker","as":"other","description":"digs"}`)))
	id, _ := s.runs("boss")
	tool, _ := s.toolOf(&boss.shown(id)[0], "subagent_create")
	if d := tool.Description; !strings.Contains(d, "worker: works") || !strings.Contains(d, "other: digs") {
		t.Errorf("the tool is described as %q", d)
	}
}

// TestS1_1_Optional: "The branch is enabled only when the named environment flag resolves to true, 1, or yes
// (case-insensitive). Disabled branches are unavailable for creation and runtime invocation."
func TestS1_1_Optional(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"w","message":"m"}`)})
	s := stageWith(t, host.Config{Env: map[string]string{"HOSTS": "Yes"}}, map[string]model.Model{"test/boss": boss}, worker,
		defined("boss", "test/boss", only(`{"agent":"worker","optional":"FLAG"}`)),
		defined("by_host", "test/boss", only(`{"agent":"worker","optional":"HOSTS"}`)))
	for value, enabled := range map[string]bool{
		"true": true, "TRUE": true, "1": true, "yes": true, "YeS": true, " yes ": true,
		"": false, "false": false, "0": false, "no": false, "on": false, "truely": false, "11": false,
	} {
		id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"FLAG":%q}}`, value).text("subagent_id")
		got := s.session(id, 1, `"go"`)[0]
		if children := len(s.children(id)); children == 1 != enabled || got.text("error") == "true" == enabled {
			t.Errorf("with the flag %q there are %d children, and the call gave %s", value, children, got.raw)
		}
		if !enabled {
			got.is("content.code", `"not_found"`)
		}
	}
	if id, _ := s.runs("by_host"); len(s.children(id)) != 1 {
		t.Errorf("the host's flag does not enable the branch")
	}
}

// TestS1_1_Hidden: "The relationship stays declared — code paths can still spawn the child — but it is excluded from
// every LLM request's tool surface." And decision 8: "All relationships hidden → no lifecycle tools; … Hidden children
// still deliver implicit completions."
func TestS1_1_Hidden(t *testing.T) {
	t.Parallel()
	open := plans(plan{
		does("subagent_create", `{"agent":"secret","name":"w","message":"m"}`),
		does("subagents", `{}`),
	})
	closed := plans(plan{does("subagents", `{}`), does("subagent_create", `{"agent":"secret","name":"w"}`)})
	spawns := func(_ context.Context, h *host.State) error {
		if h.Message.Kind == model.EntryMessage && h.Message.Type == "" {
			h.CreateChild(host.Child{Relationship: "secret", Name: "w", Arguments: json.RawMessage(`{"a":1}`)})
		}
		return nil
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"spawns": spawns}}, map[string]model.Model{"test/open": open, "test/closed": closed}, worker,
		defined("open", "test/open", only(`{"agent":"worker"}`, `{"agent":"worker","as":"secret","hidden":true,"description":"hush"}`)),
		defined("closed", "test/closed", only(`{"agent":"worker","as":"secret","hidden":true,"immediate":true}`)),
		`{"name":"code","sideA":{"handler":"spawns"`+only(`{"agent":"worker","as":"secret","hidden":true}`)+`}}`)

	id, got := s.runs("open")
	got[0].is("content.code", `"not_found"`)
	got[1].is("content", `[]`)
	for _, r := range open.shown(id) {
		if tools := fmt.Sprintf("%s", r.Tools); strings.Contains(tools, "secret") || strings.Contains(tools, "hush") {
			t.Errorf("a hidden relationship is on the tool surface: %s", tools)
		}
	}

	id, got = s.runs("closed")
	for i, r := range got {
		r.is("content.code", `"not_found"`)
		if names := toolNames(&closed.shown(id)[i]); len(names) > 0 {
			t.Errorf("all relationships are hidden, and the tools %v are there", names)
		}
	}
	// The hidden child exists, and its completion comes.
	child := s.child(id)
	s.say(string(child.SubagentID), `"hello"`)
	shown := s.wakes(closed, id, 4)
	last := shown[3].History
	if c := entriesOf(last, model.EntryCompletion); len(c) != 1 || string(c[0].From) != string(child.SubagentID) {
		t.Errorf("the parent of a hidden child was shown the completions %v", c)
	}

	id = s.instance("code")
	s.say(id, `"go"`)
	natstest.Await(t, "the hidden child that code spawned", func() bool {
		all := s.children(id)
		return len(all) == 1 && all[0].Relationship == "secret" && all[0].Status == agent.StatusIdle && all[0].Session == 1
	})
}

// TestS1_2_1_OwningSide: "implicit completion/failure messages … from instances of the relationship are delivered on
// the owning side's perspective — queued in the role that prompts the owning side's next turn (user for a side-A-owned
// relationship, assistant for a side-B-owned relationship)". And decision 1: what prompts side A has role user, what
// prompts side B has role assistant.
func TestS1_2_1_OwningSide(t *testing.T) {
	t.Parallel()
	const create = `{"agent":%q,"name":"w","message":"m"}`
	a := thinks(func(r *model.Request) *model.Response {
		if r.Session == 1 && r.Step == 1 {
			return does("subagent_create", fmt.Sprintf(create, "of_a"))(r)
		}
		return says("A")(r)
	})
	b := thinks(func(r *model.Request) *model.Response {
		if r.Session == 1 && r.Step == 1 {
			return does("subagent_create", fmt.Sprintf(create, "of_b"))(r)
		}
		return says("B")(r)
	})
	s := stageOf(t, map[string]model.Model{"test/a": a, "test/b": b, "test/slow": thinks(func(r *model.Request) *model.Response {
		return &model.Response{Done: true, Result: json.RawMessage(`{"x":1}`)}
	})},
		defined("slow", "test/slow", ""),
		`{"name":"boss","maxSessionTurns":4,`+prompted("test/a", only(`{"agent":"slow","as":"of_a"}`))+
			`,"sideB":{"prompt":{"text":"B","model":"test/b"}`+only(`{"agent":"slow","as":"of_b"}`)+`}}`)
	id := s.instance("boss")
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusFailed) // the turn cap
	s.say(id, `"again"`)
	s.rests(id, 2, agent.StatusFailed)
	owner := map[string]string{}
	for _, c := range s.children(id) {
		owner[string(c.SubagentID)] = c.Relationship
		if want := map[string]string{"of_a": "a", "of_b": "b"}[c.Relationship]; c.Side != want {
			t.Errorf("%s is owned by side %q, want %q", c.Relationship, c.Side, want)
		}
	}
	roles := func(m *mind) map[string]model.Role {
		shown := m.shown(id)
		all := map[string]model.Role{}
		for _, e := range entriesOf(shown[len(shown)-1].History, model.EntryCompletion) {
			all[owner[string(e.From)]] = e.Role
		}
		return all
	}
	if got := roles(a); got["of_a"] != model.RoleUser || got["of_b"] != model.RoleAssistant {
		t.Errorf("side A is shown the completions in the roles %v, want that of its own child as user, that of side B's as assistant", got)
	}
	if got := roles(b); got["of_b"] != model.RoleUser || got["of_a"] != model.RoleAssistant {
		t.Errorf("side B is shown the completions in the roles %v, want that of its own child as user, that of side A's as assistant", got)
	}
}

// TestS1_2_1_Wakes: a completion prompts the side that owns the child, and only that one begins.
func TestS1_2_1_Wakes(t *testing.T) {
	t.Parallel()
	a := thinks(says("A"))
	b := thinks(says("B"))
	s := stageOf(t, map[string]model.Model{"test/a": a, "test/b": b}, worker,
		`{"name":"boss","maxSessionTurns":1,`+prompted("test/a", "")+`,"sideB":{"prompt":{"text":"B","model":"test/b"}`+only(`{"agent":"worker","immediate":true}`)+`}}`)
	id := s.instance("boss")
	s.say(string(s.child(id).SubagentID), `"hello"`)
	s.rests(id, 1, agent.StatusFailed) // the turn cap
	if na, nb := len(a.shown(id)), len(b.shown(id)); na != 0 || nb != 1 {
		t.Errorf("the completion of side B's child gave side A %d turns and side B %d, want 0 and 1", na, nb)
	}
}

// TestS1_2_2_SingleOwner: "A relationship name … may appear on at most one side of an agent. Declaring the same name
// on both sides is a definition-time error. The sibling side has no model-facing path to those children".
func TestS1_2_2_SingleOwner(t *testing.T) {
	t.Parallel()
	side := `{"prompt":{"text":"t","model":"m"},"subagents":[{"agent":"worker","as":"w"}]}`
	invalid(t, "subagent_duplicate_relationship", "agents[1].sideB.subagents[0].as", worker, `{"name":"x","sideA":`+side+`,"sideB":`+side+`}`)
	invalid(t, "subagent_duplicate_relationship", "agents[1].sideA.subagents[1].agent", worker,
		`{"name":"x","sideA":{"prompt":{"text":"t","model":"m"},"subagents":[{"agent":"worker"},{"agent":"worker"}]}}`)

	a := plans(plan{does("subagents", `{}`), does("subagent_create", `{"agent":"of_b","name":"w"}`)})
	b := thinks(says("B"))
	s := stageOf(t, map[string]model.Model{"test/a": a, "test/b": b}, worker,
		`{"name":"boss","maxSessionTurns":2,`+prompted("test/a", only(`{"agent":"worker","as":"of_a"}`))+
			`,"sideB":{"prompt":{"text":"B","model":"test/b"}`+only(`{"agent":"worker","as":"of_b","immediate":true}`)+`}}`)
	id := s.instance("boss")
	child := s.child(id)
	a.act = plans(plan{
		does("subagents", `{}`),
		does("subagent_create", `{"agent":"of_b","name":"w"}`, "subagent_message", fmt.Sprintf(`{"reference":%q,"message":"m"}`, child.Reference)),
	}).act
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusFailed)
	shown := a.shown(id)
	got := results(&shown[len(shown)-1])
	if string(got[0].Content) != "[]" {
		t.Errorf("side A is told of side B's children: %s", got[0].Content)
	}
	for _, r := range got[1:] {
		if !r.IsError || !strings.Contains(string(r.Content), "not_found") {
			t.Errorf("side A reached a child of side B: %s gave %s", r.Name, r.Content)
		}
	}
	if enum := fmt.Sprintf("%s", shown[0].Tools); strings.Contains(enum, "of_b") {
		t.Errorf("side A is shown side B's relationship: %s", enum)
	}
	if c := s.child(id); c.Session != 0 {
		t.Errorf("side B's child was given work by side A: %+v", c)
	}
}

// TestS1_2_3_Aliases: "Two relationships may target the same agent under different as names … Everything model-facing
// … uses the relationship name. The agent argument of subagent_create / subagent_message enumerates relationship
// names, not agent names."
func TestS1_2_3_Aliases(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"work_calendar","name":"w"}`),
		does("subagent_create", `{"agent":"personal_calendar","name":"p"}`, "subagent_create", `{"agent":"calendar_agent","name":"c"}`),
		does("subagents", `{}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, defined("calendar_agent", "builtin/echo", ""),
		defined("boss", "test/boss", only(`{"agent":"calendar_agent","as":"work_calendar","scopedEnv":["WORK_CAL_ID"]}`,
			`{"agent":"calendar_agent","as":"personal_calendar","scopedEnv":["PERSONAL_CAL_ID"]}`)))
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"WORK_CAL_ID":"w-1","PERSONAL_CAL_ID":"p-1"}}`).text("subagent_id")
	got := s.session(id, 1, `"go"`)
	got[2].is("content.code", `"not_found"`)
	for i, want := range []string{"work_calendar", "personal_calendar"} {
		got[i].is("content.relationship", quote(want))
		got[3].is(fmt.Sprintf("content.%d.relationship", i), quote(want))
		got[3].is(fmt.Sprintf("content.%d.name", i), `"calendar_agent"`)
	}
	_, create := s.toolOf(&boss.shown(id)[0], "subagent_create")
	create.is("properties.agent.enum", `["work_calendar","personal_calendar"]`)
	_, message := s.toolOf(&boss.shown(id)[0], "subagent_message")
	message.is("properties.agent.enum", `["work_calendar","personal_calendar"]`)
	for _, c := range s.children(id) {
		env, err := s.Store.Env.Get(s.ctx, c.SubagentID)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"work_calendar": "map[WORK_CAL_ID:w-1]", "personal_calendar": "map[PERSONAL_CAL_ID:p-1]"}[c.Relationship]
		if fmt.Sprint(env) != want {
			t.Errorf("%s has the variables %v, want %s", c.Relationship, env, want)
		}
	}
}

// TestS1_2_4_ReservedNames: "A relationship name that collides with another tool name is a definition-time error, and
// the injected lifecycle tool names … are explicitly reserved: a colliding as MUST be rejected with a dedicated
// validation code."
func TestS1_2_4_ReservedNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"subagents", "subagent_create", "subagent_message", "SUBAGENTS", "subagent-create"} {
		invalid(t, "subagent_reserved_name", "agents[1].sideA.subagents[0].as", worker,
			defined("x", "m", only(`{"agent":"worker","as":"`+name+`"}`)))
	}
	for _, binding := range []string{"sessionStop", "sessionFail", "sessionStatus", "askParent"} {
		invalid(t, "subagent_name_conflict", "agents[1].sideA.subagents[0].as", worker,
			defined("x", "m", `,"`+binding+`":"report"`+only(`{"agent":"worker","as":"report"}`)))
		invalid(t, "subagent_reserved_name", "agents[0].sideA."+binding+".tool", defined("x", "m", `,"`+binding+`":"subagents"`))
	}
	invalid(t, "subagent_name_conflict", "agents[1].sideA.subagents[0].as", worker,
		`{"name":"x","sideA":{"prompt":{"text":"t","model":"m","tools":["search"]},"subagents":[{"agent":"worker","as":"search"}]}}`)
}

// TestS1_2_5_Visibility: "the side's prompt automatically receives the lifecycle tools for the side's non-hidden
// relationships. … a tools entry attempting to configure a subagent relationship is a definition-time error." And
// "Human-backed side: may not own relationships (definition-time error)".
func TestS1_2_5_Visibility(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"worker", "subagents", "subagent_create", "subagent_message"} {
		invalid(t, "subagent_in_prompt_tools", "agents[1].sideA.prompt.tools[0]", worker,
			`{"name":"x","sideA":{"prompt":{"text":"t","model":"m","tools":["`+tool+`"]}}}`)
	}
	invalid(t, "subagent_human_side", "agents[1].sideB.subagents", worker,
		`{"name":"x",`+prompted("m", "")+`,"sideB":{"human":true,"subagents":[{"agent":"worker"}]}}`)

	boss, alone := plans(), plans()
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/alone": alone}, worker,
		defined("boss", "test/boss", only(`{"agent":"worker"}`)), defined("alone", "test/alone", ""))
	id, _ := s.runs("boss")
	if got := fmt.Sprint(toolNames(&boss.shown(id)[0])); got != "[subagents subagent_create subagent_message]" {
		t.Errorf("the side's prompt has the tools %s", got)
	}
	id, _ = s.runs("alone")
	if got := toolNames(&alone.shown(id)[0]); len(got) > 0 {
		t.Errorf("a side without relationships has the tools %v", got)
	}
}
