package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/test/modeltest"
	"github.com/troupehq/troupe/test/natstest"
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

// A process that is killed loses nothing of a budget and counts nothing twice: in the end exactly what there was is used.
func TestABudgetOutlivesACrash(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	f := up(t, "--listen", "127.0.0.1:0", "--store", store)
	const steps = 40
	boss := f.ask("spawn", "boss", "--model", "builtin/echo", "--budget", "steps="+strconv.Itoa(steps)).succeeds(t)
	script := "[" + strings.Repeat(`{"sleep_ms":5},{"say":"a"},{"say":"b"},{"say":"c"},{"say":"d"},`, 4) + `{"result":1}]`
	await := []string{"await", "--mode", "all"}
	for range 6 {
		id := f.ask("spawn", "child", "--model", "builtin/script", "--parent", boss, "--metadata", "script="+script).succeeds(t)
		await = append(await, id)
	}
	for i, id := range await[3:] {
		f.ask("delegate", id, "x").succeeds(t)
		if i == 1 || i == 4 { // the others are in the middle of it
			f.kill()
			f = up(t, "--listen", "127.0.0.1:0", "--store", store)
		}
	}
	if o := f.ask(await...); o.code != exitFailed {
		t.Fatalf("exit code %d, want that not all completed: they want more than twice what there is\n%s%s", o.code, o.out, o.err)
	}
	var entries []agent.Entry
	if err := json.Unmarshal([]byte(f.ask("tree", "-o", "json").succeeds(t)), &entries); err != nil {
		t.Fatal(err)
	}
	taken := int64(0)
	for _, e := range entries {
		if e.Usage != nil {
			taken += e.Usage.Steps
		}
	}
	if taken != steps {
		t.Errorf("%d steps were taken, want %d: no more than there were, and none lost", taken, steps)
	}
}

// A model calls a subagent, whose model calls another, whose provider hangs, three levels down. "troupe cancel" of the first
// answers while the provider still hangs: it answers nothing until it is let go, and sees its connection closed before.
func TestCancelOfAHangingProvider(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}, 1), make(chan struct{})
	s := modeltest.Start(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done() // it never answers: this is the client's doing
		close(gone)
	})
	f := upWith(t, []string{"ANTHROPIC_API_KEY=" + canary, "ANTHROPIC_BASE_URL=" + s.URL}, "--listen", "127.0.0.1:0", "--store", t.TempDir())
	under := func(parent, model string) string {
		return f.ask("spawn", "n", "--model", model, "--capability", "multi_agent", "--parent", parent).succeeds(t)
	}
	boss := f.ask("spawn", "boss", "--model", "builtin/script", "--capability", "multi_agent").succeeds(t)
	middle := under(boss, "builtin/script")
	leaf := under(middle, "anthropic/claude-haiku-4-5")
	blocks := func(id, metadata string) string { // has another do a task, and waits for it
		return `{"script":[{"call":"subagent_delegate","arguments":{"subagent_id":"` + id + `","task":{"name":"t","instruction":"go","metadata":` + metadata + `}}},
			{"call":"subagent_await","arguments":{"subagent_id":"` + id + `"}}]}`
	}
	script := strings.TrimSuffix(strings.TrimPrefix(blocks(middle, blocks(leaf, "{}")), `{"script":`), "}")
	f.ask("delegate", boss, "go", "--metadata", "script="+script).succeeds(t)
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-natstest.Context(t).Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
	wait("the provider is asked", asked)
	f.ask("cancel", boss).succeeds(t)
	var entries []agent.Entry
	if err := json.Unmarshal([]byte(f.ask("tree", "-o", "json").succeeds(t)), &entries); err != nil {
		t.Fatal(err)
	}
	deepest := 0
	for _, e := range entries {
		deepest = max(deepest, e.Depth)
		if e.StopReason != agent.StopCancelled {
			t.Errorf("%s, %d levels down, was stopped by %q, want that the cancel has stopped all", e.Name, e.Depth, e.StopReason)
		}
	}
	if deepest != 3 || len(entries) != 3 {
		t.Errorf("the tree has %d subagents down to level %d, want three at three levels", len(entries), deepest)
	}
	wait("the provider sees that its connection is closed", gone)
	if strings.Contains(f.log.String(), canary) {
		t.Error("the provider's key is in the log")
	}
}
