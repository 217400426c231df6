package agentfile_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
)

const schemaFile = "../docs/agent.schema.json"

func schema(t testing.TB) (doc map[string]any, compiled *jsonschema.Schema) {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:agent", value); err != nil {
		t.Fatal(err)
	}
	if compiled, err = c.Compile("urn:agent"); err != nil {
		t.Fatalf("docs/agent.schema.json is no JSON Schema: %v", err)
	}
	return value.(map[string]any), compiled
}

// The Go types and the published schema have the same keys, of the same types.
func TestSchemaIsTheTypes(t *testing.T) {
	t.Parallel()
	doc, _ := schema(t)
	defs := doc["$defs"].(map[string]any)
	for name, typ := range map[string]reflect.Type{
		"agent": reflect.TypeFor[agent.Definition](), "side": reflect.TypeFor[agent.Side](), "prompt": reflect.TypeFor[agent.Prompt](),
		"bindingObject": reflect.TypeFor[agent.Binding](), "relationship": reflect.TypeFor[agent.Relationship](), "immediate": reflect.TypeFor[agent.Immediate](),
		"budget": reflect.TypeFor[a2e.Budget](),
	} {
		def, ok := defs[name].(map[string]any)
		if !ok {
			t.Errorf("the schema has no %q", name)
			continue
		}
		if def["additionalProperties"] != false {
			t.Errorf("%s lets unknown keys through", name)
		}
		properties := def["properties"].(map[string]any)
		left := maps.Clone(properties)
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if key == "-" {
				continue
			}
			property, ok := properties[key].(map[string]any)
			if delete(left, key); !ok {
				t.Errorf("the schema has no %s.%s", name, key)
				continue
			}
			if want, got := jsonTypes(typ.Field(i).Type), schemaTypes(defs, property); !reflect.DeepEqual(got, want) {
				t.Errorf("%s.%s is %v in the schema, %v in Go", name, key, got, want)
			}
		}
		for key := range left {
			t.Errorf("Go has no %s.%s", name, key)
		}
	}
}

// jsonTypes are the types that a Go type may have in JSON.
func jsonTypes(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[agent.Prompt](), reflect.TypeFor[agent.Binding]():
		return []string{"object", "string"}
	case reflect.TypeFor[agent.Immediate]():
		return []string{"boolean", "object"}
	case reflect.TypeFor[json.RawMessage]():
		return []string{"object"}
	}
	return []string{map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Float64: "number",
		reflect.Slice: "array", reflect.Struct: "object"}[t.Kind()]}
}

// schemaTypes are the types that a schema lets through, references followed.
func schemaTypes(defs, s map[string]any) []string {
	var types []string
	if ref, ok := s["$ref"].(string); ok {
		types = schemaTypes(defs, defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any))
	}
	if typ, ok := s["type"].(string); ok {
		types = append(types, typ)
	}
	if _, ok := s["enum"]; ok {
		types = append(types, "string")
	}
	if all, ok := s["anyOf"].([]any); ok {
		for _, one := range all {
			types = append(types, schemaTypes(defs, one.(map[string]any))...)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// validated checks every document of a YAML file against the published schema.
func validated(t testing.TB, compiled *jsonschema.Schema, text string) error {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document any
		if err := d.Decode(&document); err != nil {
			return nil
		}
		data, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); err != nil {
			return err
		}
	}
}

// What Go makes of a definition is a document of the schema, and one of this package.
func TestSchemaTakesWhatGoWrites(t *testing.T) {
	t.Parallel()
	_, compiled := schema(t)
	no := false
	d := agent.Definition{
		Name: "a", Title: "A", ExposeAsTool: true, ToolDescription: "d", MaxSessionTurns: 1, RequiredEnv: []string{"E"},
		TimeoutSeconds: 60, IdleTimeoutSeconds: 5, Budget: &a2e.Budget{Tokens: 1, USD: 0.5, Steps: 2, Seconds: 1.5},
		SideA: &agent.Side{
			Prompt: &agent.Prompt{Name: "p", Text: "t", Model: "m", Tools: []string{"x"}, RequiredSchema: json.RawMessage(`{"type":"object"}`), Metadata: json.RawMessage(`{}`)},
			Subagents: []agent.Relationship{
				{Agent: "a", As: "again", Description: "d", MaxInstances: 2, Immediate: &agent.Immediate{Off: true}, Blocking: true, ParentCommunication: agent.Explicit,
					ScopedEnv: []string{"E"}, InitUserMessageProperty: "u", InitAttachmentsProperty: "f", InitAgentNameProperty: "n", Optional: "O", Hidden: true},
				{Agent: "b", Immediate: &agent.Immediate{NameEnv: "N", DescriptionEnv: "D", ScopedEnv: []string{"E"}}},
			},
			StopOnResponse: &no, MaxSteps: 3, IdleTimeoutSeconds: 4, SessionStop: &agent.Binding{Tool: "stop", Description: "d"}, SessionFail: &agent.Binding{Tool: "fail", Description: "d"}, SessionStatus: &agent.Binding{Tool: "status", Description: "d"}, AskParent: &agent.Binding{Tool: "ask", Description: "d"},
		},
		SideB: &agent.Side{Human: true},
	}
	b := agent.Definition{Name: "b", SideA: &agent.Side{Handler: "h"}}
	for v := range fieldsOf(reflect.ValueOf(d)) {
		t.Errorf("the test leaves %s empty", v)
	}
	var texts []string
	for _, d := range []*agent.Definition{&d, &b} {
		data, err := agent.EncodeDefinition(d)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
		if err := validated(t, compiled, string(data)); err != nil {
			t.Errorf("the schema refuses %s: %v", data, err)
		}
	}
	dir := write(t, map[string]string{"a.json": strings.Join(texts, "\n"), "b.yaml": strings.Join(texts, "\n---\n")})
	for _, name := range []string{"a.json", "b.yaml"} {
		if got := read(t, filepath.Join(dir, name)); !reflect.DeepEqual(got, []agent.Definition{d, b}) {
			t.Errorf("%s was read as %+v", name, got)
		}
	}
}

// fieldsOf gives the fields of a definition that are not set on the way down its side A.
func fieldsOf(v reflect.Value) map[string]bool {
	empty := map[string]bool{}
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		for field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		switch {
		case v.Type() == reflect.TypeFor[agent.Side]() && (name == "Handler" || name == "Human"):
		case field.Kind() == reflect.Bool && v.Type() == reflect.TypeFor[agent.Side]():
		case field.IsZero():
			empty[v.Type().Name()+"."+name] = true
		case field.Kind() == reflect.Struct && name != "SideB":
			maps.Copy(empty, fieldsOf(field))
		}
	}
	return empty
}

// The schema refuses what a schema can see; this package refuses it as well.
func TestSchemaAndReaderRefuseAlike(t *testing.T) {
	t.Parallel()
	_, compiled := schema(t)
	for what, text := range map[string]string{
		"no side A": "{name: a}", "no name": "{sideA: {human: true}}", "an unknown key": "{name: a, sideA: {human: true}, x: 1}",
		"two backings": "{name: a, sideA: {human: true, handler: h}}", "no backing": "{name: a, sideA: {}}", "a person with children": "{name: a, sideA: {human: true, subagents: [{agent: a, as: b}]}}",
		"a bad tool": "{name: a, sideA: {prompt: {text: t, model: m, tools: [a b]}}}", "a bad binding": "{name: a, sideA: {handler: h, sessionStop: a b}}",
		"a bad as": "{name: a, sideA: {handler: h, subagents: [{agent: a, as: ü}]}}", "below zero": "{name: a, sideA: {handler: h, maxSteps: -1}}",
		"immediate": "{name: a, sideA: {handler: h, subagents: [{agent: a, immediate: {env: [X]}}]}}", "communication": "{name: a, sideA: {handler: h, subagents: [{agent: a, parentCommunication: loud}]}}",
		"environment": "{name: a, requiredEnv: [a-b], sideA: {handler: h}}", "a schema of a list": "{name: a, sideA: {prompt: {text: t, model: m, requiredSchema: {type: array}}}}",
		"a budget of nothing": "{name: a, budget: {}, sideA: {handler: h}}", "a budget below zero": "{name: a, budget: {usd: -1}, sideA: {handler: h}}",
		"half a step": "{name: a, budget: {steps: 0.5}, sideA: {handler: h}}", "for ever": "{name: a, timeoutSeconds: 99999999999, sideA: {handler: h}}",
		"an unknown part": "{agents: [], tools: []}", "a prompt without a name": "{prompts: [{text: t, model: m}]}", "a list": "[{name: a, sideA: {human: true}}]", "a text": "hello",
	} {
		if validated(t, compiled, text) == nil {
			t.Errorf("%s: the schema lets %s through", what, text)
		}
		dir := write(t, map[string]string{"a.yaml": text})
		if len(told(t, dir)) == 0 {
			t.Errorf("%s: the reader lets %s through", what, text)
		}
	}
}

// The examples are right, for the reader and for the schema, and their scripts can be played.
func TestExamples(t *testing.T) {
	t.Parallel()
	_, compiled := schema(t)
	paths, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no examples (%v)", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validated(t, compiled, string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, d := range read(t, path) {
			for _, side := range []*agent.Side{d.SideA, d.SideB} {
				if side == nil || side.Prompt == nil || side.Prompt.Model != "builtin/script" {
					continue
				}
				var metadata struct{ Script json.RawMessage }
				if err := json.Unmarshal(side.Prompt.Metadata, &metadata); err != nil {
					t.Fatal(err)
				}
				if err := model.ValidateScript(metadata.Script); err != nil {
					t.Errorf("%s: the script of %s: %v", path, d.Name, err)
				}
			}
		}
	}
}

// The specification's own example: what §9 declares is what the file says.
func TestAssistantExample(t *testing.T) {
	t.Parallel()
	agents := read(t, "../examples/assistant.yaml")
	if len(agents) != 4 || agents[0].Name != "assistant_agent" || agents[0].SideB == nil || !agents[0].SideB.Human {
		t.Fatalf("%+v, want assistant_agent, whose side B is a person, and its three children", agents)
	}
	var got []string
	for _, r := range agents[0].SideA.Subagents {
		line := r.Name() + " " + r.Agent + " " + strings.Join(r.ScopedEnv, ",")
		if r.Blocking {
			line += " blocking"
		}
		if r.MaxInstances == 1 {
			line += " once"
		}
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{"work_calendar calendar_agent WORK_CAL_ID", "personal_calendar calendar_agent PERSONAL_CAL_ID",
		"research_agent research_agent  blocking once", "approval_gate approval_gate"}
	if !slices.Equal(got, want) {
		t.Errorf("the relationships are %q, want %q", got, want)
	}
}
