package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/test/natstest"
)

func TestWorkWithASubagent(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := f.ask("spawn", "researcher", "--model", "builtin/echo", "--role", "finds", "--capability", "tools", "--max-steps", "7").succeeds(t)
	wants := func(want string, args ...string) {
		t.Helper()
		if got := f.ask(args...).succeeds(t); !strings.Contains(got, want) {
			t.Fatalf("troupe %s printed %q, want %q in it", strings.Join(args, " "), got, want)
		}
	}
	wants(id+" READY", "await", id)
	wants("hello", "delegate", id, "hello", "--await", "--criterion", "is short", "--metadata", `n={"a":1}`)
	wants(`"result":{"output":"hello"}`, "await", id, "-o", "json")
	wants("has it", "send", id, "a note")
	wants("in the inbox", "send", id, `{"more":1}`, "--json", "--open", "--type", "x")
	wants(`"max_steps":7`, "ls", "-o", "json")
	wants("researcher", "ls", "--status", "completed,running")
	wants("✓ researcher  "+id, "tree")
	wants("✓ researcher  "+id, "tree", id)
	wants("role", "show", id)
	wants(`"last":{"type":"SUBAGENT_AWAIT_RESP"`, "show", id, "-o", "json")
	wants(`"strategy":"voting"`, "merge", id, "--strategy", "voting", "-o", "json")
	wants(id+" is COMPLETED already", "cancel", id)
	wants(id+" TERMINATED", "terminate", id)
	wants("■ researcher", "tree", "cli", "--agent", "somebody")
	child := f.ask("spawn", "parent", "--model", "builtin/echo").succeeds(t)
	f.ask("spawn", "child", "--model", "builtin/echo", "--parent", child).succeeds(t)
	wants("    ○ child", "tree")
	wants("(no subagents)", "tree", "--agent", "nobody")
	if got := f.ask("spawn", "s", "--model", "builtin/echo", "-o", "json").succeeds(t); !strings.HasPrefix(got, `{"type":"SUBAGENT_SPAWN_RESP","subagent_id":"sub_`) {
		t.Fatalf("spawn printed %s as JSON", got)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	f := start(t)
	ready := f.spawn(`[{"result":1}]`)
	bad := f.spawn(`[{"fail":"no way"}]`)
	busy := f.spawn(`[{"sleep_ms":600000}]`)
	f.ask("delegate", busy, "x").succeeds(t)
	over := f.spawn(`[]`)
	f.ask("terminate", over).succeeds(t)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "FAILED: no way", []string{"delegate", bad, "x", "--await"}},
		{exitFailed, "FAILED: no way", []string{"await", bad}},
		{exitFailed, "0 of the 2", []string{"await", bad, over, "--mode", "quorum", "--quorum", "2"}},
		{exitFailed, "RUNNING", []string{"delegate", busy, "x"}},
		{exitFailed, "timeout", []string{"await", busy, "--timeout", "200ms"}},
		{exitFailed, "TERMINATED", []string{"send", over, "x"}},
		{exitFailed, "TERMINATED", []string{"delegate", over, "x"}},
		{exitUsage, "NAME is empty", []string{"spawn", "", "--model", "builtin/echo"}},
		{exitUsage, "unknown flag", []string{"ls", "--frobnicate"}},
		{exitUsage, "model", []string{"spawn", "x"}},
		{exitUsage, "missing INSTRUCTION", []string{"delegate", ready}},
		{exitUsage, "missing ID and CONTENT", []string{"send"}},
		{exitUsage, "missing ID…", []string{"await"}},
		{exitUsage, `"b" is one argument too many`, []string{"tree", "a", "b"}},
		{exitUsage, `"a" is one argument too many`, []string{"ls", "a"}},
		{exitUsage, "KEY=JSON", []string{"spawn", "x", "--model", "m", "--metadata", "nope"}},
		{exitUsage, "needs quotes", []string{"spawn", "x", "--model", "m", "--metadata", "a=b"}},
		{exitUsage, "one of shared", []string{"spawn", "x", "--model", "m", "--memory-scope", "none"}},
		{exitUsage, "at least 1", []string{"spawn", "x", "--model", "m", "--max-steps", "0"}},
		{exitUsage, "text, json", []string{"ls", "-o", "yaml"}},
		{exitUsage, "not JSON", []string{"send", ready, "{", "--json"}},
		{exitUsage, "READY, RUNNING", []string{"ls", "--status", "tired"}},
		{exitUsage, "namespace", []string{"ls", "--namespace", "a.b"}},
		{exitUsage, "agent", []string{"ls", "--agent", ""}},
		{exitUsage, "quorum", []string{"await", ready, bad, "--mode", "quorum", "--quorum", "3"}},
		{exitUsage, "--mode quorum", []string{"await", ready, "--quorum", "1"}},
		{exitUsage, "exclude each other", []string{"ls", "--context", "x"}},
		{exitUsage, "--strategy", []string{"merge", ready, "--strategy", "magic"}},
		{exitUnreachable, "unavailable", []string{"ls", "--namespace", "elsewhere", "--timeout", "300ms"}},
		{exitNotFound, "sub_00000000", []string{"await", "sub_00000000"}},
		{exitNotFound, "sub_00000000", []string{"delegate", "sub_00000000", "x"}},
		{exitNotFound, "sub_00000000", []string{"cancel", "sub_00000000"}},
		{exitNotFound, "sub_00000000", []string{"show", "sub_00000000"}},
		{exitNotFound, "nobody", []string{"tree", "nobody"}},
		{exitNotFound, ready, []string{"cancel", ready, "--agent", "stranger"}},
	} {
		o := f.ask(c.args...)
		o.fails(t, c.code, c.says)
		if o.out != "" && c.args[0] != "await" {
			t.Fatalf("troupe %s: stdout is %q, want nothing", strings.Join(c.args, " "), o.out)
		}
	}
	troupe(t, "frobnicate").fails(t, exitUsage, "unknown command")
	troupe(t, "ls").fails(t, exitUnreachable, "127.0.0.1:1") // $NATS_URL
	for _, args := range [][]string{{"ls"}, {"up"}, with(summarise, "--each", "testdata/bread.md")} {
		troupe(t, with(args, "--context", "missing")...).fails(t, exitUsage, `unknown context "missing"`)
		troupe(t, with(args, "--context", "a/../b")...).fails(t, exitUsage, "context")
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                "Exit codes:",
		"--help":          "Give work:",
		"run --help":      "--each GLOB",
		"up --help":       "127.0.0.1:4222",
		"await --help":    "--mode any|all|quorum",
		"version":         "troupe " + version,
		"--version":       "troupe " + version,
		"completion bash": "bash completion",
	} {
		if got := troupe(t, strings.Fields(args)...).succeeds(t); !strings.Contains(got, want) {
			t.Errorf("troupe %s does not print %q:\n%s", args, want, got)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	f := start(t)
	const racers = 6
	ids := race(racers, func(int) string {
		return f.ask("spawn", "s", "--model", "builtin/echo", "--idempotency-key", "k").succeeds(t)
	})
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one key made several subagents: %v", ids)
		}
	}
	f.ask("spawn", "another", "--model", "builtin/echo", "--idempotency-key", "k").fails(t, exitFailed, "conflict")
}

// Of tasks that are given at the same time exactly one is taken.
func TestDelegatesRace(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := f.spawn(`[{"sleep_ms":600000}]`)
	codes := race(6, func(n int) int { return f.ask("delegate", id, fmt.Sprint(n)).code })
	taken := 0
	for _, code := range codes {
		switch code {
		case exitOK:
			taken++
		case exitFailed:
		default:
			t.Fatalf("exit codes %v, want 0 once and 1 for the others", codes)
		}
	}
	if taken != 1 {
		t.Fatalf("exit codes %v: %d tasks were taken, want one", codes, taken)
	}
}

// race does something several times at once.
func race[T any](n int, do func(int) T) []T {
	all := make([]T, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i] = do(i) })
	}
	wg.Wait()
	return all
}

func TestSavedContext(t *testing.T) {
	t.Parallel()
	f := start(t)
	config := t.TempDir()
	text, err := json.Marshal(map[string]string{"url": f.url, "description": "a test"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, config, "nats/context/mine.json", string(text))
	cmd := command(t, "spawn", "s", "--model", "builtin/echo", "--context", "mine")
	cmd.Env = append(cmd.Env, "XDG_CONFIG_HOME="+config)
	id := finish(t, cmd).succeeds(t)
	if list := f.ask("ls").succeeds(t); !strings.Contains(list, id) {
		t.Fatalf("%s was spawned through the context, and is not there:\n%s", id, list)
	}
}

// A killed process keeps what it had accepted, and goes on with it.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	f := up(t, "--listen", "127.0.0.1:0", "--store", store)
	done := f.spawn(`[{"result":{"answer":1}}]`)
	f.ask("delegate", done, "x", "--await").succeeds(t)
	under := f.spawn(`[{"sleep_ms":500},{"result":{"answer":2}}]`)
	f.ask("delegate", under, "x").succeeds(t)
	f.kill()
	f = up(t, "--listen", strings.TrimPrefix(f.url, "nats://"), "--store", store)
	if got := f.ask("await", done, "-o", "json").succeeds(t); !strings.Contains(got, `{"answer":1}`) {
		t.Fatalf("after the restart: %s, want the result from before", got)
	}
	if got := f.ask("await", under, "-o", "json").succeeds(t); !strings.Contains(got, `{"answer":2}`) {
		t.Fatalf("after the restart: %s, want the result of what was under way", got)
	}
	f.stop()
	if left, err := os.ReadDir(store); err != nil || len(left) == 0 {
		t.Fatalf("the store is gone: %v, %v", left, err)
	}
}

func TestUpRefuses(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	f := up(t, "--listen", "127.0.0.1:0", "--store", store, "--max-running", "1", "--max-running-model", "builtin/*=1")
	at := strings.TrimPrefix(f.url, "nats://")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "in use", []string{"--store", store, "--listen", "127.0.0.1:0"}},
		{exitFailed, at, []string{"--store", t.TempDir(), "--listen", at}},
		{exitFailed, "8 partitions, not 4", []string{"--nats", f.url, "--partitions", "4"}},
		{exitUnreachable, "127.0.0.1:1", []string{"--nats", "nats://127.0.0.1:1"}},
		{exitUsage, "sync", []string{"--store", t.TempDir(), "--sync", "soon"}},
		{exitUsage, "listen", []string{"--store", t.TempDir(), "--listen", "nowhere"}},
		{exitUsage, "nats.conf", []string{"--store", t.TempDir(), "--nats-config", filepath.Join(t.TempDir(), "nats.conf")}},
		{exitUsage, "--max-live", []string{"--store", t.TempDir(), "--max-live", "0"}},
		{exitUsage, "--max-running", []string{"--store", t.TempDir(), "--max-running", "-1"}},
		{exitUsage, "--max-running-model builtin/echo=0", []string{"--store", t.TempDir(), "--max-running-model", "builtin/echo=0"}},
		{exitUsage, "max-running-model", []string{"--store", t.TempDir(), "--max-running-model", "builtin/echo"}},
		{exitUsage, "partitions", []string{"--store", t.TempDir(), "--listen", "127.0.0.1:0", "--partitions", "5000"}},
		{exitUsage, "exclude each other", []string{"--nats", f.url, "--store", store}},
		{exitUsage, "one of", []string{"--log-level", "loud"}},
		{exitUsage, "key 1 is not base64", []string{"--store", t.TempDir(), "--seal-keys", "testdata/bread.md"}},
		{exitUsage, "no such file", []string{"--store", t.TempDir(), "--seal-keys", filepath.Join(t.TempDir(), "keys")}},
	} {
		troupe(t, append([]string{"up"}, c.args...)...).fails(t, c.code, c.says)
	}
	f.stop()
}

// A second host shares the work, and takes it over from one that is killed.
func TestASecondHost(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	first := up(t, "--nats", srv.URL(), "--member", "first")
	second := up(t, "--nats", srv.URL(), "--member", "second")
	first.url, second.url = srv.URL(), srv.URL()
	var all []string
	for range 8 {
		id := first.spawn(`[{"sleep_ms":100},{"result":{"answer":3}}]`)
		first.ask("delegate", id, "x").succeeds(t)
		all = append(all, id)
	}
	first.kill()
	got := second.ask(append([]string{"await", "-o", "json"}, all...)...).succeeds(t)
	if strings.Count(got, `"answer":3`) != len(all) {
		t.Fatalf("after one of two hosts was killed: %s, want all %d results", got, len(all))
	}
	second.stop()
}

func TestLiveTreePiped(t *testing.T) {
	t.Parallel()
	f := start(t)
	id := f.spawn(`[{"progress":"日本語"},{"result":1}]`)
	cmd := command(t, "tree", "--live", "--nats", f.url)
	var out lines
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.eventually(t, "○ player  "+id)
	f.ask("delegate", id, "x", "--await").succeeds(t)
	out.eventually(t, "✓ player  "+id)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the live tree ended with %v, want exit code 0: an interrupt is its end", err)
	}
}

func TestStatusesHaveGlyphs(t *testing.T) {
	t.Parallel()
	for _, s := range []a2e.Status{a2e.Ready, a2e.Running, a2e.Waiting, a2e.Completed, a2e.Failed, a2e.Cancelled, a2e.Terminated} {
		if glyphs[s] == "" || rank[s] == 0 {
			t.Errorf("%s has no glyph or no rank", s)
		}
	}
}
