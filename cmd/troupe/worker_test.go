package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

// remoteTools is a file of tools that workers serve.
const remoteTools = `tools:
  - name: wordcount
    worker:
      description: Counts the words of a text
      schema: {type: object, properties: {text: {type: string}}, required: [text]}
`

// withTools starts an up whose tools workers serve.
func withTools(t *testing.T) *fleet {
	t.Helper()
	return start(t, "--tools", toolsFile(t))
}

func toolsFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tools.yaml")
	if err := os.WriteFile(file, []byte(remoteTools), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// calls makes a subagent that counts the words of a text, and gives it its task.
func (f *fleet) calls(text string) (id string) {
	f.t.Helper()
	id = f.ask("spawn", "player", "--model", "builtin/script", "--capability", "tools", "--tool-scope", "isolated", "--metadata", `tools=["wordcount"]`,
		"--metadata", fmt.Sprintf(`script=[{"call":"wordcount","arguments":{"text":%q}},{"result":"$last"}]`, text)).succeeds(f.t)
	f.ask("delegate", id, "go").succeeds(f.t)
	return id
}

// A running worker is the program, started by the test.
type running struct {
	*exec.Cmd
	t   *testing.T
	log lines
}

// worker starts a worker with the environment of the test's commands.
func (f *fleet) worker(args ...string) *running {
	f.t.Helper()
	t := f.t.(*testing.T)
	w := &running{t: t, Cmd: exec.Command(program, append([]string{"worker", "--nats", f.url}, args...)...)}
	w.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SECRET=not for programs"}
	w.Stdout, w.Stderr = &w.log, &w.log
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill() // it has ended already, or ends now
		_ = w.Wait()
		if t.Failed() {
			t.Logf("the log of a worker:\n%s", &w.log)
		}
	})
	return w
}

// The example in Python counts words, in a process whose environment is what it is given.
func TestWorkerWithProgram(t *testing.T) {
	t.Parallel()
	f := withTools(t)
	example, err := filepath.Abs("../../examples/wordcount.py")
	if err != nil {
		t.Fatal(err)
	}
	w := f.worker("--serve", "tool/wordcount", "--exec", example, "--env", "PATH")
	if got := f.ask("await", f.calls("one two three")).succeeds(t); !strings.Contains(got, `"words":3`) && !strings.Contains(got, `"words": 3`) {
		t.Errorf("three words are counted as %s", got)
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Errorf("the worker ended with %v after SIGTERM, want exit code 0", err)
	}
}

// A worker that is killed in the middle of a job loses it to another, within its lease.
func TestWorkerIsKilled(t *testing.T) {
	t.Parallel()
	f := withTools(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "program.sh")
	// At its first try a job waits for ever, which here is until the worker is gone and stdin ends.
	text := `while read -r line; do
	id=$(expr "$line" : '{"id":"\([^"]*\)"')
	case "$line" in
	*'"attempt":1'*) echo "$SECRET" >began; read -r never; exit 1;;
	esac
	echo "{\"id\":\"$id\",\"result\":\"done by another\"}"
done
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--serve", "tool/wordcount", "--lease", "1s", "--exec", "sh", "--dir", dir, "--env", "PATH", "--", script}
	first := f.worker(args...)
	id := f.calls("x")
	began := filepath.Join(dir, "began")
	natstest.Await(t, "the first worker has the job", func() bool {
		_, err := os.Stat(began)
		return err == nil
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.worker(args...)
	if got := f.ask("await", id).succeeds(t); !strings.Contains(got, "done by another") {
		t.Errorf("the job ended with %s", got)
	}
	if secret, err := os.ReadFile(began); err != nil || len(strings.TrimSpace(string(secret))) > 0 {
		t.Errorf("the program sees a variable that it was not given: %q, %v", secret, err)
	}
}

// Without a program a worker serves the models that it has itself.
func TestWorkerServesModels(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.worker("--serve", "model/builtin/echo")
	id := f.ask("spawn", "e", "--model", "worker/builtin/echo").succeeds(t)
	if got := f.ask("delegate", id, "hello from afar", "--await").succeeds(t); !strings.Contains(got, "hello from afar") {
		t.Errorf("the echo is %s", got)
	}
}

func TestWorkerUsage(t *testing.T) {
	t.Parallel()
	f := start(t)
	troupe(t, "worker").fails(t, exitUsage, "--serve")
	for what, args := range map[string][]string{
		"render":          {"--serve", "render", "--exec", "sh"},
		"no tool render":  {"--serve", "tool/render"},
		"unknown model":   {"--serve", "model/nothing"},
		"nowhere":         {"--serve", "tool/render", "--exec", "/nowhere/at/all"},
		"--env =x":        {"--serve", "tool/render", "--exec", "sh", "--env", "=x"},
		"NOT_SET_HERE":    {"--serve", "tool/render", "--exec", "sh", "--env", "NOT_SET_HERE"},
		"are for":         {"--serve", "model/builtin/echo", "--env", "PATH"},
		"--max-running":   {"--serve", "model/builtin/echo", "--max-running", "0"},
		"exclude":         {"--serve", "tool/x", "--exec", "sh", "--tools", "x.yaml"},
		"--drain not bel": {"--serve", "model/builtin/echo", "--drain", "-1s"},
	} {
		f.ask(append([]string{"worker"}, args...)...).fails(t, exitUsage, what)
	}
	troupe(t, "worker", "--serve", "model/builtin/echo").fails(t, exitUnreachable)
}
