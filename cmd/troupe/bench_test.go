package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/cmd/troupe/bench"
)

// measures runs a bench that starts and kills processes, and gives its rows by name. No figure is judged that depends on
// the machine: what the bench itself insists on is that nothing is lost, that every parent lists its ten children after
// the kill, and that a thread which is woken up completes. Nothing of it stays on the disk.
func measures(t *testing.T, args ...string) map[string]bench.Row {
	t.Helper()
	temp := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // machines are shared
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"bench", "-o", "json", "--store", temp}, args...)...)
	cmd.WaitDelay = time.Second
	out := finish(t, cmd).succeeds(t)
	var said struct{ Rows []bench.Row }
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("the output is no JSON: %v\n%s", err, out)
	}
	rows := map[string]bench.Row{}
	for _, r := range said.Rows {
		rows[strings.TrimSpace(r.Name)] = r
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("the bench left %v in its directory (%v)", left, err)
	}
	return rows
}

func TestBenchThreads(t *testing.T) {
	t.Parallel()
	rows := measures(t, "--threads", "300")
	for _, name := range []string{
		"300 idle threads: spawn rate", "disk", "server memory", "kill -9 to ready", "kill -9 to the next completed child", "stopped to ready",
		"list 10 children, again", "wake a thread up, to its completion",
	} {
		if rows[name].Value <= 0 {
			t.Errorf("%s is %v: it was not measured", name, rows[name].Value)
		}
	}
}

func TestBenchHosts(t *testing.T) {
	t.Parallel()
	rows := measures(t, "--hosts", "2", "--children", "300", "--window", "64")
	for _, n := range []string{"1", "2"} {
		if _, ok := rows["spawn + delegate + complete + parent has it, hosts: "+n]; !ok {
			t.Errorf("there is no row for %s hosts: %v", n, rows)
		}
	}
	for name, r := range rows {
		if r.Value <= 0 {
			t.Errorf("%s: %v %s", name, r.Value, r.Unit)
		}
	}
}

func TestBenchFailover(t *testing.T) {
	t.Parallel()
	rows := measures(t, "--failover", "--kills", "2", "--window", "32")
	for _, name := range []string{"lost", "twice"} {
		if r, ok := rows[name]; !ok || r.Value != 0 || !r.Met {
			t.Errorf("after two kills %s is %v (told: %v): accepted work is never lost, and nothing comes twice", name, r.Value, ok)
		}
	}
	if rows["tasks accepted"].Value <= 0 {
		t.Error("no task was accepted: the kills met no load")
	}
}

// What is lost must not look like a success.
func TestBenchBroken(t *testing.T) {
	t.Parallel()
	rows := []bench.Row{
		{Name: "slow", Goal: "≤ 1 ms"},
		{Name: "lost", Value: 1, Goal: "0", Must: true},
		{Name: "twice", Goal: "0", Met: true, Must: true},
	}
	if got := bench.Broken(rows); len(got) != 1 || got[0] != "lost" {
		t.Errorf("broken are %q, want only what was lost: a slow machine breaks nothing", got)
	}
}

func TestBenchLimits(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--threads", "1000001"}, {"--threads", "-1"}, {"--hosts", "33"}, {"--failover", "--kills", "0"}} {
		if o := troupe(t, append([]string{"bench"}, args...)...); o.code != exitUsage {
			t.Errorf("bench %s: exit code %d, want %d\n%s", strings.Join(args, " "), o.code, exitUsage, o.err)
		}
	}
}

// A part ends with the bench that started it, also when that was killed: then its input ends.
func TestBenchPartEnds(t *testing.T) {
	t.Parallel()
	cmd := command(t, bench.PartName, "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the part did not say that it is up")
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // Wait closes what is read here
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("its input has ended, and it ends with %v", err)
	}
}
