package main

import (
	"strings"
	"testing"
)

func TestExtendATask(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := f.ask("spawn", "player", "--model", "builtin/script", "--metadata", `script=[{"sleep_ms":600000}]`, "--idle-timeout-seconds", "30", "--timeout-seconds", "60").succeeds(t)
	f.ask("extend", id, "10m").fails(t, exitFailed, "READY", "conflict")
	f.ask("delegate", id, "x").succeeds(t)
	if got := f.ask("extend", id, "10m").succeeds(t); !strings.HasPrefix(got, id+" has until ") || !strings.Contains(got, "(10m)") || !strings.Contains(got, "without progress until") {
		t.Errorf("extend printed %q, want until when it has", got)
	}
	if got := f.ask("extend", id, "1h", "-o", "json").succeeds(t); !strings.HasPrefix(got, `{"type":"SUBAGENT_EVENT","subagent_id":"`+id+`","event":"extended","content":{"session":1,"deadline":`) {
		t.Errorf("extend printed %s as JSON", got)
	}
	if got := f.ask("show", id).succeeds(t); !strings.Contains(got, "deadline") {
		t.Errorf("show printed %q, want the deadline of the task", got)
	}
	f.ask("extend", id, "soon").fails(t, exitUsage, "soon", "10m")
	f.ask("extend", id, "-5s").fails(t, exitUsage, "-5s")
	f.ask("extend", "sub_00000000", "5s").fails(t, exitNotFound, "sub_00000000")
	for budget, says := range map[string]string{"steps=x": "steps=x", "money=1": "money", "usd=-1": "usd=-1", "tokens=0": "above zero", "steps": "must be formatted"} {
		f.ask("spawn", "x", "--model", "m", "--budget", budget).fails(t, exitUsage, says)
	}
}

func TestABudget(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := f.ask("spawn", "player", "--model", "builtin/script", "--metadata", `script=[{"say":"a"},{"say":"b"},{"result":1}]`, "--budget", "steps=2,usd=1.50,seconds=90").succeeds(t)
	f.ask("delegate", id, "x", "--await").fails(t, exitFailed, "the budget of "+id+" is used up: 2 of 2 steps")
	got := f.ask("show", id).succeeds(t)
	for _, want := range []string{"2 of 2 steps, $0 of $1.5, 1m30s for a task", "stopped by  budget", "used        2 steps"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("show printed\n%s\nwant %q in it", got, want)
		}
	}
	f.ask("spawn", "child", "--model", "builtin/echo", "--parent", id).fails(t, exitFailed, "the budget of "+id, "quota_exceeded")
}
