package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	tools "github.com/troupehq/troupe/tool"
)

const workerNode = "../../examples/worker-node"

// nodeWorker installs the example with npm into a directory of the test's own.
func nodeWorker(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "worker.js"} {
		data, err := os.ReadFile(filepath.Join(workerNode, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// spawned spawns a subagent with a configuration, and gives its id.
func spawned(t *testing.T, tr *natstest.Troupe, config string) (id string) {
	t.Helper()
	var got struct {
		ID string `json:"subagent_id"`
	}
	answer := tr.Ask(t, "me", `{"type":"SUBAGENT_SPAWN_REQ","agent":`+config+`}`)
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.ID == "" {
		t.Fatalf("not spawned: %s", answer)
	}
	return got.ID
}

// A buffer is written by a process while the test reads.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// The worker in JavaScript serves a tool, tells of its progress and its errors, and ends well.
func TestWorkerNode(t *testing.T) {
	t.Parallel()
	dir := nodeWorker(t)
	registry, err := tools.New(tools.Config{Remotes: []tools.Remote{{Name: "wordcount"}}})
	if err != nil {
		t.Fatal(err)
	}
	tr := natstest.StartTroupe(t, host.Config{Tools: registry})
	told := make(chan string, 100)
	stop, err := tr.Conn.Subscribe(tr.Names.EventTree("me"), func(subject string, data []byte) {
		if strings.HasSuffix(subject, ".progress") {
			told <- string(data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var log buffer
	node := exec.Command("node", "worker.js")
	node.Dir, node.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "NATS_URL=" + tr.Server.URL()}
	node.Stdout, node.Stderr = &log, &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill() // it has ended already, or ends now
		_ = node.Wait()
		if t.Failed() {
			t.Logf("the worker said:\n%s", &log)
		}
	})
	count := func(arguments string) string {
		t.Helper()
		id := spawned(t, tr, fmt.Sprintf(`{"name":"c","model":"builtin/script","capabilities":["tools"],"tool_scope":"isolated",
			"metadata":{"tools":["wordcount"],"script":[{"call":"wordcount","arguments":%s},{"result":"$results.0"}]}}`, arguments))
		tr.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go"}}`, id))
		return tr.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, id))
	}
	if got := count(`{"text":"one two  three"}`); !strings.Contains(got, `"words":3`) {
		t.Errorf("three words are counted as %s", got)
	}
	if got := count(`{}`); !strings.Contains(got, "text is required") || !strings.Contains(got, `"COMPLETED"`) {
		t.Errorf("a tool's error is told as %s", got)
	}
	// Progress promises no delivery: of a job that is over before it was heard nobody is told.
	natstest.Await(t, "the progress of a job", func() bool {
		count(`{"text":"one"}`)
		return len(told) > 0
	})
	if event := <-told; !strings.Contains(event, "counting") {
		t.Errorf("the progress is %s", event)
	}
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("the worker ended with %v after SIGTERM, want exit code 0", err)
	}
}
