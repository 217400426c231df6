package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const (
	parent  = actor.ID("sub_1f0c22aa")
	request = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
	path    = "/threads/sub_1f0c22aa/variables/" + request
	child   = actor.ID("sub_0000002a")
)

// A runtime stands in for the host. It has one request, and keeps what it was given.
type runtime struct {
	required, missing []string
	refuses           func(values map[string]string) error // nil: it boots
	ready             error
	hold              func(ctx context.Context) // called before it boots, outside the lock

	mu     sync.Mutex
	used   bool
	stored map[string]string
	boots  int
}

func newRuntime() *runtime {
	return &runtime{required: []string{"API_KEY", "REGION", "USER"}, missing: []string{"API_KEY", "USER"}}
}

func (r *runtime) find(id actor.ID, req string) error {
	switch {
	case id != parent || req != request:
		return &actor.Error{Op: "fake", ID: id, Kind: actor.NotFound, Field: "id"}
	case r.used:
		return &actor.Error{Op: "fake", ID: id, Kind: actor.Gone, Field: "id"}
	}
	return nil
}

func (r *runtime) Variables(_ context.Context, id actor.ID, req string) (host.Variables, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.find(id, req); err != nil {
		return host.Variables{}, err
	}
	return host.Variables{Required: r.required, Missing: r.missing}, nil
}

func (r *runtime) Boot(ctx context.Context, id actor.ID, req string, values map[string]string) (host.Booted, error) {
	if r.hold != nil {
		r.hold(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.find(id, req); err != nil {
		return host.Booted{}, err
	}
	if r.refuses != nil {
		if err := r.refuses(values); err != nil {
			return host.Booted{}, err
		}
	}
	r.used, r.stored = true, values
	r.boots++
	return host.Booted{ID: child, Reference: agent.Reference(child), Relationship: "work_calendar"}, nil
}

// A desk is a gateway over a runtime, with the log that it wrote.
type desk struct {
	t testing.TB
	*runtime
	*gateway.Gateway
	log *lines
}

func newDesk(t testing.TB, r *runtime, change func(*gateway.Config)) *desk {
	t.Helper()
	d := &desk{t: t, runtime: r, log: &lines{}}
	cfg := gateway.Config{Booter: r, Ready: func() error { return r.ready }, Log: zerolog.New(d.log)}
	if change != nil {
		change(&cfg)
	}
	var err error
	if d.Gateway, err = gateway.New(cfg); err != nil {
		t.Fatal(err)
	}
	return d
}

// A reply is what came back.
type reply struct {
	t    testing.TB
	what string
	*http.Response
	body string
}

// send sends a request made by method, path and body; headers are pairs, and win over those that go without saying.
func (d *desk) send(method, at, body string, headers ...string) reply {
	d.t.Helper()
	req := httptest.NewRequestWithContext(natstest.Context(d.t), method, "http://127.0.0.1:8080"+at, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, req)
	resp := w.Result()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply{d.t, method + " " + at + " " + body, resp, string(data)}
}

func (d *desk) post(body string) reply { d.t.Helper(); return d.send("POST", path, body) }

// is wants a status and a body.
func (r reply) is(status int, body string) {
	r.t.Helper()
	if r.StatusCode != status || strings.TrimSpace(r.body) != body {
		r.t.Errorf("%.300s\nis answered with %d %.500s\nwant           %d %s", r.what, r.StatusCode, r.body, status, body)
	}
}

// refuses wants a status and an error with a code, whose message has the words in it.
func (r reply) refuses(status int, code actor.Kind, words ...string) (missing []string) {
	r.t.Helper()
	var m struct {
		Type, Message string
		Code          actor.Kind
		Detail        map[string]string
		Retryable     *bool
		Missing       []string
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		r.t.Errorf("%.300s\nis answered with %d %.500s, which is not a JSON error: %v", r.what, r.StatusCode, r.body, err)
		return nil
	}
	if r.StatusCode != status || m.Code != code || m.Type != "error" || m.Message == "" || m.Detail == nil || m.Retryable == nil {
		r.t.Errorf("%.300s\nis answered with %d %.500s\nwant %d and a whole error %s", r.what, r.StatusCode, r.body, status, code)
	}
	for _, word := range words {
		if !strings.Contains(m.Message, word) {
			r.t.Errorf("%.300s\nsays %q, want %q in it", r.what, m.Message, word)
		}
	}
	return m.Missing
}

// untouched wants that nothing was stored and nothing booted, and that the request is open still.
func (d *desk) untouched() {
	d.t.Helper()
	if d.boots != 0 || d.stored != nil {
		d.t.Errorf("a refused request booted %d children and stored %v, want nothing", d.boots, slices.Sorted(keys(d.stored)))
	}
	d.send("GET", path, "").is(200, `{"required":["API_KEY","REGION","USER"],"missing":["API_KEY","USER"],"status":"open"}`)
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
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
