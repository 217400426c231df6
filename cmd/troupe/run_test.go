package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/test/natstest"
)

var summarise = []string{"run", "Summarise this document", "--model", "builtin/extractive", "--merge", "hierarchical_summary"}

func with(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }

// write makes a file for a test and gives its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunOnDocuments(t *testing.T) {
	t.Parallel()
	cmd := command(t, with(summarise, "--each", "testdata/*.md", "--each", "testdata/bread.md")...)
	temp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	o := finish(t, cmd)
	summary := o.succeeds(t)
	if !strings.Contains(summary, "light") || strings.Contains(summary, "{") || strings.Contains(summary, "✓") {
		t.Fatalf("stdout is not the summary alone:\n%s", summary)
	}
	for _, name := range []string{"bread.md", "lighthouse.md", "straßenbahn.md"} {
		if !strings.Contains(o.err, "✓ testdata/"+name) {
			t.Fatalf("the progress does not tell that %s is done:\n%s", name, o.err)
		}
	}
	if !strings.Contains(o.err, "[3/3]") || strings.Contains(o.err, "\x1b") {
		t.Fatalf("piped, progress is plain lines, of three files:\n%q", o.err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Fatalf("the temporary store was left behind: %v, %v", left, err)
	}
}

// readReport reads stdout, which has to be one JSON document and nothing else.
func readReport(t testing.TB, o outcome) report {
	t.Helper()
	var r report
	d := json.NewDecoder(strings.NewReader(o.out))
	if err := d.Decode(&r); err != nil || d.More() {
		t.Fatalf("stdout is not one JSON document: %v\n%.500s", err, o.out)
	}
	return r
}

func TestRunAsJSON(t *testing.T) {
	t.Parallel()
	o := troupe(t, with(summarise, "--each", "testdata/*.md", "-o", "json", "--name", "my run")...)
	o.succeeds(t)
	r := readReport(t, o)
	if r.Name != "my run" || r.Failed != 0 || len(r.Subagents) != 3 || !strings.Contains(string(r.MergedResult), `"summary"`) {
		t.Fatalf("the report is %+v", r)
	}
	for i, name := range []string{"testdata/bread.md", "testdata/lighthouse.md", "testdata/straßenbahn.md"} {
		if s := r.Subagents[i]; s.Name != name || s.Status != a2e.Completed || len(s.Result) < 20 {
			t.Fatalf("place %d of the report is %+v, want %s with its result", i, s, name)
		}
	}
}

// A file whose subagent fails is named, and the others are merged.
func TestRunWithAFailure(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(strings.Repeat("d", 240)+"/", 5) // more than a name may have
	path := write(t, t.TempDir(), deep+"x.md", "Too deep.")
	o := troupe(t, with(summarise, "--each", path, "--each", "testdata/bread.md", "-o", "json")...)
	if o.code != exitFailed || !strings.Contains(o.err, "troupe: "+path) {
		t.Fatalf("exit code %d, want 1 and the file named:\n%s", o.code, o.err)
	}
	r := readReport(t, o)
	if r.Failed != 1 || r.Subagents[0].Error == "" || r.Subagents[1].Status != a2e.Completed || !strings.Contains(string(r.MergedResult), "bread.md") {
		t.Fatalf("the report is %+v, want the other file merged", r)
	}

	o = troupe(t, "run", "x", "--each", "testdata/*.md", "--model", "builtin/script", "--metadata", `script=[{"say":"a"},{"say":"b"},{"result":1}]`, "--budget", "steps=2")
	if o.code != exitFailed || !strings.Contains(o.err, "2 of 2 steps") || !strings.Contains(o.err, "3 of 3") {
		t.Fatalf("exit code %d; want 1, and that the budget of each of three is used up:\n%s", o.code, o.err)
	}
	troupe(t, "run", "x", "--each", "testdata/*.md", "--budget", "money=1").fails(t, exitUsage, "--budget", "money")

	o = troupe(t, "run", "x", "--each", "testdata/*.md", "--model", "builtin/script", "--metadata", `script=[{"fail":"no\nway"}]`)
	if o.code != exitFailed || !strings.Contains(o.err, "FAILED: no; way\n") || !strings.Contains(o.err, "3 of 3") || o.out != "" {
		t.Fatalf("exit code %d, stdout %q; want 1 and all three named:\n%s", o.code, o.out, o.err)
	}
}

func TestRunRefusesFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	latin := write(t, dir, "latin1.md", "Stra\xdfe")
	big := write(t, dir, "big.md", strings.Repeat("x", 2<<20))
	gone := filepath.Join(dir, "gone.md")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), gone); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		each string
		code int
		says []string
	}{
		{filepath.Join(dir, "*.txt"), exitFailed, []string{"*.txt", "no file matches"}},
		{latin, exitFailed, []string{latin, "UTF-8"}},
		{gone, exitFailed, []string{gone}},
		{dir, exitFailed, []string{dir, "directory"}},
		{big, exitFailed, []string{big, "too_large"}},
		{"[", exitUsage, []string{"syntax error in pattern"}},
	} {
		o := troupe(t, with(summarise, "--each", "testdata/bread.md", "--each", c.each)...)
		o.fails(t, c.code, c.says...)
		if o.out != "" {
			t.Fatalf("--each %s: stdout is %q, want nothing", c.each, o.out)
		}
	}
	troupe(t, "run", "x").fails(t, exitUsage, "each")
	troupe(t, "run", "--each", "x").fails(t, exitUsage, "missing PROMPT")
	troupe(t, with(summarise, "--each", "testdata/bread.md", "--merge", "magic")...).fails(t, exitUsage, "--merge")
	troupe(t, with(summarise, "--each", "testdata/bread.md", "--nats", "nats://127.0.0.1:1")...).fails(t, exitUnreachable, "127.0.0.1:1")
}

func TestRunOnEmptyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.md", "")
	write(t, dir, "b.md", " \n")
	o := troupe(t, with(summarise, "--each", filepath.Join(dir, "*.md"))...)
	if got := o.succeeds(t); got != "" || !strings.Contains(o.err, "no file has any text") {
		t.Fatalf("of empty files stdout is %q, want nothing, and a word on stderr:\n%s", got, o.err)
	}
}

// A name with characters that globs give a meaning to is a file all the same.
func TestRunTakesLiteralNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "notes/a.md", "A directory is passed over.")
	odd := write(t, dir, "odd [1]\x1b[31m.md", "An odd name is a name. It is kept as it is.")
	write(t, dir, "plain.md", "A plain name is a name.")
	o := troupe(t, with(summarise, "--each", odd, "--each", filepath.Join(dir, "*"), "-o", "json")...)
	o.succeeds(t)
	if r := readReport(t, o); len(r.Subagents) != 2 || r.Subagents[0].Name != odd {
		t.Fatalf("%+v, want the odd one once, first, and the plain one", r.Subagents)
	}
	if strings.Contains(o.err, "\x1b") {
		t.Fatalf("a name reached the terminal with its escape sequence: %q", o.err)
	}
}

func TestRunOnTwoThousandFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 2000 {
		write(t, dir, fmt.Sprintf("%04d.md", i), fmt.Sprintf("River %d flows to the sea. Nobody has counted its fish.", i))
	}
	o := troupe(t, with(summarise, "--each", filepath.Join(dir, "*.md"), "-o", "json")...)
	o.succeeds(t)
	r := readReport(t, o)
	if len(r.Subagents) != 2000 || r.Failed != 0 {
		t.Fatalf("%d subagents, %d failed; want 2000 and none", len(r.Subagents), r.Failed)
	}
	for i, s := range r.Subagents {
		if want := fmt.Sprintf("River %d flows", i); !strings.Contains(string(s.Result), want) {
			t.Fatalf("place %d has %s, want %q in it", i, s.Result, want)
		}
	}
}

func TestRunIsInterrupted(t *testing.T) {
	t.Parallel()
	f := start(t)
	cmd := command(t, "run", "x", "--each", "testdata/*.md", "--model", "builtin/script", "--name", "sleepers",
		"--metadata", `script=[{"progress":"napping"},{"sleep_ms":600000}]`, "--nats", f.url)
	var out, errs lines
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errs.eventually(t, "napping")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(errs.String(), "sleepers was cancelled") {
		t.Fatalf("exit code %d after SIGINT, want 130:\n%s", code, &errs)
	}
	list := f.ask("ls", "--agent", "sleepers", "--status", "running").succeeds(t)
	if strings.Contains(list, "sub_") {
		t.Fatalf("some of them run on:\n%s", list)
	}
}

func TestRunIsOutOfTime(t *testing.T) {
	t.Parallel()
	o := troupe(t, "run", "x", "--each", "testdata/bread.md", "--model", "builtin/script", "--metadata", `script=[{"sleep_ms":600000}]`, "--timeout", "300ms")
	if o.code != exitFailed || !strings.Contains(o.err, "not done within 300ms") && !strings.Contains(o.err, "the time allowed for waiting was over") {
		t.Fatalf("exit code %d, want 1 and the reason:\n%s", o.code, o.err)
	}
}

// With a cap below the number of files, a running troupe does them a few at a time.
func TestRunAtARunningTroupe(t *testing.T) {
	t.Parallel()
	f := start(t, "--max-live", "3")
	dir := t.TempDir()
	for i := range 20 {
		write(t, dir, fmt.Sprintf("%d.md", i), "Water is wet.")
	}
	f.ask(with(summarise, "--each", filepath.Join(dir, "*.md"), "--name", "wet")...).succeeds(t)
	if list := f.ask("ls", "--agent", "wet").succeeds(t); strings.Count(list, "COMPLETED") != 20 {
		t.Fatalf("want 20 that completed there:\n%s", list)
	}
}

// Where no host runs, run is one itself.
func TestRunAtABareServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	troupe(t, with(summarise, "--each", "testdata/*.md", "--nats", srv.URL(), "--namespace", "bare")...).succeeds(t)
}
