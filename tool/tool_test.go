package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
)

type query struct {
	Text  string   `json:"text" jsonschema:"what to look for"`
	Limit int      `json:"limit,omitempty"`
	In    []string `json:"in,omitempty"`
}

// search makes a Go function a tool.
func search[Out any](t testing.TB, do func(ctx context.Context, q query) (Out, error)) tool.Tool {
	t.Helper()
	made, err := tool.Func(tool.Description{Name: "search", Description: "looks things up"}, do)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func registry(t testing.TB, cfg tool.Config) *tool.Registry {
	t.Helper()
	r, err := tool.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call makes a call that has to have a result.
func call(t testing.TB, r *tool.Registry, name, arguments string) tool.Result {
	t.Helper()
	got, err := r.Call(natstest.Context(t), name, tool.Call{Thread: "sub_1", Session: 2, ID: "call-3", Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	return got
}

// gives wants a result.
func gives(t testing.TB, r tool.Result, content string) {
	t.Helper()
	if r.IsError || string(r.Content) != content {
		t.Errorf("the result is %.500s (an error: %v), want %s", r.Content, r.IsError, content)
	}
}

// refuses wants the result of a call that failed.
func refuses(t testing.TB, r tool.Result, code actor.Kind, words ...string) {
	t.Helper()
	var is struct{ Code, Message string }
	if err := json.Unmarshal(r.Content, &is); err != nil || !r.IsError || is.Code != string(code) {
		t.Errorf("the result is %.500s (an error: %v), want an error of code %s", r.Content, r.IsError, code)
	}
	for _, word := range words {
		if !strings.Contains(is.Message, word) {
			t.Errorf("the error says %q, want %q in it", is.Message, word)
		}
	}
}

func wantKind(t testing.TB, what string, err error, kind actor.Kind, words ...string) {
	t.Helper()
	if err == nil || actor.KindOf(err) != kind {
		t.Errorf("%s: the error is %v, want one of kind %s", what, err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error is %q, want %q in it", what, err, word)
		}
	}
}

func TestFunc(t *testing.T) {
	t.Parallel()
	r := registry(t, tool.Config{Tools: []tool.Tool{search(t, func(ctx context.Context, q query) (map[string]any, error) {
		return map[string]any{"found": q.Text, "call": tool.CallOf(ctx).ID}, nil
	})}})
	gives(t, call(t, r, "search", `{"text":"ports"}`), `{"call":"call-3","found":"ports"}`)
	all, err := r.Describe(natstest.Context(t), []string{"*", "search"})
	if err != nil || len(all) != 1 || all[0].Name != "search" || all[0].Description != "looks things up" {
		t.Fatalf("described as %+v, %v", all, err)
	}
	for _, word := range []string{`"required":["text"]`, `"what to look for"`, `"additionalProperties":false`} {
		if !strings.Contains(string(all[0].Schema), word) {
			t.Errorf("the schema is %s, want %s in it", all[0].Schema, word)
		}
	}
}

// Arguments that do not fit never reach the tool, and the model reads why.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	r := registry(t, tool.Config{Tools: []tool.Tool{search(t, func(context.Context, query) (string, error) {
		t.Error("the tool was called with arguments that do not fit")
		return "", nil
	})}})
	for arguments, words := range map[string][]string{
		`{}`:                                    {"text"},
		``:                                      {"text"},
		`[]`:                                    {"not a JSON object"},
		`{"text":`:                              {"not JSON"},
		`{"text":"a"} {}`:                       {"not JSON"},
		`{"text":"a","limit":"ten"}`:            {"arguments.limit", "integer"},
		`{"text":"a","in":["x",1]}`:             {"arguments.in[1]"},
		`{"text":"a","other":1,"limit":1.5}`:    {"other", "arguments.limit"},
		`{"text":"a","` + long("k") + `":1}`:    {"kkkk"},
		`{"text":"a","in":` + ones(100) + `}`:   {"and 92 more"},
		`{"text":1,"limit":"\u0000","in":null}`: {"arguments.text"},
	} {
		got := call(t, r, "search", arguments)
		refuses(t, got, actor.SchemaViolation, words...)
		if len(got.Content) > 16<<10 {
			t.Errorf("the error for %.50s has %d bytes", arguments, len(got.Content))
		}
	}
}

func long(s string) string { return strings.Repeat(s, 100_000) }
func ones(n int) string    { return "[1" + strings.Repeat(",1", n-1) + "]" }

// What goes wrong in a tool is a result.
func TestToolsFail(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		do    func(context.Context, query) (any, error)
		code  actor.Kind
		words []string
	}{
		"an error": {func(context.Context, query) (any, error) { return nil, errors.New("the index is gone") }, actor.RuntimeError, []string{"the index is gone"}},
		"an error with a kind": {func(context.Context, query) (any, error) {
			return nil, &actor.Error{Op: "index.Open", Kind: actor.NotFound, Field: "text", Err: errors.New("no such word")}
		}, actor.NotFound, []string{"no such word"}},
		"a kind alone": {func(context.Context, query) (any, error) { return nil, &actor.Error{Kind: actor.QuotaExceeded} }, actor.QuotaExceeded, []string{"quota exceeded"}},
		"a panic":      {func(context.Context, query) (any, error) { panic("oh") }, actor.RuntimeError, []string{"panicked", "oh"}},
		"no JSON":      {func(context.Context, query) (any, error) { return make(chan int), nil }, actor.RuntimeError, []string{"not JSON"}},
		"raw no JSON": {func(context.Context, query) (any, error) {
			return tool.Result{Content: json.RawMessage("{")}, nil
		}, actor.RuntimeError, []string{"not JSON"}},
		"too much": {func(context.Context, query) (any, error) { return long("x"), nil }, actor.TooLarge, []string{"100002 bytes", "50000"}},
		"too much in files": {func(context.Context, query) (any, error) {
			return tool.Result{Files: []tool.File{{Name: "a", Data: make([]byte, 60_000)}}}, nil
		}, actor.TooLarge, nil},
	} {
		r := registry(t, tool.Config{MaxResult: 50_000, Tools: []tool.Tool{search(t, c.do)}})
		t.Log(what)
		refuses(t, call(t, r, "search", `{"text":"a"}`), c.code, c.words...)
	}
	refuses(t, call(t, registry(t, tool.Config{}), "nobody", `{}`), actor.NotFound, `"nobody"`)
}

// A call whose context ends has no result, since nobody waits for one.
func TestCallIsCancelled(t *testing.T) {
	t.Parallel()
	r := registry(t, tool.Config{Tools: []tool.Tool{search(t, func(ctx context.Context, _ query) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})}})
	ctx, cancel := context.WithCancel(natstest.Context(t))
	cancel()
	_, err := r.Call(ctx, "search", tool.Call{Arguments: json.RawMessage(`{"text":"a"}`)})
	wantKind(t, "a cancelled call", err, actor.RuntimeError, "canceled")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap the context's error", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	one := search(t, func(context.Context, query) (string, error) { return "", nil })
	named := func(name string) tool.Tool {
		made, err := tool.Func(tool.Description{Name: name}, func(context.Context, query) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	run := []string{"true"}
	for what, c := range map[string]struct {
		cfg  tool.Config
		kind actor.Kind
		word string
	}{
		"a name twice":                {tool.Config{Tools: []tool.Tool{one, one}}, actor.Conflict, "search"},
		"no tool":                     {tool.Config{Tools: []tool.Tool{nil}}, actor.SchemaViolation, "tools[0]"},
		"a bad name":                  {tool.Config{Tools: []tool.Tool{named("風林火山")}}, actor.SchemaViolation, "風林火山"},
		"no name":                     {tool.Config{Tools: []tool.Tool{named("")}}, actor.SchemaViolation, "name"},
		"a bad allow-list":            {tool.Config{Allow: []string{"a*b"}}, actor.SchemaViolation, "allow"},
		"an empty pattern":            {tool.Config{Allow: []string{""}}, actor.SchemaViolation, "allow"},
		"a size below zero":           {tool.Config{MaxResult: -1}, actor.SchemaViolation, "maxResult"},
		"an endpoint without a bus":   {tool.Config{Endpoints: []tool.Endpoint{{Name: "a", Subject: "a"}}}, actor.SchemaViolation, "requester"},
		"a subject with a wildcard":   {tool.Config{Requester: nobody{}, Endpoints: []tool.Endpoint{{Name: "a", Subject: "a.*"}}}, actor.SchemaViolation, "a.subject"},
		"no subject":                  {tool.Config{Requester: nobody{}, Endpoints: []tool.Endpoint{{Name: "a"}}}, actor.SchemaViolation, "a.subject"},
		"a schema of no object":       {tool.Config{Requester: nobody{}, Endpoints: []tool.Endpoint{{Name: "a", Subject: "a", Schema: json.RawMessage(`{"type":"string"}`)}}}, actor.SchemaViolation, "a.schema"},
		"a schema that is none":       {tool.Config{Requester: nobody{}, Endpoints: []tool.Endpoint{{Name: "a", Subject: "a", Schema: json.RawMessage(`{"type":"object","required":1}`)}}}, actor.SchemaViolation, "required"},
		"a schema elsewhere":          {tool.Config{Requester: nobody{}, Endpoints: []tool.Endpoint{{Name: "a", Subject: "a", Schema: json.RawMessage(`{"type":"object","$ref":"file:///etc/passwd"}`)}}}, actor.SchemaViolation, "another document"},
		"a server of no kind":         {tool.Config{Servers: []tool.Server{{Name: "s"}}}, actor.SchemaViolation, "s.command"},
		"a server of both kinds":      {tool.Config{Servers: []tool.Server{{Name: "s", Command: run, URL: "http://h"}}}, actor.SchemaViolation, "s.command"},
		"a server without a name":     {tool.Config{Servers: []tool.Server{{Command: run}}}, actor.SchemaViolation, "name"},
		"a URL that is none":          {tool.Config{Servers: []tool.Server{{Name: "s", URL: "ftp://h"}}}, actor.SchemaViolation, "s.url"},
		"a variable that is not set":  {tool.Config{Servers: []tool.Server{{Name: "s", Command: run, Env: []string{"NO_SUCH"}}}}, actor.SchemaViolation, "NO_SUCH is not set"},
		"a header's that is not set":  {tool.Config{Servers: []tool.Server{{Name: "s", URL: "http://h", Headers: map[string]string{"A": "${NO_SUCH}"}}}}, actor.SchemaViolation, "NO_SUCH is not set"},
		"a server's name twice":       {tool.Config{Servers: []tool.Server{{Name: "s", Command: run}, {Name: "s", Command: run}}}, actor.Conflict, "s"},
		"servers that begin alike":    {tool.Config{Servers: []tool.Server{{Name: "s", Command: run}, {Name: "s_t", Command: run}}}, actor.Conflict, "s_t"},
		"a tool like a server's":      {tool.Config{Tools: []tool.Tool{named("s_t")}, Servers: []tool.Server{{Name: "s", Command: run}}}, actor.Conflict, "s_t"},
		"a server's time, below zero": {tool.Config{Servers: []tool.Server{{Name: "s", Command: run, Timeout: -1}}}, actor.SchemaViolation, "s.timeout"},
	} {
		_, err := tool.New(c.cfg)
		wantKind(t, what, err, c.kind, c.word)
	}
	_, err := tool.Func(tool.Description{Name: "f"}, func(context.Context, string) (string, error) { return "", nil })
	wantKind(t, "a function of a string", err, actor.SchemaViolation, "not an object")
	_, err = tool.Func(tool.Description{Name: "f"}, func(context.Context, map[string]func()) (string, error) { return "", nil })
	wantKind(t, "a function of functions", err, actor.SchemaViolation, "schema")
}

type nobody struct{}

func (nobody) RequestWith(context.Context, string, map[string][]string, []byte) ([]byte, error) {
	return nil, actor.Unavailable
}

func TestRestrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ allow, names, want string }{
		{"-", "a b_*", "a b_*"},
		{"", "a b_*", ""},
		{"a files_*", "a b files_read files_* f*", "a files_read files_*"},
		{"files_read", "files_*", "files_read"},
		{"files_*", "files_read files_write other", "files_read files_write"},
		{"file", "file*", "file"},
		{"file*", "file", "file"},
		{"f* files_*", "files_*", "files_*"},
		{"*", "x *", "x *"},
		{"ab", "abc", ""},
	} {
		cfg := tool.Config{Allow: strings.Fields(c.allow)}
		if c.allow == "-" {
			cfg.Allow = nil
		}
		if got := strings.Join(registry(t, cfg).Restrict(strings.Fields(c.names)), " "); got != c.want {
			t.Errorf("%q restricted to %q is %q, want %q", c.names, c.allow, got, c.want)
		}
	}
}

// A number that would cost the arithmetic of a validation dearly is refused before the library sees it, as it is when an
// agent is created.
func TestHugeNumberIsRefused(t *testing.T) {
	t.Parallel()
	called := false
	f, err := tool.Func(tool.Description{Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number","multipleOf":3}}}`)},
		func(context.Context, map[string]any) (int, error) { called = true; return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := tool.New(tool.Config{Tools: []tool.Tool{f}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Call(t.Context(), "f", tool.Call{Arguments: json.RawMessage(`{"n":1e999999999}`)})
	if err != nil || !got.IsError || called {
		t.Errorf("a number with a billion digits: %s, %v, and it is %v that the tool was called", got.Content, err, called)
	}
}
