package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS1Decision9_Codes: "Validation codes at definition time: subagent_reserved_name, subagent_name_conflict,
// subagent_duplicate_relationship, subagent_human_side, subagent_in_prompt_tools, subagent_unknown_agent,
// subagent_immediate_cycle. Relationship names must be valid tool names for the strictest provider
// ([a-zA-Z0-9_-]{1,64}); two that would collapse into one are refused, not mangled." Those of them that no clause names
// are here.
func TestS1Decision9_Codes(t *testing.T) {
	t.Parallel()
	invalid(t, "subagent_unknown_agent", "agents[0].sideA.subagents[0].agent", defined("x", "m", only(`{"agent":"nobody"}`)))
	now := func(agent string) string { return only(`{"agent":"` + agent + `","immediate":true}`) }
	invalid(t, "subagent_immediate_cycle", "agents[0].sideA.subagents[0].immediate", defined("x", "m", now("x")))
	for _, name := range []string{"two words", "dot.ted", "a/b", "é", "*", ">", strings.Repeat("n", 65)} {
		invalid(t, "schema_violation", "agents[1].sideA.subagents[0].as", worker, defined("x", "m", only(`{"agent":"worker","as":"`+name+`"}`)))
	}

	// A circle is reported where each of its relationships stands; one that is not immediate throughout is none.
	var all []agent.Definition
	for _, text := range []string{defined("a", "m", now("b")), defined("b", "m", now("c")), defined("c", "m", now("a")), defined("d", "m", now("a")),
		defined("e", "m", only(`{"agent":"e"}`)), defined("f", "m", only(`{"agent":"f","immediate":false}`))} {
		d, err := agent.ParseDefinition([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *d)
	}
	var got []string
	for _, p := range agent.Validate(all, nil) {
		got = append(got, fmt.Sprintf("%s %s", p.Code, p.Path[:len("agents[0]")]))
	}
	want := []string{"subagent_immediate_cycle agents[0]", "subagent_immediate_cycle agents[1]", "subagent_immediate_cycle agents[2]"}
	if !slices.Equal(got, want) {
		t.Errorf("three agents in a circle give the problems %v, want %v", got, want)
	}
}

// TestS1_2_2_CodePaths: "The sibling side has no model-facing path to those children; code paths via ThreadState remain
// available to it."
func TestS1_2_2_CodePaths(t *testing.T) {
	t.Parallel()
	handler := func(ctx context.Context, h *host.State) error {
		children, err := h.Children(ctx)
		if err != nil || h.Message.Kind != model.EntryMessage || h.Message.Type != "" {
			return err
		}
		h.MessageChild(children[0].Reference, json.RawMessage(`"from the other side"`))
		return nil
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"code": handler}}, nil, worker,
		`{"name":"pair","maxSessionTurns":1,"sideA":{"handler":"code"},"sideB":{"prompt":{"text":"b","model":"builtin/echo"}`+only(`{"agent":"worker","immediate":true,"parentCommunication":"explicit"}`)+`}}`)
	id := s.instance("pair")
	c := string(s.child(id).SubagentID)
	s.say(id, `"go"`)
	s.rests(c, 1, agent.StatusIdle)
	s.await(me, c).is("result", `{"output":"from the other side"}`)
}

// TestS1_9_Example: "The coordinator's prompt automatically receives subagents, subagent_create, and subagent_message, with
// subagent_create.agent enumerating 'work_calendar' | 'personal_calendar' | 'research_agent' | 'approval_gate'."
func TestS1_9_Example(t *testing.T) {
	t.Parallel()
	approval, gate := approval()
	coordinator := thinks(func(r *model.Request) *model.Response {
		if r.Session == 1 && r.Step == 1 {
			return does("subagent_create", `{"agent":"research_agent","name":"Ada","message":"ports"}`,
				"subagent_create", `{"agent":"work_calendar","name":"Work","message":"Monday"}`,
				"subagent_create", `{"agent":"approval_gate","name":"Gate","message":"it"}`)(r)
		}
		return says("what else?")(r)
	})
	s := stageOf(t, map[string]model.Model{"test/coordinator": coordinator, "test/approval": approval},
		defined("calendar_agent", "builtin/echo", ""), defined("research_agent", "builtin/echo", ""),
		strings.Replace(gate, `"name":"approval"`, `"name":"approval_gate"`, 1),
		`{"name":"assistant_agent",`+prompted("test/coordinator", only(
			`{"agent":"calendar_agent","as":"work_calendar","scopedEnv":["WORK_CAL_ID"]}`,
			`{"agent":"calendar_agent","as":"personal_calendar","scopedEnv":["PERSONAL_CAL_ID"]}`,
			`{"agent":"research_agent","blocking":true,"maxInstances":1}`,
			`{"agent":"approval_gate"}`))+`,"sideB":{"human":true}}`)
	id := s.instance("assistant_agent")
	s.say(id, `"good morning"`)
	s.asks(id, 1) // its person is asked, and can wait
	shown := coordinator.shown(id)
	if got := fmt.Sprint(toolNames(&shown[0])); got != "[subagents subagent_create subagent_message]" {
		t.Errorf("the coordinator has the tools %s", got)
	}
	_, create := s.toolOf(&shown[0], "subagent_create")
	create.is("properties.agent.enum", `["work_calendar","personal_calendar","research_agent","approval_gate"]`)
	for _, c := range s.children(id) {
		if c.Relationship != "approval_gate" {
			s.rests(string(c.SubagentID), 1, agent.StatusIdle)
			continue
		}
		if err := s.answers(s.asks(string(c.SubagentID), 1).Request, `"yes"`); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Await(t, "the ends of the calendar and the gate", func() bool {
		return len(entriesOf(coordinator.last(id), model.EntryCompletion)) == 2
	})
	var ask *agent.Awaiting
	natstest.Await(t, "an answer to the question that is the last", func() bool {
		ask = s.asks(id, 1)
		err := s.answers(ask.Request, `"nothing"`)
		if err != nil && !errors.Is(err, actor.Conflict) {
			t.Fatal(err)
		}
		return err == nil
	})
	natstest.Await(t, "the next question", func() bool { return s.entry(id).Awaiting != nil && s.entry(id).Awaiting.Request != ask.Request })
	if err := s.answers(ask.Request, `"nothing"`); !errors.Is(err, actor.Conflict) {
		t.Errorf("a second answer gives %v, want a conflict", err)
	}
	s.noDeadLetters()
}
