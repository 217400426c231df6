package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

// finder is an agent that needs a topic and may have a depth, and no other arguments.
const finder = `{"name":"finder","sideA":{"prompt":{"text":"You look for {{topic}}.","model":"test/finder","requiredSchema":{"type":"object",` +
	`"properties":{"topic":{"type":"string"},"depth":{"type":"integer","minimum":1}},"required":["topic"],"additionalProperties":false}}}}`

// TestS1_5_Tools: "Injected tool descriptions SHOULD direct the model to call subagents before subagent_create so
// existing instances are reused rather than duplicated." "Its agent argument MUST enumerate the side's enabled
// relationship names. It MUST require a non-empty name argument". "subagent_create SHOULD expose a structured arguments
// object whose schema is dictated by the receiving child".
func TestS1_5_Tools(t *testing.T) {
	t.Parallel()
	boss := plans()
	s := stageWith(t, host.Config{Env: map[string]string{"ON": "true"}}, map[string]model.Model{"test/boss": boss, "test/finder": plans()}, worker, finder,
		defined("boss", "test/boss", only(`{"agent":"finder"}`, `{"agent":"worker","optional":"ON"}`, `{"agent":"worker","as":"off","optional":"OFF"}`, `{"agent":"worker","as":"hush","hidden":true}`)),
		defined("one", "test/boss", only(`{"agent":"finder"}`)))
	id, _ := s.runs("boss")
	shown := boss.shown(id)[0]
	list, _ := s.toolOf(&shown, "subagents")
	if !strings.Contains(list.Description, "before subagent_create") {
		t.Errorf("subagents is described as %q", list.Description)
	}
	_, create := s.toolOf(&shown, "subagent_create")
	create.is("properties.agent.enum", `["finder","worker"]`)
	create.is("properties.name.minLength", `1`)
	create.is("required", `["agent","name"]`)
	if schema := create.at("properties.arguments").raw; !strings.Contains(schema, `"topic"`) || !strings.Contains(schema, `"title":"finder"`) {
		t.Errorf("the arguments of the finder are not told: %s", schema)
	}
	for _, tool := range shown.Tools { // each is a schema that a provider can compile
		var doc any
		if err := json.Unmarshal(tool.Schema, &doc); err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("urn:tool", doc); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile("urn:tool"); err != nil {
			t.Errorf("the schema of %s does not compile: %v\n%s", tool.Name, err, tool.Schema)
		}
	}
	id, _ = s.runs("one")
	_, create = s.toolOf(&boss.shown(id)[0], "subagent_create")
	create.is("properties.arguments.required", `["topic"]`)
}

// TestS1_5_Name: it "MUST require a non-empty name argument for the spawned instance; runtimes SHOULD persist this as a
// human-readable child thread display name."
func TestS1_5_Name(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"worker"}`, "subagent_create", `{"agent":"worker","name":""}`, "subagent_create", `{"agent":"worker","name":7}`),
		does("subagent_create", `{"agent":"worker","name":"Ada 🦜"}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker"}`)))
	id, got := s.runs("boss")
	for _, r := range got[:3] {
		r.is("error", `true`)
		r.is("content.code", `"schema_violation"`)
	}
	if c := s.child(id); c.ThreadName != "Ada 🦜" {
		t.Errorf("the instance is called %q", c.ThreadName)
	}
}

// TestS1_5_Undeclared: "Runtimes MUST reject lifecycle invocations that target undeclared or disabled relationships
// without creating a child."
func TestS1_5_Undeclared(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does(
		"subagent_create", `{"agent":"stranger","name":"n"}`,
		"subagent_create", `{"agent":"worker","name":"n"}`, // the agent, not the relationship
		"subagent_create", `{"agent":"off","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"","name":"n"}`,
		"subagent_create", `{"name":"n"}`,
		"subagent_message", `{"reference":"sub_00000000","message":"m"}`,
		"subagent_message", `{"reference":"00000000-0000-8000-8000-000000000000","message":"m"}`,
		"subagent_message", `{"reference":"","message":"m"}`,
		"subagent_message", `{"message":"m"}`,
		"worker", `{}`,
		"subagent_spawn", `{"agent":{"name":"n","model":"m"}}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker","as":"w"}`, `{"agent":"worker","as":"off","optional":"OFF"}`)))
	id, got := s.runs("boss")
	for _, r := range got {
		r.is("error", `true`)
		r.is("content.code", `"not_found"`)
	}
	if n := len(s.children(id)); n > 0 {
		t.Errorf("refused calls left %d children behind", n)
	}
	s.noDeadLetters()
}

// TestS1Decision7_Message: "reference required, agent optional and must match. It must belong to this side's enabled,
// non-hidden relationships."
func TestS1Decision7_Message(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"worker","name":"w"}`),
		refers(0, "subagent_message", `{"reference":%q,"agent":"other","message":"m"}`),
		refers(0, "subagent_message", `{"reference":%q}`),
		refers(0, "subagent_message", `{"reference":%q,"mesage":"m"}`),
		refers(0, "subagent_message", `{"reference":%q,"agent":"worker","message":"m"}`),
	})
	var hidden string
	tries := thinks(func(r *model.Request) *model.Response {
		if r.Step > 1 {
			return ended(r)
		}
		return does("subagent_message", fmt.Sprintf(`{"reference":%q,"message":"m"}`, hidden))(r)
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/tries": tries}, worker,
		defined("boss", "test/boss", only(`{"agent":"worker","parentCommunication":"explicit"}`, `{"agent":"worker","as":"other"}`)),
		defined("tries", "test/tries", only(`{"agent":"worker"}`, `{"agent":"worker","as":"hush","hidden":true,"immediate":true}`)),
		defined("flag", "test/tries", only(`{"agent":"worker","optional":"FLAG","immediate":true,"parentCommunication":"explicit"}`)))
	_, got := s.runs("boss")
	for i, want := range []string{"schema_violation", "schema_violation", "schema_violation"} {
		got[i+1].is("content.code", quote(want))
	}
	got[4].is("error", `false`)

	id := s.instance("tries")
	hidden = s.child(id).Reference
	s.session(id, 1, `"go"`)[0].is("content.code", `"not_found"`)

	// An instance that was made while its branch was enabled.
	id = s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"flag","scoped_env":{"FLAG":"1"}}`).text("subagent_id")
	hidden = s.child(id).Reference
	s.session(id, 1, `"go"`)[0].is("error", `false`)
	if err := s.Store.Env.Set(s.ctx, parseID(id), map[string]string{"FLAG": "off"}); err != nil {
		t.Fatal(err)
	}
	s.session(id, 2, `"again"`)[0].is("content.code", `"not_found"`)
}

// TestS1Decision8_Surface: "all disabled → subagents stays, subagent_create goes (an empty enum is not a schema)." And
// of 20: "optional flags resolve at each request".
func TestS1Decision8_Surface(t *testing.T) {
	t.Parallel()
	boss := plans()
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker","optional":"FLAG"}`)))
	id, _ := s.runs("boss")
	if err := s.Store.Env.Set(s.ctx, parseID(id), map[string]string{"FLAG": " YES "}); err != nil {
		t.Fatal(err)
	}
	s.session(id, 2, `"again"`)
	shown := boss.shown(id)
	if got := fmt.Sprint(toolNames(&shown[0])); got != "[subagents]" {
		t.Errorf("with all relationships disabled the tools are %s", got)
	}
	if got := fmt.Sprint(toolNames(&shown[1])); got != "[subagents subagent_create subagent_message]" {
		t.Errorf("once the flag is set the tools are %s", got)
	}
}

// TestS1_5_1_Arguments: "runtimes MUST validate them against the schema and persist the validated arguments for the life
// of the child thread"; "if required arguments are missing, runtimes MUST reject creation with a structured
// subagent_arguments_required error rather than spawning the child." And decision 11: "{relationship, missing}; wrong →
// subagent_arguments_invalid."
func TestS1_5_1_Arguments(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"f","name":"n"}`, "subagent_create", `{"agent":"f","name":"n","arguments":{}}`,
			"subagent_create", `{"agent":"f","name":"n","message":"m","arguments":{"depth":3}}`,
			"subagent_create", `{"agent":"f","name":"n","arguments":{"topic":7}}`, "subagent_create", `{"agent":"f","name":"n","arguments":{"topic":"t","depth":0}}`,
			"subagent_create", `{"agent":"f","name":"n","arguments":{"topic":"t","else":1}}`, "subagent_create", `{"agent":"f","name":"n","arguments":["topic"]}`),
		does("subagent_create", `{"agent":"f","name":"n","arguments":{"topic":"ports","depth":2}}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/finder": plans()}, finder, defined("boss", "test/boss", only(`{"agent":"finder","as":"f"}`)))
	id, got := s.runs("boss")
	for i, r := range got[:7] {
		r.is("error", `true`)
		if i < 3 {
			r.is("content.code", `"subagent_arguments_required"`)
			r.is("content.relationship", `"f"`)
			r.is("content.missing", `["topic"]`)
		} else {
			r.is("content.code", `"subagent_arguments_invalid"`)
		}
	}
	if c := s.child(id); canonical(t, string(c.InitialArguments)) != canonical(t, `{"topic":"ports","depth":2}`) {
		t.Errorf("the arguments are kept as %s", c.InitialArguments)
	}
	s.noDeadLetters()
}

// TestS1_5_1_Hydrated: "runtimes MUST hydrate them into ThreadState.arguments and prompt variable interpolation for both
// child sides on every activation — the initial invocation and every later resume".
func TestS1_5_1_Hydrated(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"pair","name":"n","arguments":{"size":{"eu":38},"who":"Ada {{size}}"}}`)})
	a, b := thinks(says("A")), thinks(says("B"))
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/a": a, "test/b": b},
		`{"name":"pair","maxSessionTurns":2,"sideA":{"prompt":{"text":"A for {{who}}, {{ size }}, {{none}}.","model":"test/a","requiredSchema":{"type":"object","properties":{"who":{"type":"string"},"size":{}},"required":["who","size"]}}},`+
			`"sideB":{"prompt":{"text":"B for {{who}}.","model":"test/b"}}}`,
		defined("boss", "test/boss", only(`{"agent":"pair"}`)))
	id, _ := s.runs("boss")
	c := string(s.child(id).SubagentID)
	s.rests(c, 1, agent.StatusFailed) // the turn cap
	s.StopHost(t)
	s.StartHost(t)
	s.say(c, `"again"`)
	s.rests(c, 2, agent.StatusFailed)
	for m, want := range map[*mind]string{a: `A for Ada {{size}}, {"eu":38}, {{none}}.`, b: "B for Ada {{size}}."} {
		shown := m.shown(c)
		if len(shown) != 2 {
			t.Fatalf("%q was told %d times, want 2", want, len(shown))
		}
		for i, r := range shown {
			if r.System != want {
				t.Errorf("session %d: the prompt is %q, want %q", i+1, r.System, want)
			}
		}
	}
}

// TestS1_5_2_Env: "If subagent_create cannot proceed because required scoped variables for the child graph are missing,
// runtimes SHOULD return a structured error (e.g. subagent_env_required) with a request ID".
func TestS1_5_2_Env(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"mail","name":"n","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, `{"name":"mail","requiredEnv":["TOKEN","USER"],`+prompted("builtin/echo", "")+`}`,
		defined("boss", "test/boss", only(`{"agent":"mail","scopedEnv":["TOKEN","USER"]}`)))
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"USER":"canary-user"}}`).text("subagent_id")
	got := s.session(id, 1, `"go"`)[0]
	got.is("error", `true`)
	got.is("content.code", `"subagent_env_required"`)
	got.is("content.missing", `["TOKEN"]`)
	if r := got.text("content.request_id"); len(r) != 36 {
		t.Errorf("the request's id is %q, want a UUID", r)
	}
	if strings.Contains(got.raw, "canary-user") || len(s.children(id)) > 0 {
		t.Errorf("the refusal tells a value, or a child was made: %s", got.raw)
	}
	// With the variables there it is made.
	id = s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"USER":"u","TOKEN":"t"}}`).text("subagent_id")
	s.session(id, 1, `"go"`)[0].is("error", `false`)
}

// TestS1Decision10_Order: "Order of checks in subagent_create: declared, enabled, name, continue?, cap, depth, quota,
// arguments, attachments, env, create. Nothing of the child exists before all pass."
func TestS1Decision10_Order(t *testing.T) {
	t.Parallel()
	bad := func(agent, name string) string { // each lacks arguments and names a file that is not there
		return fmt.Sprintf(`{"agent":%q,"name":%q,"attachments":["none.txt"]}`, agent, name)
	}
	boss := plans(plan{
		does("subagent_create", bad("stranger", "")),
		does("subagent_create", bad("off", "")),
		does("subagent_create", bad("needs", "")),
		does("subagent_create", bad("full", "n")),
		does("subagent_create", bad("needs", "n")),
		does("subagent_create", `{"agent":"needs","name":"n","arguments":{"x":1},"attachments":["none.txt"]}`),
		does("subagent_create", `{"agent":"needs","name":"n","arguments":{"x":1}}`),
	})
	needs := `{"name":"needs","requiredEnv":["KEY"],"sideA":{"prompt":{"text":"t","model":"builtin/echo","requiredSchema":{"type":"object","properties":{"x":{}},"required":["x"]}}}}`
	full := `{"name":"full","sideA":{"prompt":{"text":"t","model":"builtin/echo"}}}`
	definitions := []string{needs, full,
		defined("boss", "test/boss", only(`{"agent":"needs"}`, `{"agent":"needs","as":"off","optional":"OFF"}`, `{"agent":"full","maxInstances":1,"immediate":true}`))}
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, definitions...)
	id, got := s.runs("boss")
	for i, want := range []string{"not_found", "not_found", "schema_violation", "max_instances", "subagent_arguments_required", "not_found", "subagent_env_required"} {
		got[i].is("content.code", quote(want))
	}
	for i, field := range []string{"agent", "agent", "name"} {
		got[i].is("content.detail.field", quote(field))
	}
	got[5].is("content.field", `"attachments"`)
	s.child(id) // none but the immediate one

	// Depth and quota come before the arguments, and depth before the quota.
	for limits, want := range map[host.Limits]string{
		{MaxDepth: 2, MaxLive: 2}: "quota_exceeded", {MaxDepth: 2, MaxLive: 100}: "subagent_arguments_required",
	} {
		s = stageWith(t, host.Config{Limits: limits}, map[string]model.Model{"test/boss": boss}, definitions...)
		_, got = s.runs("boss")
		got[4].is("content.code", quote(want))
	}
	deep := plans(plan{does("subagent_create", `{"agent":"needs","name":"n"}`)})
	s = stageWith(t, host.Config{Limits: host.Limits{MaxDepth: 1, MaxLive: 1}}, map[string]model.Model{"test/boss": deep}, needs, defined("boss", "test/boss", only(`{"agent":"needs"}`)))
	_, got = s.runs("boss")
	got[0].is("content.code", `"depth_exceeded"`)
	s.noDeadLetters()
}

// TestS1Decision12_Init: "init*Property looks in arguments, then in the top-level arguments. No mapping: message; none:
// the JSON of the arguments; nothing at all: the child is spawned idle." What is said at the top level is no argument of
// the child.
func TestS1Decision12_Init(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"mapped","name":"n0","message":"top","arguments":{"topic":"ports"}}`),
		does("subagent_create", `{"agent":"by_top","name":"n1","message":"top","arguments":{"topic":"ports"}}`),
		does("subagent_create", `{"agent":"plain","name":"n2","message":"top","arguments":{"topic":"ports"}}`),
		does("subagent_create", `{"agent":"plain","name":"n3","arguments":{"topic":"ports"}}`),
		does("subagent_create", `{"agent":"free","name":"n4"}`),
		does("subagent_create", `{"agent":"free","name":"n5","message":"top"}`),
		does("subagent_create", `{"agent":"named","name":"n6","arguments":{"topic":"Ada"}}`),
	})
	f := thinks(says("found"))
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/finder": f, "test/free": f}, finder, defined("free", "test/free", ""),
		defined("boss", "test/boss", only(`{"agent":"finder","as":"mapped","initUserMessageProperty":"topic"}`, `{"agent":"finder","as":"by_top","initUserMessageProperty":"message"}`,
			`{"agent":"finder","as":"plain"}`, `{"agent":"free"}`, `{"agent":"finder","as":"named","initAgentNameProperty":"topic"}`)))
	id, got := s.runs("boss")
	for i, want := range []string{`"ports"`, `"top"`, `"top"`, `{"topic":"ports"}`, ``, `"top"`, `{"topic":"Ada"}`} {
		if got[i].text("error") == "true" {
			t.Errorf("creation %d is refused: %s", i, got[i].raw)
			continue
		}
		c := string(agent.IDOf(got[i].text("content.reference")))
		if e := s.entry(c); strings.Contains(string(e.InitialArguments), "top\"}") || i == 6 && e.ThreadName != "Ada" || i < 6 && e.ThreadName != fmt.Sprintf("n%d", i) {
			t.Errorf("child %d is called %q and has the arguments %s", i, e.ThreadName, e.InitialArguments)
		}
		if want == "" {
			got[i].is("content.status", `"idle"`)
			if e := s.entry(c); e.Session != 0 {
				t.Errorf("a child that was given nothing took a session: %+v", e)
			}
			continue
		}
		s.rests(c, 1, agent.StatusIdle)
		if m := entriesOf(f.shown(c)[0].History, model.EntryMessage); len(m) != 1 || canonical(t, string(m[0].Content)) != canonical(t, want) {
			t.Errorf("child %d begins with\n%s want %s", i, tellHistory(f.shown(c)[0].History), want)
		}
	}
	if n := len(s.children(id)); n != 7 {
		t.Errorf("there are %d children, want 7", n)
	}
}
