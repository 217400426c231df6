package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A named model tells its name, so that a test sees which one was found.
type named string

func (n named) Step(context.Context, *model.Request) (*model.Response, error) {
	return &model.Response{Text: string(n)}, nil
}

func TestLookupPrefersTheExactNameThenTheLongestPrefix(t *testing.T) {
	t.Parallel()
	models := map[string]model.Model{}
	for _, n := range []string{"mine", "anthropic/", "anthropic/fast/", "anthropic/claude", "a b/"} {
		models[n] = named(n)
	}
	r, err := model.New(model.Config{Models: models})
	if err != nil {
		t.Fatal(err)
	}
	clear(models) // the registry has its own copy
	for name, want := range map[string]string{
		"mine":                 "mine",
		"anthropic/claude":     "anthropic/claude",
		"anthropic/claude-x":   "anthropic/",
		"anthropic/claude/x":   "anthropic/",
		"anthropic/fast/x":     "anthropic/fast/",
		"a b/c":                "a b/",
		"anthropic/":           "", // a provider, but no model
		"anthropic//":          "",
		"anthropic/fast/":      "anthropic/",
		"anthropic":            "",
		"Mine":                 "",
		"":                     "",
		"/":                    "",
		"builtin/":             "",
		"builtin/unknown":      "",
		"other/anthropic/fast": "",
	} {
		m, err := r.Lookup(name)
		if want == "" {
			var e *actor.Error
			if !errors.As(err, &e) || e.Kind != actor.SchemaViolation || e.Field != "agent.model" {
				t.Errorf("Lookup(%q) should be a schema_violation of agent.model, got %v and %v", name, m, err)
			}
			continue
		}
		if m != named(want) || err != nil {
			t.Errorf("Lookup(%q) should find %q, got %v and %v", name, want, m, err)
		}
	}
}

func TestUnknownModelNamesTheKnownOnes(t *testing.T) {
	t.Parallel()
	r, err := model.New(model.Config{Models: map[string]model.Model{"anthropic/": named("x")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Lookup("gpt")
	for _, name := range []string{`"gpt"`, "anthropic/…", "builtin/echo", "builtin/extractive", "builtin/script"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the message should help the reader along with %s: %v", name, err)
		}
	}
}

func TestNewRefusesNamesThatMislead(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]model.Model{"": named("x"), "/": named("x"), "builtin/echo": named("x"),
		"builtin/": named("x"), "nothing": nil} {
		if _, err := model.New(model.Config{Models: map[string]model.Model{name: m}}); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("a model %v named %q should be refused as schema_violation, got %v", m, name, err)
		}
	}
}

func TestEchoSaysWhatItWasTold(t *testing.T) {
	t.Parallel()
	echo := lookup(t, "builtin/echo")
	r := request("say <b> & \"c\"\n")
	r.History = []model.Entry{message(2, 1, "boss", `"ignored"`)}
	wantResult(t, step(t, echo, r), `{"output":"say <b> & \"c\"\n"}`)

	r.Task = nil
	r.History = []model.Entry{message(2, 1, "boss", `"first"`), message(2, 1, "boss", `"newest"`), message(1, 9, "boss", `"stale"`)}
	wantResult(t, step(t, echo, r), `{"output":"newest"}`)
	r.History = []model.Entry{message(2, 1, "boss", `{"a": [1, 2]}`)}
	wantResult(t, step(t, echo, r), `{"output":"{\"a\":[1,2]}"}`)
	r.History = []model.Entry{{Kind: model.EntryCompletion, Session: 2, Step: 1, Content: json.RawMessage(`"child is done"`)}}
	wantResult(t, step(t, echo, r), `{"output":"child is done"}`)
	r.History = nil
	wantResult(t, step(t, echo, r), `{"output":""}`)
}

func TestObjectWrapsAllButObjects(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, ` {} `: `{}`, `1`: `{"output":1}`, `"x"`: `{"output":"x"}`, `[{}]`: `{"output":[{}]}`,
		`null`: `{"output":null}`, ``: `{"output":null}`, "\n": `{"output":null}`,
	} {
		if got := string(model.Object(json.RawMessage(in))); got != want {
			t.Errorf("Object(%q) should be %s, got %s", in, want, got)
		}
	}
}

func TestInterruptedStepIsAnErrorAndNoOutcome(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for _, name := range []string{"builtin/echo", "builtin/extractive", "builtin/script"} {
		for ctx, want := range map[context.Context]actor.Kind{cancelled: actor.RuntimeError, late: actor.Timeout} {
			resp, err := lookup(t, name).Step(ctx, request("x"))
			var e *actor.Error
			if resp != nil || !errors.As(err, &e) || e.Kind != want || e.ID != "sub_00000001" || !errors.Is(err, ctx.Err()) {
				t.Errorf("%s, interrupted by %v: want Kind %s with the thread's id, got %v and %v", name, ctx.Err(), want, resp, err)
			}
		}
	}
}
