package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

// metrics reads what /metrics says: the values by name and labels, as they are written there.
func (f *fleet) metrics() map[string]float64 {
	f.t.Helper()
	status, body := get(f.t, f.web()+"/metrics", "")
	if status != 200 {
		f.t.Fatalf("/metrics is answered with %d %.1000s", status, body)
	}
	values := map[string]float64{}
	for line := range strings.Lines(body) {
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			f.t.Fatalf("/metrics says %q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values
}

// measures waits until the metrics have the values: those that say how the namespace does are seconds old.
func (f *fleet) measures(want map[string]float64) map[string]float64 {
	f.t.Helper()
	var got map[string]float64
	natstest.Await(f.t, "the metrics as they should be", func() bool {
		got = f.metrics()
		for name, v := range want {
			if n, ok := got[name]; !ok || n != v {
				return false
			}
		}
		return true
	})
	return got
}

// TestMetricsOfWork: after real work the counters are what was done, and no id of a thread is in a label.
func TestMetricsOfWork(t *testing.T) {
	t.Parallel()
	f := start(t, "--http", "127.0.0.1:0", "--partitions", "4", "--max-queued", "2")
	id := f.ask("spawn", "e", "--model", "builtin/echo").succeeds(t)
	for range 3 {
		f.ask("delegate", id, "hello", "--await").succeeds(t)
	}
	failing := f.spawn(`[{"fail":"it was not to be"}]`)
	f.ask("delegate", failing, "go", "--await")
	f.ask("delegate", f.spawn(`[{"panic":"on purpose"}]`), "go", "--await")
	crowded := f.spawn(`[{"result":1}]`)
	for range 2 {
		f.ask("send", crowded, "hello").succeeds(t)
	}
	f.ask("send", crowded, "one too many").fails(t, exitFailed, "inbox_full", "2 messages")
	f.ask("send", "sub_00000000", "hello", "--open").succeeds(t)
	got := f.measures(map[string]float64{
		`troupe_threads_born_total`:                                             4,
		`troupe_sessions_ended_total{reason="stop"}`:                            3,
		`troupe_sessions_ended_total{reason="fail"}`:                            1,
		`troupe_sessions_ended_total{reason="error"}`:                           1,
		`troupe_steps_total{model="builtin/echo",outcome="ok"}`:                 3,
		`troupe_steps_total{model="builtin/script",outcome="ok"}`:               1,
		`troupe_steps_total{model="builtin/script",outcome="error"}`:            1,
		`troupe_step_duration_seconds_count{model="builtin/echo",outcome="ok"}`: 3,
		`troupe_requests_total{type="SUBAGENT_SPAWN_REQ"}`:                      4,
		`troupe_requests_total{type="SUBAGENT_DELEGATE_REQ"}`:                   5,
		`troupe_inbox_full_total`:                                               1,
		`troupe_dead_letters_total`:                                             1,
		`troupe_dead_letters`:                                                   1,
		`troupe_members`:                                                        1,
		`troupe_fleet_up`:                                                       1,
		`troupe_partitions_owned`:                                               4,
		`troupe_partition_lag_messages{partition="3"}`:                          0,
		`troupe_jobs_running`:                                                   0,
		`troupe_mailbox_messages`:                                               0,
		`troupe_stream_consumers{stream="troupe_inbox"}`:                        4,
	})
	for _, name := range []string{"troupe_turns_total", "troupe_records_total", "troupe_envelopes_total", "troupe_sends_total", `troupe_stream_bytes{stream="troupe_journal"}`, "go_goroutines"} {
		if got[name] < 4 {
			t.Errorf("%s is %g, which is less than what was done", name, got[name])
		}
	}
	for name := range got {
		if strings.Contains(name, "sub_") {
			t.Errorf("%s has the id of a thread in it: there would be as many metrics as threads", name)
		}
	}
}

// TestStuckWorkers: jobs that no worker takes show in members and in the metrics, and those that a worker has, too.
func TestStuckWorkers(t *testing.T) {
	t.Parallel()
	f := start(t, "--http", "127.0.0.1:0", "--tools", toolsFile(t))
	f.calls("one")
	f.calls("two")
	f.measures(map[string]float64{`troupe_work_waiting{kind="tool",name="wordcount"}`: 2, `troupe_work_running{kind="tool",name="wordcount"}`: 0})
	if text := f.ask("members").succeeds(t); !strings.Contains(text, "tool/wordcount") || !strings.Contains(text, "(nobody ever came)") {
		t.Errorf("members does not tell of two jobs that nobody serves:\n%s", text)
	}
	dir := t.TempDir()
	w := f.worker("--serve", "tool/wordcount", "--lease", "1s", "--max-running", "1", "--exec", "sh", "--dir", dir, "--env", "PATH", "--", "-c", "touch began; read -r line; read -r never")
	natstest.Await(t, "a worker with a program that answers nothing", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "began"))
		return err == nil && len(found) == 1
	})
	got := f.measures(map[string]float64{`troupe_work_waiting{kind="tool",name="wordcount"}`: 1, `troupe_work_running{kind="tool",name="wordcount"}`: 1})
	if got[`troupe_work_oldest_waiting_seconds{kind="tool",name="wordcount"}`] <= 0 {
		t.Error("a job waits, and the metrics say that it has not waited at all")
	}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.worker("--serve", "tool/wordcount", "--lease", "1s", "--max-running", "2", "--exec", "sh", "--dir", dir, "--env", "PATH", "--", "-c", "read -r line; read -r never")
	f.measures(map[string]float64{`troupe_work_redelivered{kind="tool",name="wordcount"}`: 1})
}
