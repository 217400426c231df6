package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	tools "github.com/troupehq/troupe/tool"
)

// process starts a program that ends with the test.
func process(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	var log buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(env, "PATH="+os.Getenv("PATH"), "HOME="+dir)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended already, or ends now
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", cmd.Args, &log)
		}
	})
	return cmd
}

// A coordinator and three children, one served by a Go process, one by the worker in JavaScript, one by a program behind
// --exec, on three processes and one NATS, complete while the Go worker is killed and started again.
func TestThreeKindsOfWorkers(t *testing.T) {
	t.Parallel()
	dir, nodeDir := t.TempDir(), nodeWorker(t)
	binary := filepath.Join(dir, "troupe")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/troupe").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	shout := filepath.Join(dir, "shout.sh")
	text := `while read -r line; do
	id=$(expr "$line" : '{"id":"\([^"]*\)"')
	echo "{\"id\":\"$id\",\"result\":\"HEARD\"}"
done
`
	if err := os.WriteFile(shout, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	registry, err := tools.New(tools.Config{Remotes: []tools.Remote{{Name: "wordcount"}, {Name: "shout"}}})
	if err != nil {
		t.Fatal(err)
	}
	tr := natstest.StartTroupe(t, host.Config{Tools: registry})
	url := tr.Server.URL()
	goWorker := func() *exec.Cmd {
		return process(t, dir, nil, binary, "worker", "--nats", url, "--lease", "2s", "--serve", "model/builtin/script")
	}
	process(t, nodeDir, []string{"NATS_URL=" + url}, "node", "worker.js")
	process(t, dir, nil, binary, "worker", "--nats", url, "--lease", "2s", "--serve", "tool/shout", "--exec", "sh", "--env", "PATH", "--", shout)
	first := goWorker()
	steps := make(chan string, 1000)
	stop, err := tr.Conn.Subscribe(tr.Names.EventTree("me"), func(subject string, data []byte) {
		if strings.HasSuffix(subject, ".step") && strings.Contains(string(data), `"maxSteps":30`) {
			steps <- string(data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	child := func(name, model, tool, script string) string {
		return fmt.Sprintf(`{"call":"subagent_spawn","arguments":{"agent":{"name":%q,"model":%q,"max_steps":30,"capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":[%q],"script":%s}}}}`,
			name, model, tool, script)
	}
	many := `[` + strings.Repeat(`{"sleep_ms":50},`, 15) + `{"result":{"by":"go"}}]` // each is a step at the worker
	script := `[` + strings.Join([]string{
		child("g", "worker/builtin/script", "shout", many),
		child("n", "builtin/script", "wordcount", `[{"call":"wordcount","arguments":{"text":"a b c"}}]`),
		child("e", "builtin/script", "shout", `[{"call":"shout","arguments":{}}]`),
		`{"calls":[{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"go"}}},
			{"call":"subagent_delegate","arguments":{"subagent_id":"$results.1.subagent_id","task":{"name":"t","instruction":"go"}}},
			{"call":"subagent_delegate","arguments":{"subagent_id":"$results.2.subagent_id","task":{"name":"t","instruction":"go"}}}]}`,
		`{"call":"subagent_await","arguments":{"mode":"all","subagent_ids":["$results.0.subagent_id","$results.1.subagent_id","$results.2.subagent_id"]}}`,
		`{"result":"$last"}]`,
	}, ",")
	id := spawned(t, tr, fmt.Sprintf(`{"name":"boss","model":"builtin/script","capabilities":["multi_agent"],"metadata":{"script":%s}}`, script))
	tr.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go"}}`, id))
	for n := 0; n < 6; n++ { // the children are at work
		select {
		case <-steps:
		case <-natstest.Context(t).Done():
			t.Fatal("the children do not get on")
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	goWorker()
	got := tr.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, id))
	for _, want := range []string{`"status":"COMPLETED","result":{"type":"SUBAGENT_AWAIT_RESP"`, `"by":"go"`, `"words":3`, `"HEARD"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the coordinator ended with %s\nwant %s in it", got, want)
		}
	}
}
