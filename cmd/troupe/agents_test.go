package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const example = "../../examples/assistant.yaml"

func TestAgentsValidate(t *testing.T) {
	t.Parallel()
	if got := troupe(t, "agents", "validate", example).succeeds(t); got != "4 agents, no problems" {
		t.Errorf("validate printed %q", got)
	}
	if got := troupe(t, "agents", "validate", example, "-o", "json").succeeds(t); got != `{"agents":[{"name":"assistant_agent"},{"name":"calendar_agent"},{"name":"research_agent"},{"name":"approval_gate"}],"problems":[]}` {
		t.Errorf("validate printed %s as JSON", got)
	}
	dir := t.TempDir()
	bad := write(t, dir, "bad.yaml", "name: a\nsideA:\n  handler: h\n  subagents:\n    - {agent: a, as: subagents}\n    - {agent: \"x\\e[31m\"}\n")
	for _, path := range []string{bad, dir} {
		o := troupe(t, "agents", "validate", path)
		o.fails(t, exitFailed, "3 problems")
		lines := strings.Split(o.out, "\n")
		if len(lines) != 4 || lines[0] != bad+`:5:22: subagent_reserved_name: agents[0].sideA.subagents[0].as: "subagents" is the name of a tool that the runtime injects` ||
			!strings.Contains(o.out, bad+":6:15: subagent_unknown_agent: ") || strings.Contains(o.out, "\x1b") {
			t.Errorf("validate printed\n%s", o.out)
		}
	}
	o := troupe(t, "agents", "validate", bad, "-o", "json")
	o.fails(t, exitFailed, "3 problems")
	var report checked
	if err := json.Unmarshal([]byte(o.out), &report); err != nil || len(report.Problems) != 3 || report.Problems[0].Line != 5 ||
		report.Problems[0].Code != "subagent_reserved_name" || report.Problems[0].File != bad || report.Problems[0].Path != "agents[0].sideA.subagents[0].as" {
		t.Errorf("validate printed %s as JSON (%v)", o.out, err)
	}
	troupe(t, "agents", "validate", write(t, dir, "sub/prompts.yaml", "prompts: [{name: p, text: t, model: m}]\n")).fails(t, exitFailed, "no agents")
	o = troupe(t, "agents", "validate", filepath.Join(dir, "gone.yaml"))
	o.fails(t, exitFailed, "1 problem")
	if !strings.Contains(o.out, "gone.yaml: not_found: ") {
		t.Errorf("validate printed %q of a file that is not there", o.out)
	}
	troupe(t, "agents", "validate").fails(t, exitUsage, "missing FILE|DIR…")
	troupe(t, "agents", "frobnicate").fails(t, exitUsage, "frobnicate")
	if got := troupe(t, "agents").succeeds(t); !strings.Contains(got, "Check definitions, without a server") {
		t.Errorf("agents printed %q, want its help", got)
	}
}

func TestAgentsApply(t *testing.T) {
	t.Parallel()
	f := start(t)
	wants := func(want string, args ...string) {
		t.Helper()
		if got := f.ask(args...).succeeds(t); !strings.Contains(got, want) {
			t.Fatalf("troupe %s printed %q, want %q in it", strings.Join(args, " "), got, want)
		}
	}
	wants(`{"agents":[]}`, "agents", "list", "-o", "json")
	wants("assistant_agent  version 1\ncalendar_agent   version 1\nresearch_agent   version 1\napproval_gate    version 1", "agents", "apply", example)
	wants("approval_gate    version 1  unchanged", "agents", "apply", example)

	dir := t.TempDir()
	gate := write(t, dir, "gate.yaml", "name: approval_gate\ntitle: Gate\nsideA: {human: true}\n")
	wants(`{"agents":[{"name":"approval_gate","version":2,"changed":true}],"problems":[]}`, "agents", "apply", gate, "-o", "json")
	wants("approval_gate    2 ", "agents", "list")
	wants(`{"name":"approval_gate","version":2,"applied":"`, "agents", "list", "-o", "json")
	wants(`"title": "Approval"`, "agents", "show", "approval_gate", "--version", "1")
	wants(`{"definition":{"name":"approval_gate","title":"Gate","sideA":{"human":true}},"name":"approval_gate","version":2}`, "agents", "show", "approval_gate", "-o", "json")

	// What show prints can be applied, and is what is there.
	shown := write(t, dir, "shown.json", f.ask("agents", "show", "research_agent").succeeds(t))
	wants("research_agent  version 1  unchanged", "agents", "apply", shown)

	// A relationship may lead to what is stored, also round to where it began.
	wants("boss  version 1", "agents", "apply", write(t, dir, "boss.yaml", "name: boss\nsideA: {handler: h, subagents: [{agent: approval_gate, immediate: true}]}\n"))
	o := f.ask("agents", "apply", write(t, dir, "circle.yaml", "name: approval_gate\nsideA: {handler: h, subagents: [{agent: boss, immediate: true}]}\n"))
	o.fails(t, exitFailed, "1 problem")
	if !strings.Contains(o.out, "circle.yaml:2:58: subagent_immediate_cycle: ") {
		t.Errorf("apply printed %q, want the circle through what is stored", o.out)
	}
	o = f.ask("agents", "apply", gate, write(t, dir, "lost.yaml", "name: lost\nsideA: {handler: h, subagents: [{agent: nobody}]}\n"))
	o.fails(t, exitFailed, "1 problem")
	wants("approval_gate    2 ", "agents", "list")
	f.ask("agents", "show", "lost").fails(t, exitNotFound, `there is no agent "lost"`)
	f.ask("agents", "show", "boss", "--version", "7").fails(t, exitNotFound, "no version 7")
	f.ask("agents", "show", "").fails(t, exitUsage, "name")
	troupe(t, "agents", "list").fails(t, exitUnreachable, "127.0.0.1:1")
	f.ask("agents", "list", "--namespace", "elsewhere", "--timeout", "300ms").fails(t, exitUnreachable, "unavailable")

	f.kill()
	g := up(t, "--listen", "127.0.0.1:0", "--store", f.cmd.Args[len(f.cmd.Args)-1])
	if got := g.ask("agents", "show", "approval_gate").succeeds(t); !strings.Contains(got, "Gate") {
		t.Errorf("after kill -9 the definition is %s, want the one that was applied", got)
	}
}
