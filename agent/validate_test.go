package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/agent"
)

// parse reads definitions as the store keeps them.
func parse(t testing.TB, text string) []agent.Definition {
	t.Helper()
	var defs []agent.Definition
	if err := json.Unmarshal([]byte(text), &defs); err != nil {
		t.Fatalf("the test's own definitions are no JSON: %v\n%s", err, text)
	}
	return defs
}

// sides makes an agent "a" beside an agent "child" that is right.
func sides(a, b string) string {
	if b != "" {
		b = `,"sideB":` + b
	}
	return `[{"name":"a","sideA":` + a + b + `},{"name":"child","sideA":{"prompt":{"text":"t","model":"m",
		"requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}}}}}}]`
}

// prompting is a side with a prompt that is right, and more.
func prompting(more string) string { return `{"prompt":{"text":"t","model":"m"}` + more + `}` }

// owning is one with relationships.
func owning(relationships string) string { return prompting(`,"subagents":[` + relationships + `]`) }

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, defs string
		want       []string // the code and the path of each, in order, and a word of the message
	}{
		{"all that may be said", `[{"name":"風林火山 Agent","title":"T","exposeAsTool":true,"toolDescription":"d","maxSessionTurns":3,"requiredEnv":["A_1"],
			"sideA":{"prompt":{"name":"p","text":"t","model":"m","tools":["x","y-z"],"requiredSchema":{"type":"object"},"metadata":{"k":1}},
			"subagents":[{"agent":"風林火山 Agent","as":"again","description":"d","maxInstances":1,"immediate":false,"blocking":true,"parentCommunication":"explicit",
			"scopedEnv":["B"],"initUserMessageProperty":"anything","initAttachmentsProperty":"files","initAgentNameProperty":"n","optional":"FLAG","hidden":true},
			{"agent":"elsewhere","immediate":{"nameEnv":"N","descriptionEnv":"D","scopedEnv":["S"]}}],
			"stopOnResponse":false,"maxSteps":4,"sessionStop":"done","sessionFail":{"tool":"give_up"},"sessionStatus":"status"},"sideB":{"human":true}}]`, nil},
		{"a handler with relationships", sides(`{"handler":"h","subagents":[{"agent":"child","initUserMessageProperty":"topic","initAgentNameProperty":"name"}]}`, ""), nil},
		{"one agent under two names", sides(owning(`{"agent":"child","as":"work"},{"agent":"child","as":"home"}`), ""), nil},

		{"no side A", `[{"name":"a"}]`, []string{"schema_violation agents[0].sideA: needs a side A"}},
		{"no name", `[{"sideA":{"human":true}}]`, []string{"schema_violation agents[0].name: needs a name"}},
		{"too long a name", `[{"name":"` + strings.Repeat("é", 513) + `","sideA":{"human":true}}]`, []string{"schema_violation agents[0].name: 1026 bytes"}},
		{"two of one name", `[{"name":"a","sideA":{"human":true}},{"name":"a","sideA":{"human":true}}]`, []string{"schema_violation agents[1].name: another agent"}},
		{"below zero", `[{"name":"a","maxSessionTurns":-1,"sideA":{"human":true,"maxSteps":-2}}]`,
			[]string{"schema_violation agents[0].maxSessionTurns: -1", "schema_violation agents[0].sideA.maxSteps: -2"}},
		{"environment", `[{"name":"a","requiredEnv":["OK","1A",""],"sideA":{"human":true}}]`,
			[]string{`schema_violation agents[0].requiredEnv[1]: "1A"`, "schema_violation agents[0].requiredEnv[2]: "}},

		{"nothing behind it", sides(`{}`, ""), []string{"schema_violation agents[0].sideA: needs a prompt"}},
		{"two things behind it", sides(`{"handler":"h","human":true}`, ""), []string{"schema_violation agents[0].sideA: handler and human"}},
		{"a prompt that is not there", sides(`{"prompt":"gone"}`, ""), []string{`schema_violation agents[0].sideA.prompt: no prompt "gone"`}},
		{"an empty prompt", sides(`{"prompt":{}}`, ""), []string{"schema_violation agents[0].sideA.prompt.text: ", "schema_violation agents[0].sideA.prompt.model: "}},
		{"metadata", sides(`{"prompt":{"text":"t","model":"m","metadata":[1]}}`, ""), []string{"schema_violation agents[0].sideA.prompt.metadata: not an object"}},
		{"a person with relationships", sides(`{"human":true,"subagents":[{"agent":"child"}]}`, ""), []string{"subagent_human_side agents[0].sideA.subagents: can't own"}},
		{"a person with tools", sides(`{"human":true,"sessionStop":"done"}`, ""), []string{"schema_violation agents[0].sideA.sessionStop: has no tools"}},

		{"a schema of something else", sides(`{"prompt":{"text":"t","model":"m","requiredSchema":{"type":"array"}}}`, ""), []string{`schema_violation agents[0].sideA.prompt.requiredSchema: "type": "object"`}},
		{"a schema that is none", sides(`{"prompt":{"text":"t","model":"m","requiredSchema":{"type":"object","properties":{"a":{"type":"strin"}}}}}`, ""),
			[]string{"schema_violation agents[0].sideA.prompt.requiredSchema: /properties/a/type"}},
		{"a schema that reads a file", sides(`{"prompt":{"text":"t","model":"m","requiredSchema":{"type":"object","properties":{"a":{"$ref":"file:///etc/hostname"}}}}}`, ""),
			[]string{"schema_violation agents[0].sideA.prompt.requiredSchema: stand alone"}},
		{"a schema that only reads itself", sides(`{"prompt":{"text":"t","model":"m","requiredSchema":{"type":"object","$defs":{"n":{"type":"object","properties":{"in":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}}}`, ""), nil},

		{"no agent", sides(owning(`{"as":"x"}`), ""), []string{"schema_violation agents[0].sideA.subagents[0].agent: needs an agent"}},
		{"nothing at all", sides(owning(`{}`), ""), []string{"schema_violation agents[0].sideA.subagents[0].agent: needs an agent"}},
		{"an unknown agent", sides(owning(`{"agent":"child"},{"agent":"nobody"}`), ""), []string{`subagent_unknown_agent agents[0].sideA.subagents[1].agent: "nobody"`}},
		{"a reserved name", sides(owning(`{"agent":"child","as":"subagents"},{"agent":"child","as":"Subagent-Create"}`), ""),
			[]string{"subagent_reserved_name agents[0].sideA.subagents[0].as: ", "subagent_reserved_name agents[0].sideA.subagents[1].as: "}},
		{"a reserved name for a binding", sides(prompting(`,"sessionStop":"subagent_message"`), ""), []string{"subagent_reserved_name agents[0].sideA.sessionStop.tool: "}},
		{"twice on a side", sides(owning(`{"agent":"child"},{"agent":"child"}`), ""), []string{"subagent_duplicate_relationship agents[0].sideA.subagents[1].agent: sideA has"}},
		{"on both sides", sides(owning(`{"agent":"child"}`), owning(`{"agent":"a","as":"child"}`)), []string{"subagent_duplicate_relationship agents[0].sideB.subagents[0].as: sideA has"}},
		{"a tool's name", sides(`{"prompt":{"text":"t","model":"m","tools":["look"]},"subagents":[{"agent":"child","as":"look"}]}`, ""), []string{"subagent_name_conflict agents[0].sideA.subagents[0].as: tool"}},
		{"a binding's name", sides(prompting(`,"sessionFail":"stop","subagents":[{"agent":"child","as":"stop"}]`), ""), []string{"subagent_name_conflict agents[0].sideA.subagents[0].as: sessionFail"}},
		{"two bindings of one name", sides(prompting(`,"sessionFail":"stop","sessionStop":"stop","askParent":"Stop"`), ""),
			[]string{"subagent_name_conflict agents[0].sideA.sessionFail.tool: sessionStop", "subagent_name_conflict agents[0].sideA.askParent.tool: so like"}},
		{"the same name on the other side", sides(`{"prompt":{"text":"t","model":"m","tools":["look"]}}`, owning(`{"agent":"child","as":"look"}`)), nil},
		{"nearly one name", sides(owning(`{"agent":"child","as":"work-team"},{"agent":"child","as":"Work_Team"}`), ""), []string{`subagent_name_conflict agents[0].sideA.subagents[1].as: so like the relationship "work-team"`}},
		{"names that no model can call", `[{"name":"風林火山 Agent","sideA":{"human":true}},{"name":"疾風迅雷 Agent","sideA":{"human":true}},
			{"name":"a","sideA":` + owning(`{"agent":"風林火山 Agent"},{"agent":"疾風迅雷 Agent"},{"agent":"疾風迅雷 Agent","as":"a.b"}`) + `}]`,
			[]string{"schema_violation agents[2].sideA.subagents[0].agent: with as", "schema_violation agents[2].sideA.subagents[1].agent: with as", "schema_violation agents[2].sideA.subagents[2].as: a.b"}},
		{"too long a name for models", sides(owning(`{"agent":"child","as":"`+strings.Repeat("x", 65)+`"}`), ""), []string{"schema_violation agents[0].sideA.subagents[0].as: want"}},
		{"bad names of tools", sides(`{"prompt":{"text":"t","model":"m","tools":["a b","x","x"]},"sessionStatus":{"tool":""}}`, ""),
			[]string{"schema_violation agents[0].sideA.prompt.tools[0]: want", "schema_violation agents[0].sideA.prompt.tools[2]: twice", "schema_violation agents[0].sideA.sessionStatus.tool: want"}},
		{"a subagent among the tools", sides(`{"prompt":{"text":"t","model":"m","tools":["child","x","subagent_create"]},"subagents":[{"agent":"child","as":"kid"}]}`, ""),
			[]string{"subagent_in_prompt_tools agents[0].sideA.prompt.tools[0]: is a subagent", "subagent_in_prompt_tools agents[0].sideA.prompt.tools[2]: injects"}},
		{"details of a relationship", sides(owning(`{"agent":"child","maxInstances":-1,"parentCommunication":"loud","scopedEnv":["a b"],"optional":"x y","initUserMessageProperty":"subject","initAttachmentsProperty":"attachments",
			"immediate":{"nameEnv":"é","descriptionEnv":"a-b","scopedEnv":["="]}}`), ""),
			[]string{"schema_violation agents[0].sideA.subagents[0].maxInstances: -1", "schema_violation agents[0].sideA.subagents[0].parentCommunication: loud",
				"schema_violation agents[0].sideA.subagents[0].scopedEnv[0]: ", "schema_violation agents[0].sideA.subagents[0].optional: ", "schema_violation agents[0].sideA.subagents[0].immediate.scopedEnv[0]: ",
				"schema_violation agents[0].sideA.subagents[0].immediate.nameEnv: ", "schema_violation agents[0].sideA.subagents[0].immediate.descriptionEnv: ",
				"schema_violation agents[0].sideA.subagents[0].initUserMessageProperty: it has topic"}},

		{"itself at once", sides(owning(`{"agent":"a","immediate":true}`), ""), []string{"subagent_immediate_cycle agents[0].sideA.subagents[0].immediate: a → a"}},
		{"itself when asked", sides(owning(`{"agent":"a"}`), ""), nil},
		{"a circle of three", `[{"name":"x","sideA":` + owning(`{"agent":"y","immediate":true}`) + `},{"name":"y","sideA":{"human":true},"sideB":` + owning(`{"agent":"z","immediate":{}}`) + `},
			{"name":"z","sideA":` + owning(`{"agent":"y","as":"lazy"},{"agent":"x","immediate":true,"optional":"F"}`) + `},{"name":"w","sideA":` + owning(`{"agent":"x","immediate":true}`) + `}]`,
			[]string{"subagent_immediate_cycle agents[0].sideA.subagents[0].immediate: x → y → z → x", "subagent_immediate_cycle agents[1].sideB.subagents[0].immediate: y → z → x → y",
				"subagent_immediate_cycle agents[2].sideA.subagents[1].immediate: z → x → y → z"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			got := agent.Validate(parse(t, c.defs), func(name string) bool { return name == "elsewhere" })
			for i, p := range got {
				if i >= len(c.want) {
					t.Errorf("one problem too many: %v", p)
					continue
				}
				head, word, _ := strings.Cut(c.want[i], ": ")
				if fmt.Sprintf("%s %s", p.Code, p.Path) != head || !strings.Contains(p.Message, word) {
					t.Errorf("problem %d is %v, want %s", i, p, c.want[i])
				}
			}
			for i := len(got); i < len(c.want); i++ {
				t.Errorf("nobody said: %s", c.want[i])
			}
		})
	}
}

func TestValidateKnowsNobody(t *testing.T) {
	t.Parallel()
	got := agent.Validate(parse(t, `[{"name":"a\u0000","sideA":`+owning(`{"agent":"b"}`)+`}]`), nil)
	if len(got) != 1 || got[0].Code != "subagent_unknown_agent" {
		t.Errorf("%v, want only that b is unknown", got)
	}
	bad := []agent.Definition{{Name: "\xff", SideA: &agent.Side{Human: true}}}
	if got := agent.Validate(bad, nil); len(got) != 1 || got[0].Path != "agents[0].name" {
		t.Errorf("%v, want only that the name is not UTF-8", got)
	}
	if got := agent.Validate(nil, nil); got != nil {
		t.Errorf("no definitions have the problems %v", got)
	}
}
