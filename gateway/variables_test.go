package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
)

const both = `{"values":{"API_KEY":"canary-7f3a","USER":"canary-äöü"}}`

func TestGetGivesNamesOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	d.untouched()
	reference := "/threads/" + agent.Reference(parent) + "/variables/" + request
	d.send("GET", reference, "").is(200, `{"required":["API_KEY","REGION","USER"],"missing":["API_KEY","USER"],"status":"open"}`)
	head := d.send("HEAD", path, "")
	if head.StatusCode != 200 {
		t.Errorf("HEAD is answered with %d, want what GET is", head.StatusCode)
	}
	d.required, d.missing = nil, nil
	d.send("GET", path, "").is(200, `{"required":[],"missing":[],"status":"open"}`)
}

func TestPostBoots(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	d.post(both).is(201, fmt.Sprintf(`{"reference":%q,"subagent_id":"sub_0000002a","relationship":"work_calendar"}`, agent.Reference(child)))
	if d.boots != 1 || len(d.stored) != 2 || d.stored["API_KEY"] != "canary-7f3a" || d.stored["USER"] != "canary-äöü" {
		t.Errorf("%d boots with %q, want one with both values as they were sent", d.boots, d.stored)
	}
	d.post(both).refuses(410, actor.Gone)
	d.send("GET", path, "").refuses(410, actor.Gone)
	if d.boots != 1 {
		t.Errorf("%d children were booted, want one: a request is used once", d.boots)
	}
}

func TestUnknownIsNotFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for _, at := range []string{
		"/threads/sub_1f0c22ab/variables/" + request, // another thread's
		"/threads/parent_1/variables/" + request,
		"/threads/sub_1f0c22aa%2Fx/variables/" + request,
		"/threads/sub_1f0c22aa/variables/6f9619ff-8b86-4d01-b42d-00cf4fc964fe",
		"/threads/sub_1f0c22aa/variables/*",
	} {
		d.send("GET", at, "").refuses(404, actor.NotFound, "no such thread, or no such request")
		d.send("POST", at, both).refuses(404, actor.NotFound, "no such thread, or no such request")
	}
	for _, at := range []string{"/", "/threads", "/threads/", path + "/", path + "/x", "/threads//variables/" + request, "//" + path, "/x/.." + path, "/threads/%2e%2e/variables/" + request, "/metrics", "/debug/pprof/"} {
		d.send("GET", at, "").refuses(404, actor.NotFound)
	}
	d.untouched()
}

func TestMissingValuesLeaveItOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for body, want := range map[string][]string{
		`{"values":{"API_KEY":"canary-7f3a"}}`: {"USER"},
		`{"values":{}}`:                        {"API_KEY", "USER"},
	} {
		if missing := d.post(body).refuses(422, actor.EnvRequired, want...); !slices.Equal(missing, want) {
			t.Errorf("%s: %v is missing, want %v", body, missing, want)
		}
	}
	d.untouched()
	d.refuses = func(map[string]string) error { // the agent requires more by now
		return &actor.Error{Kind: actor.EnvRequired, Err: &host.MissingVariables{Missing: []string{"TENANT"}}}
	}
	if missing := d.post(both).refuses(422, actor.EnvRequired, "TENANT"); !slices.Equal(missing, []string{"TENANT"}) {
		t.Errorf("%v is missing, want what the runtime says", missing)
	}
}

func TestOnlyMissingNamesMayBeGiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for _, body := range []string{
		`{"values":{"API_KEY":"a","USER":"b","REGION":"c"}}`, // it has a value already
		`{"values":{"canary-7f3a":"API_KEY"}}`,
		`{"values":{"canary-7f3a":"x","canary-2":"y","USER":"z"}}`,
		`{"values":{"api_key":"a","USER":"b"}}`,
	} {
		r := d.post(body)
		if missing := r.refuses(400, actor.SchemaViolation, "API_KEY, USER"); len(missing) != 2 {
			t.Errorf("%s: missing is %v, want both", body, missing)
		}
		if strings.Contains(r.body, "canary") {
			t.Errorf("%s is told in the error, and may be a secret in the wrong place: %s", body, r.body)
		}
	}
	d.untouched()
}

// Each refusal of the runtime has its status, and leaves the request as it was.
func TestRefusalsOfTheRuntime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for kind, status := range map[actor.Kind]int{
		actor.AtCapacity:                409,
		actor.QuotaExceeded:             409,
		actor.DepthExceeded:             409,
		actor.Conflict:                  409,
		actor.SubagentUnknownAgent:      409,
		actor.SubagentArgumentsRequired: 409,
		actor.SubagentArgumentsInvalid:  409,
		actor.ThreadTerminated:          410,
		actor.Gone:                      410,
		actor.NotFound:                  404,
		actor.TooLarge:                  413,
		actor.SchemaViolation:           400,
		actor.EnvRequired:               422,
		actor.Unauthorized:              500,
		actor.RuntimeError:              500,
		actor.Unavailable:               503,
		actor.Timeout:                   504,
	} {
		d.refuses = func(map[string]string) error {
			return fmt.Errorf("boot: %w", &actor.Error{ID: parent, Kind: kind, Err: errors.New("the reason")})
		}
		r := d.post(both)
		r.refuses(status, kind, "the reason")
		if retry := r.Header.Get("Retry-After"); (retry != "") != (status == 503) {
			t.Errorf("%s: Retry-After is %q", kind, retry)
		}
		d.untouched()
	}
	d.refuses = func(map[string]string) error { return errors.New("no kind") }
	d.post(both).refuses(500, actor.RuntimeError, "no kind")
	d.refuses = nil
	d.post(both).is(201, fmt.Sprintf(`{"reference":%q,"subagent_id":"sub_0000002a","relationship":"work_calendar"}`, agent.Reference(child)))
}

func TestBodies(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for _, c := range []struct {
		status int
		code   actor.Kind
		body   string
		says   string
	}{
		{400, actor.ParseError, `{"values":`, "not JSON"},
		{400, actor.ParseError, both + both, "not JSON"},
		{400, actor.ParseError, "{\"values\":{\"API_KEY\":\"\xff\"}}", "UTF-8"},
		{400, actor.ParseError, `[]`, "object"},
		{400, actor.ParseError, `"canary"`, "object"},
		{400, actor.SchemaViolation, `{}`, "values: is required"},
		{400, actor.SchemaViolation, `{"Values":{}}`, "values: is required"},
		{400, actor.SchemaViolation, `{"values":{},"canary":1}`, "no other"},
		{400, actor.SchemaViolation, `{"values":{},"values":{}}`, "no other"},
		{400, actor.SchemaViolation, `{"values":null}`, "must be an object"},
		{400, actor.SchemaViolation, `{"values":[]}`, "must be an object"},
		{400, actor.SchemaViolation, `{"values":{"API_KEY":"canary","API_KEY":"canary"}}`, "twice"},
		{400, actor.SchemaViolation, `{"values":{"API_KEY":1234567,"USER":"x"}}`, "must be a string"},
		{400, actor.SchemaViolation, `{"values":{"API_KEY":null,"USER":"x"}}`, "must be a string"},
		{400, actor.SchemaViolation, `{"values":{"API_KEY":["canary"],"USER":"x"}}`, "must be a string"},
		{400, actor.SchemaViolation, `{"values":{"API_KEY":"canary\ud800","USER":"x"}}`, "Unicode"},
		{413, actor.TooLarge, `{"values":{"API_KEY":"` + strings.Repeat("canary", 1<<18) + `"}}`, "1048576 bytes"},
		{413, actor.TooLarge, strings.Repeat(" ", 1<<20+1), "1048576 bytes"},
	} {
		r := d.post(c.body)
		r.refuses(c.status, c.code, c.says)
		if strings.Contains(r.body, "canary") || strings.Contains(r.body, "1234567") {
			t.Errorf("%.100s is told in the error: %s", c.body, r.body)
		}
	}
	for _, headers := range [][]string{
		{"Content-Type", ""},
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/json;;"},
		{"Content-Encoding", "gzip"},
	} {
		d.send("POST", path, both, headers...).refuses(415, actor.InvalidMessage, headers[0])
	}
	d.untouched()
	sent := `{"values": {"API_KEY": "\ud83d\ude00 \ufffd", "USER": ""}}` + "\n"
	if r := d.send("POST", path, sent, "Content-Type", "application/json; charset=UTF-8"); r.StatusCode != 201 || d.stored["API_KEY"] != "😀 \ufffd" {
		t.Errorf("%s is answered with %d, and %q was stored", sent, r.StatusCode, d.stored["API_KEY"])
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "get"} {
		r := d.send(method, path, "")
		r.refuses(405, actor.InvalidMessage, "GET, HEAD, POST")
		if allow := r.Header.Get("Allow"); allow != "GET, HEAD, POST" {
			t.Errorf("%s: Allow is %q", method, allow)
		}
	}
	r := d.send("POST", "/healthz", "{}")
	r.refuses(405, actor.InvalidMessage)
	if allow := r.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("POST /healthz: Allow is %q", allow)
	}
	d.untouched()
}

// Of two that post at the same moment exactly one boots.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	r := newRuntime()
	var met sync.WaitGroup
	met.Add(2)
	r.hold = func(context.Context) { met.Done(); met.Wait() } // both have been let through
	d := newDesk(t, r, nil)
	var replies [2]reply
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = d.post(both) })
	}
	wg.Wait()
	slices.SortFunc(replies[:], func(a, b reply) int { return a.StatusCode - b.StatusCode })
	if replies[0].StatusCode != 201 || d.boots != 1 {
		t.Errorf("the first is answered with %d, and there are %d children, want 201 and one", replies[0].StatusCode, d.boots)
	}
	replies[1].refuses(410, actor.Gone)
}

// A runtime that puts values where they do not belong is not helped to spread them.
func TestValuesAreNeverTold(t *testing.T) {
	t.Parallel()
	r := newRuntime()
	d := newDesk(t, r, nil)
	leaks := []func(map[string]string) error{
		nil,
		func(v map[string]string) error { return fmt.Errorf("could not store %v", v) },
		func(v map[string]string) error {
			return &actor.Error{ID: parent, Kind: actor.Unavailable, Field: "values." + v["API_KEY"], Err: fmt.Errorf("%s and %s", v["USER"], v["API_KEY"])}
		},
		func(v map[string]string) error { panic("with " + v["API_KEY"] + v["USER"]) },
	}
	var told strings.Builder
	for _, leak := range leaks {
		r.refuses, r.used = leak, false
		for _, body := range []string{both, `{"values":{"API_KEY":"canary-7f3a"}}`, `{"values":{"canary-1":"canary-2"}}`, `{"values":"canary-3"}`, `{"canary-4":"canary-5"}`} {
			got := d.post(body)
			fmt.Fprintln(&told, got.StatusCode, got.Header, got.body)
			if leak == nil && body == both {
				r.used = false
			}
		}
	}
	d.send("GET", path, "")
	if all := told.String() + d.log.String(); strings.Contains(all, "canary") {
		t.Errorf("a value was told:\n%s", all)
	}
	if log := d.log.String(); !strings.Contains(log, "[value]") || !strings.Contains(log, string(child)) {
		t.Errorf("the log tells neither the failures nor the boot:\n%s", log)
	}
}

// Who hangs up does not stop a boot half way.
func TestHangingUpDoesNotStopABoot(t *testing.T) {
	t.Parallel()
	r := newRuntime()
	ctx, hangUp := context.WithCancel(t.Context())
	r.hold = func(at context.Context) {
		hangUp()
		if err := at.Err(); err != nil {
			t.Errorf("the boot was told to stop with its sender: %v", err)
		}
		if _, ok := at.Deadline(); !ok {
			t.Error("the boot may take for ever")
		}
	}
	d := newDesk(t, r, nil)
	d.Gateway.ServeHTTP(discard{}, d.request(ctx, http.MethodPost, path, both))
	if d.boots != 1 {
		t.Errorf("%d children were booted, want one", d.boots)
	}
}
