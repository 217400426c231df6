package tool_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
)

// command is this program as an MCP server.
func command(env ...string) tool.Server {
	return tool.Server{Name: "test", Command: []string{os.Args[0]}, Env: append([]string{mode + "=1"}, env...)}
}

// kept makes a registry and serves it until the test ends, or stop is called.
func kept(t testing.TB, cfg tool.Config) (r *tool.Registry, stop func()) {
	t.Helper()
	r = registry(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Serve did not end within a minute after its context")
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// pid is the process of the server.
func pid(t testing.TB, r *tool.Registry) int {
	t.Helper()
	got := call(t, r, "test_pid", `{}`)
	n, err := strconv.Atoi(strings.Trim(string(got.Content), `"`))
	if err != nil {
		t.Fatalf("the server's process is %s: %v", got.Content, err)
	}
	return n
}

// lives reports whether there is such a process.
func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestMCPCommand(t *testing.T) {
	t.Parallel()
	r, stop := kept(t, tool.Config{Servers: []tool.Server{command()}, MaxResult: 64 << 10})
	gives(t, call(t, r, "test_weather", `{"city":"Ghent"}`), `{"city":"Ghent","sun":true}`)
	gives(t, call(t, r, "test_lines", ``), `"one\ntwo"`)
	gives(t, call(t, r, "test_meta", `{}`), `"call-3 sub_1 2"`)
	gives(t, call(t, r, "test_a_b", `{}`), `"dot"`)
	gives(t, call(t, r, "test_exact", `{}`), `{"n":12345678901234567890}`)
	gives(t, call(t, r, "test_env", `{}`), `"`+mode+`=1"`) // and nothing of ours
	refuses(t, call(t, r, "test_weather", `{"town":"Ghent"}`), actor.SchemaViolation, "city", "town")
	refuses(t, call(t, r, "test_large", `{}`), actor.TooLarge, "65536")
	refuses(t, call(t, r, "test_nobody", `{}`), actor.NotFound, "test_nobody")
	refuses(t, call(t, r, "test_twice_same", `{}`), actor.Conflict, "twice.same", "twice/same")
	if got := call(t, r, "test_fails", `{}`); !got.IsError || string(got.Content) != `"no such city"` {
		t.Errorf("a tool's own error is %s (an error: %v), want its words", got.Content, got.IsError)
	}
	got := call(t, r, "test_picture", `{}`)
	gives(t, got, `[{"type":"text","text":"look:"},{"type":"image","mimeType":"image/png","$file":"image-1.png","size":4}]`)
	if len(got.Files) != 1 || string(got.Files[0].Data) != "\x89PNG" || got.Files[0].Name != "image-1.png" || got.Files[0].MIME != "image/png" {
		t.Errorf("the files are %+v, want the picture", got.Files)
	}
	n := pid(t, r)
	stop()
	if lives(n) {
		t.Errorf("the server, process %d, outlives the registry", n)
	}
	refuses(t, call(t, r, "test_pid", `{}`), actor.Unavailable, "stopped")
}

// What a server has started ends with it.
func TestMCPServerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r, stop := kept(t, tool.Config{Servers: []tool.Server{command()}})
	at := strings.Trim(string(call(t, r, "test_child", `{}`).Content), `"`)
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatalf("the server's child is at %q: %v", at, err)
	}
	defer conn.Close()
	stop()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the child of the server lives on after it")
	}
}

func TestMCPIsDescribed(t *testing.T) {
	t.Parallel()
	r, _ := kept(t, tool.Config{Servers: []tool.Server{command()}})
	all, err := r.Describe(natstest.Context(t), []string{"test_p*", "test_weather", "test_pid", "test_t*", "none"})
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "test_picture test_pid test_weather" {
		t.Errorf("described are %s", got)
	}
	if last := all[len(all)-1]; last.Description != "tells the weather" || !strings.Contains(string(last.Schema), `"city"`) {
		t.Errorf("described as %+v", last)
	}
	wantKind(t, "two that become one, and one that does not exist", err, actor.Conflict, "twice.same", `"none"`)
	_, err = r.Describe(natstest.Context(t), []string{"test_l*"})
	wantKind(t, "a name that is too long", err, actor.SchemaViolation, "1 to 64")
}

// A server is started when it is needed, not before.
func TestMCPStartsOnFirstUse(t *testing.T) {
	t.Parallel()
	s := command()
	s.Command = []string{"/no/such/program"}
	log := &lines{}
	r, stop := kept(t, tool.Config{Servers: []tool.Server{s}, Log: zerolog.New(log)})
	if all, err := r.Describe(natstest.Context(t), []string{"other*"}); err != nil || len(all) > 0 {
		t.Errorf("others are described as %v, %v", all, err)
	}
	if got := log.String(); got != "" {
		t.Errorf("it was started though nobody needed it: %s", got)
	}
	refuses(t, call(t, r, "test_pid", `{}`), actor.Unavailable, "MCP server test", "no such file")
	stop()
}

func TestMCPServerDies(t *testing.T) {
	t.Parallel()
	r, _ := kept(t, tool.Config{Servers: []tool.Server{command()}})
	first := pid(t, r)
	refuses(t, call(t, r, "test_die", `{}`), actor.Unavailable, "lost during the call")
	second := pid(t, r)
	if first == second || lives(first) {
		t.Errorf("it ran as process %d and now as %d; the first lives: %v", first, second, lives(first))
	}
	for range 4 { // the pauses between starts grow, and every call finds a server all the same
		refuses(t, call(t, r, "test_die", `{}`), actor.Unavailable)
	}
	if err := syscall.Kill(pid(t, r), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Describe(natstest.Context(t), []string{"test_weather"}); err != nil || len(all) != 1 {
		t.Errorf("with the server away its tool is described as %v, %v", all, err)
	}
	natstest.Await(t, "the killed server is replaced", func() bool { return !call(t, r, "test_pid", `{}`).IsError })
}

// One that can't start fails those who need it, and tells nobody its secrets.
func TestMCPServerDoesNotStart(t *testing.T) {
	t.Parallel()
	s := command("SECRET=canary-4711")
	s.Env[0] = mode + "=broken"
	log := &lines{}
	r, stop := kept(t, tool.Config{Servers: []tool.Server{s}, Log: zerolog.New(log)})
	for range 3 {
		refuses(t, call(t, r, "test_pid", `{}`), actor.Unavailable, "MCP server test", "did not start")
	}
	_, err := r.Describe(natstest.Context(t), []string{"test_*"})
	wantKind(t, "a server that does not start", err, actor.Unavailable, "did not start")
	natstest.Await(t, "calls do not wait for a server that is broken", func() bool {
		got := call(t, r, "test_pid", `{}`)
		refuses(t, got, actor.Unavailable, "MCP server test")
		return bytes.Contains(got.Content, []byte("in a while"))
	})
	stop()
	if got := log.String(); strings.Contains(got, "canary") || !strings.Contains(got, "${SECRET}") {
		t.Errorf("the log has the secret, or not the line that it stood in:\n%s", got)
	}
}

func TestMCPCallTimesOut(t *testing.T) {
	t.Parallel()
	s := command()
	r, stop := kept(t, tool.Config{Servers: []tool.Server{s}})
	first := pid(t, r)
	ctx, cancel := context.WithTimeout(natstest.Context(t), 50*time.Millisecond)
	defer cancel()
	_, err := r.Call(ctx, "test_hang", tool.Call{})
	wantKind(t, "a call that hangs", err, actor.Timeout)
	if second := pid(t, r); second != first {
		t.Errorf("after a call that hung it runs as %d, before as %d: it was well", second, first)
	}
	natstest.Await(t, "the server was told of it", func() bool { return string(call(t, r, "test_hanging", `{}`).Content) == `"0"` })
	slow := s
	slow.Name, slow.Timeout = "slow", time.Second
	other, _ := kept(t, tool.Config{Servers: []tool.Server{slow}})
	refuses(t, call(t, other, "slow_hang", `{}`), actor.Timeout, "no answer within 1s")

	hung := make(chan tool.Result, 1)
	go func() {
		got, err := r.Call(natstest.Context(t), "test_hang", tool.Call{})
		if err != nil {
			t.Error(err)
		}
		hung <- got
	}()
	natstest.Await(t, "the call has reached the server", func() bool { return string(call(t, r, "test_hanging", `{}`).Content) == `"1"` })
	stop() // with a call that hangs
	refuses(t, <-hung, actor.Unavailable, "lost")
}

func TestMCPListChanges(t *testing.T) {
	t.Parallel()
	old := command()
	old.Env = []string{mode + "=old"}
	for what, s := range map[string]tool.Server{"a command": command(), "of an older protocol": old, "over HTTP": overHTTP(t, nil)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, _ := kept(t, tool.Config{Servers: []tool.Server{s}})
			refuses(t, call(t, r, "test_grown", `{}`), actor.NotFound)
			gives(t, call(t, r, "test_grow", `{}`), `"there is more now"`)
			natstest.Await(t, "the new tool is known", func() bool { return !call(t, r, "test_grown", `{}`).IsError })
		})
	}
}

// handler is a server whose sessions end with the test.
func handler(t testing.TB) http.Handler { return handlerOf(t, nil) }

func handlerOf(t testing.TB, opts *mcp.StreamableHTTPOptions) http.Handler {
	server := testServer()
	t.Cleanup(func() {
		for s := range server.Sessions() {
			_ = s.Close() // it may have been closed from the other side
		}
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)
}

// overHTTP runs the server in this process.
func overHTTP(t testing.TB, wrap func(http.Handler) http.Handler) tool.Server {
	t.Helper()
	h := handler(t)
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return tool.Server{Name: "test", URL: srv.URL + "/mcp?key=canary-4711"}
}

func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tokens := map[string]bool{}
	s := overHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			tokens[r.Header.Get("Authorization")] = true
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	})
	s.Headers = map[string]string{"Authorization": "Bearer ${TOKEN}"}
	lookup := func(name string) (string, bool) { return "t0ken", name == "TOKEN" }
	r, _ := kept(t, tool.Config{Servers: []tool.Server{s}, LookupEnv: lookup})
	gives(t, call(t, r, "test_weather", `{"city":"Ghent"}`), `{"city":"Ghent","sun":true}`)
	mu.Lock()
	defer mu.Unlock()
	if len(tokens) != 1 || !tokens["Bearer t0ken"] {
		t.Errorf("the requests came with %v, want the token in all", tokens)
	}
}

// A message that is too large costs the call, not the memory; the next call is well.
func TestMCPMessageIsTooLarge(t *testing.T) {
	t.Parallel()
	asJSON := overHTTP(t, func(http.Handler) http.Handler { return handlerOf(t, &mcp.StreamableHTTPOptions{JSONResponse: true}) })
	for what, s := range map[string]tool.Server{"a command": command(), "as JSON": asJSON, "as a stream": overHTTP(t, nil)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, _ := kept(t, tool.Config{Servers: []tool.Server{s}})
			got := call(t, r, "test_huge", `{}`)
			refuses(t, got, actor.TooLarge)
			if len(got.Content) > 16<<10 {
				t.Errorf("the error has %d bytes", len(got.Content))
			}
			gives(t, call(t, r, "test_lines", `{}`), `"one\ntwo"`)
		})
	}
}

// What is said of a server that is not there has no key in it.
func TestMCPOverHTTPIsAway(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	r, _ := kept(t, tool.Config{Servers: []tool.Server{{Name: "test", URL: strings.Replace(gone.URL, "://", "://u:canary-pw@", 1) + "/mcp?key=canary-4711"}}})
	got := call(t, r, "test_pid", `{}`)
	refuses(t, got, actor.Unavailable, "did not start")
	if bytes.Contains(got.Content, []byte("canary")) {
		t.Errorf("the error tells the key: %s", got.Content)
	}
}

// A server that restarts under the same address knows nothing of the session; the next call finds it.
func TestMCPOverHTTPRestarts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := handler(t)
	s := overHTTP(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			h := now
			mu.Unlock()
			h.ServeHTTP(w, r)
		})
	})
	r, _ := kept(t, tool.Config{Servers: []tool.Server{s}})
	gives(t, call(t, r, "test_lines", `{}`), `"one\ntwo"`)
	mu.Lock()
	now = handler(t)
	mu.Unlock()
	natstest.Await(t, "the server is found again", func() bool { return !call(t, r, "test_lines", `{}`).IsError })
}

// Headers, which hold secrets, do not follow a redirect to another host.
func TestMCPHeadersStayAtTheirHost(t *testing.T) {
	t.Parallel()
	thief := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case thief <- r.Header.Get("Authorization"):
		default:
		}
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	s := overHTTP(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		})
	})
	s.Headers = map[string]string{"Authorization": "Bearer canary"}
	r, _ := kept(t, tool.Config{Servers: []tool.Server{s}})
	refuses(t, call(t, r, "test_pid", `{}`), actor.Unavailable)
	select {
	case got := <-thief:
		if got != "" {
			t.Errorf("another host was told %q", got)
		}
	case <-natstest.Context(t).Done():
		t.Error("the redirect was not followed: the test tests nothing")
	}
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Steps do not wait for a server that hangs as it starts: the first waits a little, the others do not, and all go on
// without it. It is started again in the background until it is there.
func TestMCPServerHangsAtItsStart(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "there")
	s := command()
	s.Command = []string{"/bin/sh", "-c", `if [ -e "$0" ]; then exec "$1"; else exec sleep 3600; fi`, there, os.Args[0]}
	s.Env = append(s.Env, "PATH=/usr/bin:/bin")
	s.StartTimeout = time.Second
	fixed, err := tool.Func(tool.Description{Name: "fixed"}, func(context.Context, struct{}) (int, error) { return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	r, _ := kept(t, tool.Config{Tools: []tool.Tool{fixed}, Servers: []tool.Server{s}, Log: zerolog.New(log), DescribeWait: 200 * time.Millisecond})
	describe := func() (names string, took time.Duration, err error) {
		began := time.Now()
		all, err := r.Describe(natstest.Context(t), []string{"*"})
		for _, d := range all {
			names += d.Name + " "
		}
		return names, time.Since(began), err
	}
	names, first, err := describe()
	wantKind(t, "a server that hangs", err, actor.Unavailable, "MCP server test", "not ready within 200ms")
	if names != "fixed " {
		t.Errorf("described are %q, want all but those of the server that hangs", names)
	}
	const more = 50
	began := time.Now()
	for range more {
		_, _, err := describe()
		wantKind(t, "a server that hangs", err, actor.Unavailable, "MCP server test", "is being started")
	}
	if all := time.Since(began); all > more/2*first {
		t.Errorf("%d steps waited %v for a server that the first waited %v for", more, all, first)
	}
	if got := log.String(); strings.Count(got, "steps go on without an MCP server") != 1 || !strings.Contains(got, `"mcp":"test"`) {
		t.Errorf("the log should say once that steps go on without the server test:\n%s", got)
	}
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the server is started again by itself", func() bool {
		names, _, _ := describe()
		return strings.Contains(names, "test_weather")
	})
}
