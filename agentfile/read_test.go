package agentfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/agentfile"
)

// write puts files into a new directory, and gives the directory.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads files that must be right.
func read(t testing.TB, paths ...string) []agent.Definition {
	t.Helper()
	f := agentfile.Read(paths...)
	if problems := f.Validate(); problems != nil {
		t.Fatalf("the files have problems: %v", problems)
	}
	return f.Agents
}

// told gives the problems of files as lines, without the directory.
func told(t testing.TB, dir string, paths ...string) []string {
	t.Helper()
	for i := range paths {
		paths[i] = filepath.Join(dir, paths[i])
	}
	if paths == nil {
		paths = []string{dir}
	}
	var lines []string
	for _, p := range agentfile.Read(paths...).Validate() {
		lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(p.String(), dir+"/", ""), dir, "."))
	}
	return lines
}

// expect compares problems with what the lines begin with.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i, line := range got {
		if i >= len(want) {
			t.Errorf("one problem too many: %s", line)
		} else if !strings.HasPrefix(line, want[i]) {
			t.Errorf("problem %d is %q, want %q", i, line, want[i])
		}
	}
	for i := len(got); i < len(want); i++ {
		t.Errorf("nobody said: %s", want[i])
	}
}

const yamlAgents = `# an agent by itself
name: one
sideA:
  prompt: shared
  subagents:
    - agent: two
      immediate: true
---
agents:
  - name: two
    sideA: &side
      prompt:
        text: |
          Say {{what}},
          with <care>.
        model: builtin/echo
        requiredSchema:
          type: object
          properties: {zebra: {maximum: 12345678901234567890}, apple: {const: 1.10}, date: {const: 2024-01-01}, none: {const: null}}
      sessionStop: done
  - name: three
    sideA: *side
    sideB:
prompts:
  - {name: shared, text: t, model: m, tools: [x]}
`

const jsonAgents = `{"agents": [
  {"name": "one", "sideA": {"prompt": "shared", "subagents": [{"agent": "two", "immediate": {}}]}},
  {"name": "two", "sideA": {"prompt": {"text": "Say {{what}},\nwith \u003ccare>.\n", "model": "builtin\/echo", "requiredSchema":
    {"type": "object", "properties": {"zebra": {"maximum": 12345678901234567890}, "apple": {"const": 1.10}, "date": {"const": "2024-01-01"}, "none": {"const": null}}}},
    "sessionStop": {"tool": "done"}}}]}
{"name": "three", "sideA": {"prompt": {"text": "Say {{what}},\nwith <care>.\n", "model": "builtin/echo", "requiredSchema":
    {"type": "object", "properties": {"zebra": {"maximum": 12345678901234567890}, "apple": {"const": 1.10}, "date": {"const": "2024-01-01"}, "none": {"const": null}}}},
    "sessionStop": "done"}, "sideB": null}
{"prompts": [{"name": "shared", "text": "t", "model": "m", "tools": ["x"]}]}
`

// What YAML and JSON say is the same, to the byte: numbers and the order of keys as they are written.
func TestReadYAMLAndJSON(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": yamlAgents, "b.json": jsonAgents})
	want := []string{
		`{"name":"one","sideA":{"prompt":{"name":"shared","text":"t","model":"m","tools":["x"]},"subagents":[{"agent":"two","immediate":true}]}}`,
		`{"name":"two","sideA":{"prompt":{"text":"Say {{what}},\nwith <care>.\n","model":"builtin/echo","requiredSchema":` +
			`{"type":"object","properties":{"zebra":{"maximum":12345678901234567890},"apple":{"const":1.10},"date":{"const":"2024-01-01"},"none":{"const":null}}}},"sessionStop":{"tool":"done"}}}`,
	}
	want = append(want, strings.Replace(want[1], "two", "three", 1))
	for _, name := range []string{"a.yaml", "b.json"} {
		got := read(t, filepath.Join(dir, name))
		for i := range got {
			data, err := agent.EncodeDefinition(&got[i])
			if err != nil || i >= len(want) || string(data) != want[i] {
				t.Errorf("%s: agent %d is\n%s (%v), want\n%s", name, i, data, err, want[min(i, len(want)-1)])
			}
			back, err := agent.ParseDefinition(data)
			if err != nil || !reflect.DeepEqual(*back, got[i]) {
				t.Errorf("%s: agent %d came back as %+v (%v)", name, i, back, err)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d agents, want %d", name, len(got), len(want))
		}
	}
}

func TestReadDirectories(t *testing.T) {
	t.Parallel()
	one := func(name string) string { return "name: " + name + "\nsideA: {prompt: p}\n" }
	dir := write(t, map[string]string{
		"b.yml": one("b"), "a.yaml": one("a"), "c.json": `{"name":"c","sideA":{"human":true}}`, "d.YAML": "",
		".hidden.yaml": "{", "notes.txt": "{", "deeper/x.yaml": "{", "z.yaml": "prompts: [{name: p, text: t, model: m}]\n---\n---\nagents:\n",
	})
	var names []string
	for _, d := range read(t, dir, filepath.Join(dir, "a.yaml"), dir+"/./b.yml") {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("read %q, want a b c: by name, each file once", got)
	}
}

func TestProblemsOfFiles(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"tab.yaml": "name: a\nsideA:\n\thuman: true\n", "latin.yaml": "name: Stra\xdfe\n", "notes.txt": "x", "empty/x.txt": "",
		"cut.json": "{\"name\": \"a\",\n  \"sideA\": {\"human\": tru}}", "short.json": `{"name": "a"`, "comma.json": "{\"name\":\"a\",\n \"requiredEnv\":[1,]}",
		"large.yaml": strings.Repeat("# comment\n", 500_000), "second.json": `{"name":"a","sideA":{"human":true}} }`,
	})
	for name, want := range map[string]string{
		"tab.yaml":    "tab.yaml:3: parse_error: found character",
		"latin.yaml":  "latin.yaml: schema_violation: the file is not UTF-8",
		"notes.txt":   "notes.txt: schema_violation: definitions stand in",
		"empty":       "empty: schema_violation: there is no *.yaml",
		"cut.json":    "cut.json:2:25: parse_error: not JSON: ",
		"short.json":  "short.json:1:13: parse_error: not JSON: unexpected EOF",
		"comma.json":  "comma.json:2:19: parse_error: not JSON: ",
		"large.yaml":  "large.yaml: schema_violation: the file has more than",
		"second.json": "second.json:1:37: parse_error: not JSON: ",
		"gone.yaml":   "gone.yaml: not_found: no such file",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, told(t, dir, name), want)
		})
	}
}

// Each problem is where a person has to look, and is told once.
func TestProblemsHavePlaces(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": `
name: first
sideA:
  promt: shared
---
agents:
  - name: second
    maxSessionTurns: 2.5
    sideA:
      prompt: shared
      subagents:
        - agent: first
          as: subagents
        - {agent: first, as: "first", maxInstances: "3", blocking: yes}
        - agent: first
        - {agent: nobody, immediate: maybe}
    sideB:
      prompt: shared
      maxSteps: 3
      maxSteps: 4
  -
  - name: 007
    sideA: human
  - name: third
    exposeastool: true
    sideA: {prompt: {text: t, model: m, tools: [{agent: first, blocking: true}, x, 5, ~], metadata: {<<: {a: 1}, n: 0x10, 1: 2}}}
prompts:
  - {name: shared, text: t, tools: [subagents]}
  - {text: t}
  - name: shared
    text: again
  - just a text
color: red
`, "b.json": `{"agents": [
  {"name": "fourth", "sideA": {"prompt": "gone",
    "subagents": [ {"agent": "first", "as": "x y"},
	{"agent":"ключ","ключ": 1, "as":"k"}]}}]}`})
	expect(t, told(t, dir),
		`a.yaml:4:3: schema_violation: agents[0].sideA.promt: unknown key "promt"; did you mean "prompt"?`,
		`a.yaml:8:22: schema_violation: agents[1].maxSessionTurns: this is a number, want a whole number`,
		`a.yaml:13:15: subagent_reserved_name: agents[1].sideA.subagents[0].as: "subagents" is the name of a tool that the runtime injects`,
		`a.yaml:14:53: schema_violation: agents[1].sideA.subagents[1].maxInstances: this is a text, want a number`,
		`a.yaml:14:68: schema_violation: agents[1].sideA.subagents[1].blocking: this is a text, want true or false`,
		`a.yaml:15:18: subagent_duplicate_relationship: agents[1].sideA.subagents[2].agent: sideA has a relationship "first"`,
		`a.yaml:16:19: subagent_unknown_agent: agents[1].sideA.subagents[3].agent: there is no agent "nobody"`,
		`a.yaml:16:38: schema_violation: agents[1].sideA.subagents[3].immediate: this is a text, want true or false or an object`,
		`a.yaml:20:7: schema_violation: agents[1].sideB.maxSteps: the key "maxSteps" stands twice`,
		`a.yaml:21:4: schema_violation: agents[2]: there is nothing in this place of the list`,
		`a.yaml:22:11: schema_violation: agents[3].name: this is a number, want a text; put it in quotes`,
		`a.yaml:23:12: schema_violation: agents[3].sideA: this is a text, want an object`,
		`a.yaml:25:5: schema_violation: agents[4].exposeastool: unknown key "exposeastool"; did you mean "exposeAsTool"?`,
		`a.yaml:26:49: subagent_in_prompt_tools: agents[4].sideA.prompt.tools[0]: this is a subagent`,
		`a.yaml:26:84: schema_violation: agents[4].sideA.prompt.tools[2]: this is a number, want a text; put it in quotes`,
		`a.yaml:26:87: schema_violation: agents[4].sideA.prompt.tools[3]: there is nothing`,
		`a.yaml:26:102: schema_violation: agents[4].sideA.prompt.metadata.<<: merge keys (<<) are not supported`,
		`a.yaml:26:117: schema_violation: agents[4].sideA.prompt.metadata.n: write the number 0x10 as JSON does, or put it in quotes`,
		`a.yaml:28:5: schema_violation: prompts[0].model: a prompt needs a model`,
		`a.yaml:28:37: subagent_in_prompt_tools: prompts[0].tools[0]: "subagents" is a tool that the runtime injects`,
		`a.yaml:29:5: schema_violation: prompts[1].name: a prompt of its own needs a name`,
		`a.yaml:30:5: schema_violation: prompts[2].name: another prompt has the name "shared"`,
		`a.yaml:32:5: schema_violation: prompts[3]: the prompt "just a text" has nothing but its name`,
		`a.yaml:33:1: schema_violation: color: unknown key "color"; known are agents, prompts`,
		`b.json:2:42: schema_violation: agents[0].sideA.prompt: there is no prompt "gone"`,
		`b.json:3:45: schema_violation: agents[0].sideA.subagents[0].as: "x y" is not a name that models can call`,
		`b.json:4:11: subagent_unknown_agent: agents[0].sideA.subagents[1].agent: there is no agent "ключ"`,
		`b.json:4:18: schema_violation: agents[0].sideA.subagents[1].ключ: unknown key "ключ"; known are agent, as, `,
	)
}

// A file that can't be read hides what it defines: that it is missing is not told.
func TestTornFilesHideAgents(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": "name: a\nsideA: {prompt: p, subagents: [{agent: b}]}\nmaxSessionTurns: -1\n", "b.yaml": "name: b\n  sideA: {"})
	expect(t, told(t, dir), "a.yaml:3:18: schema_violation: agents[0].maxSessionTurns: -1", "b.yaml:2: parse_error: ")
}

func TestValidateBesideOthers(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"a.yaml": "name: a\nsideA: {human: true}\nsideB: {handler: h, subagents: [{agent: b, immediate: true}]}\n"})
	f := agentfile.Read(dir)
	if got := f.Validate(); len(got) != 1 || got[0].Code != "subagent_unknown_agent" {
		t.Errorf("%v, want only that b is unknown", got)
	}
	b := agent.Definition{Name: "b", SideA: &agent.Side{Human: true}, MaxSessionTurns: -1}
	if got := f.Validate(b); got != nil {
		t.Errorf("%v, want nothing: what is wrong with b is not about these files", got)
	}
	b.SideB = &agent.Side{Handler: "h", Subagents: []agent.Relationship{{Agent: "a", Immediate: &agent.Immediate{}}}}
	if got := f.Validate(b); len(got) != 1 || got[0].Code != "subagent_immediate_cycle" || got[0].Line != 3 {
		t.Errorf("%v, want the circle through b, on line 3", got)
	}
}

// What is small in a file and large when it is read is refused in good time.
func TestReadBombs(t *testing.T) {
	t.Parallel()
	laughs := "name: a\nsideA: {human: true}\nx0: &x0 [y, y, y, y, y, y, y, y, y, y]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d, ", i), 10))
	}
	meta := "name: a\nsideA: {prompt: {text: t, model: m, metadata: "
	dir := write(t, map[string]string{
		"laughs.yaml": strings.Replace(laughs, "sideA: {human: true}\n", "", 1) + "sideA: {prompt: {text: t, model: m, metadata: {bomb: *x9}}}\n",
		"self.yaml":   meta + "&m {again: *m}}}\n",
		"deep.yaml":   meta + "{a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}}\n",
		"deep.json":   `{"name":"a","sideA":{"prompt":{"text":"t","model":"m","metadata":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}}}`,
	})
	for name, want := range map[string]string{
		"laughs.yaml": "schema_violation: agents[0].sideA.prompt.metadata.bomb", "self.yaml": "stand inside each other",
		"deep.yaml": "stand inside each other", "deep.json": "stand inside each other",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := told(t, dir, name); !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("%.300q, want %q", got, want)
			}
		})
	}
}

// FuzzRead feeds arbitrary files: none may do harm, and what has no problem can be stored.
func FuzzRead(f *testing.F) {
	f.Add(yamlAgents, false)
	f.Add(jsonAgents, true)
	f.Add("&a [*a]", false)
	f.Add("agents: &a\n- *a", false)
	f.Add("? {a: b}\n: c", false)
	f.Add("*a : &a b", false)
	f.Add("prompts: *x", false)
	f.Add(`{"agents":[{"name":"a"`, true)
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		name := map[bool]string{false: "a.yaml", true: "a.json"}[asJSON]
		files := agentfile.Read(filepath.Join(write(t, map[string]string{name: text}), name))
		problems := files.Validate()
		for _, p := range problems {
			if p.Code == "" || p.Message == "" || p.Line < 0 || p.Line > 1+strings.Count(text, "\n")+strings.Count(text, "\r")+strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029") {
				t.Fatalf("a problem that nobody finds: %+v", p)
			}
		}
		for i := range files.Agents {
			data, err := agent.EncodeDefinition(&files.Agents[i])
			if err != nil {
				t.Fatalf("a definition that can't be stored: %v", err)
			}
			if _, err := agent.ParseDefinition(data); err != nil && len(problems) == 0 {
				t.Fatalf("stored as %s it can't be read: %v", data, err)
			}
		}
	})
}
