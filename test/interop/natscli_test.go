// Package interop drives a running host with programs that know nothing of it: the nats command line tool.
package interop

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

// natscli is the version of the tool, which is built from the module proxy once for all tests here.
const natscli = "github.com/nats-io/natscli/nats@v0.5.0"

const (
	buildTime = 10 * time.Minute // on a machine that has none of it yet
)

var tool string // the path of the built tool

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "natscli")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "build %s: %v\n", natscli, err)
		os.Exit(1)
	}
	natstest.Main(m, func() error { return os.RemoveAll(dir) })
}

// build installs the tool into dir. It is a module of its own, so that go.mod stays free of it.
func build(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", natscli)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	tool = filepath.Join(dir, "nats")
	return nil
}

// A user is somebody at a shell with the nats tool.
type user struct {
	*natstest.Troupe
	t   *testing.T
	env []string
}

func start(t *testing.T) *user {
	t.Helper()
	u := &user{Troupe: natstest.StartTroupe(t, host.Config{}), t: t}
	home := t.TempDir()
	u.env = append(os.Environ(), "NATS_URL="+u.Server.URL(), "HOME="+home, "XDG_CONFIG_HOME="+home, "NATS_CONTEXT=", "NO_COLOR=1")
	return u
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(natstest.Context(u.t), tool, args...)
	cmd.Env = u.env
	return cmd
}

// nats runs the tool to its end and gives what it printed.
func (u *user) nats(args ...string) string {
	u.t.Helper()
	out, err := u.command(args...).CombinedOutput()
	if err != nil {
		u.t.Fatalf("nats %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// request asks as parent_1 and checks the answer against a pattern, whose first group is returned.
func (u *user) request(request, pattern string) string {
	u.t.Helper()
	out := strings.TrimSpace(u.nats("request", "--raw", "--no-templates", "--timeout", "20s", "troupe.a2e.parent_1", request))
	m := regexp.MustCompile(`^` + pattern + `$`).FindStringSubmatch(out)
	if m == nil {
		u.t.Fatalf("nats request troupe.a2e.parent_1 '%s'\nprinted %s\nwant    %s", request, out, pattern)
	}
	return m[len(m)-1]
}

// A follower is a nats command that prints what comes, until the test ends.
type follower struct {
	u     *user
	what  string
	mu    sync.Mutex
	lines []string
}

func (u *user) follow(args ...string) *follower {
	u.t.Helper()
	f := &follower{u: u, what: strings.Join(args, " ")}
	cmd := u.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, s.Text())
			f.mu.Unlock()
		}
	}()
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no end of its own, and its exit code says that it was killed
		<-done
		_ = cmd.Wait()
	})
	return f
}

// prints waits until a line matches.
func (f *follower) prints(pattern string) {
	f.u.t.Helper()
	want := regexp.MustCompile(pattern)
	natstest.Await(f.u.t, "nats "+f.what+" to print "+pattern, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, line := range f.lines {
			if want.MatchString(line) {
				return true
			}
		}
		return false
	})
}

const id = `(sub_[0-9a-f]{8})`

// TestNatsCLI: everything that A2E can do is done with the nats tool alone.
func TestNatsCLI(t *testing.T) {
	t.Parallel()
	u := start(t)
	events := u.follow("sub", "troupe.event.parent_1.>")
	registry := u.follow("kv", "watch", "troupe_registry", "parent_1.>")
	events.prints(`Subscribing on troupe\.event\.parent_1\.>`)

	sub := u.request(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"researcher","model":"builtin/echo"}}`,
		`{"type":"SUBAGENT_SPAWN_RESP","subagent_id":"`+id+`","status":"READY"}`)
	registry.prints(`PUT troupe_registry > parent_1\.parent_1\.` + sub + `.*"status":"idle"`)
	u.request(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"`+sub+`","task":{"name":"t","instruction":"hello"}}`,
		`{"type":"SUBAGENT_DELEGATE_RESP","accepted":true,"status":"RUNNING"}`)
	u.request(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"`+sub+`"}`,
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"`+sub+`","status":"COMPLETED","result":{"output":"hello"},"error":null}`)
	u.request(`{"type":"SUBAGENT_LIST_REQ"}`, `{"type":"SUBAGENT_LIST_RESP","subagents":\[{"subagent_id":"`+sub+`",.*}\]}`)
	u.request(`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"`+sub+`","message":{"type":"note","content":null}}`,
		`{"type":"SUBAGENT_MESSAGE_RESP","delivered":true}`)
	u.request(`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["`+sub+`"]}`, `{"type":"SUBAGENT_MERGE_RESP","merged_result":{.*"summary":"hello".*}}`)

	u.nats("pub", "--no-templates", "troupe.inbox."+sub+".a.me", `{"content":"one more thing"}`)
	natstest.Await(t, "the answer to what was published", func() bool {
		return strings.Contains(u.nats("request", "--raw", "troupe.a2e.parent_1", `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"`+sub+`"}`), `{"output":"one more thing"}`)
	})
	registry.prints(`PUT troupe_registry > parent_1\.parent_1\.` + sub + `.*"session":2,"stopReason":"stop"`)

	long := u.request(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"long","model":"builtin/script"}}`, `.*"subagent_id":"`+id+`".*`)
	u.request(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"`+long+`","task":{"name":"t","instruction":"i","metadata":{"script":[{"sleep_ms":3600000}]}}}`, `.*"accepted":true.*`)
	u.request(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":"`+long+`"}`, `{"type":"SUBAGENT_EVENT","subagent_id":"`+long+`","event":"cancelled",.*}`)
	u.request(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"`+long+`"}`, `.*"status":"CANCELLED".*`)
	u.request(`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":"`+long+`"}`, `{"type":"SUBAGENT_EVENT","subagent_id":"`+long+`","event":"terminated",.*}`)
	u.request(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":"sub_00000000"}`, `{"type":"error","code":"not_found",.*}`)
	for _, name := range []string{"spawned", "delegated", "status_changed", "step", "message_received", "cancelled", "terminated"} {
		events.prints(`"event":"` + name + `"`)
	}
	events.prints(`Received on "troupe\.event\.parent_1\.` + long + `\.terminated"`)
}

// TestNatsCLI_Tools: the service, the mail, the dead letters and a large result are there for the tool to see.
func TestNatsCLI_Tools(t *testing.T) {
	t.Parallel()
	u := start(t)
	if out := u.nats("micro", "ls"); !regexp.MustCompile(`troupe\s.*0\.1\.0`).MatchString(out) {
		t.Errorf("nats micro ls does not show the service:\n%s", out)
	}
	if out := u.nats("micro", "info", "troupe"); !strings.Contains(out, "troupe.a2e.*") {
		t.Errorf("nats micro info does not show the endpoint:\n%s", out)
	}
	sub := u.request(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/echo"}}`, `.*"subagent_id":"`+id+`".*`)
	text := strings.Repeat("🦜 a long line of text\n", 6_000)
	file := filepath.Join(t.TempDir(), "request")
	body := `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"` + sub + `","task":{"name":"t","instruction":"` + strings.ReplaceAll(text, "\n", `\n`) + `"}}`
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := u.command("request", "--raw", "--no-templates", "--force-stdin", "troupe.a2e.parent_1")
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"accepted":true`) {
		t.Fatalf("a request from a file: %v\n%s", err, out)
	}
	blob := u.request(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"`+sub+`"}`, `.*"status":"COMPLETED","result":{"\$blob":{"bucket":"troupe_blobs","name":"([^"]+)".*`)
	got := filepath.Join(t.TempDir(), "blob")
	u.nats("object", "get", "troupe_blobs", blob, "--output", got, "--force", "--no-progress")
	data, err := os.ReadFile(got)
	if err != nil || len(data) < len(text) {
		t.Errorf("nats object get gave %d bytes of the result of %d: %v", len(data), len(text), err)
	}
	mail := u.nats("sub", "troupe.mail.parent_1.>", "--stream", "troupe_mail", "--all", "--count", "1", "--raw")
	if !strings.Contains(mail, `"subagent_id":"`+sub+`"`) || !strings.Contains(mail, `"stopReason":"stop"`) {
		t.Errorf("nats sub does not show the completion in the mail:\n%s", mail)
	}
	u.nats("pub", "troupe.inbox."+sub+".a.me", "not JSON")
	dead := u.nats("sub", "troupe.dead.>", "--stream", "troupe_dead", "--all", "--count", "1", "--raw")
	if !strings.Contains(dead, `"reason"`) || !strings.Contains(dead, "troupe.inbox."+sub+".a.me") {
		t.Errorf("nats sub does not show the dead letter:\n%s", dead)
	}
}
