package provider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// show writes a conversation as a transcript.
func show(turns []provider.Turn) string {
	var b strings.Builder
	for _, t := range turns {
		b.WriteString(string(t.Role) + "\n")
		for _, r := range t.Results {
			fmt.Fprintf(&b, "  result %s %v %s\n", r.Call, r.Error, r.Text)
		}
		for _, text := range t.Texts {
			fmt.Fprintf(&b, "  %q\n", text)
		}
		for _, c := range t.Calls {
			fmt.Fprintf(&b, "  call %s %s %s\n", c.ID, c.Name, c.Arguments)
		}
	}
	return b.String()
}

func entry(session uint64, step int, kind model.EntryKind, content string, more ...func(*model.Entry)) model.Entry {
	e := model.Entry{Kind: kind, Role: model.RoleUser, Session: session, Step: step, Content: json.RawMessage(content)}
	if kind == model.EntrySay || kind == model.EntryCall {
		e.Role = model.RoleAssistant
	}
	for _, f := range more {
		f(&e)
	}
	return e
}

func from(id actor.ID, typ string) func(*model.Entry) {
	return func(e *model.Entry) { e.From, e.Type = id, typ }
}

func call(id, tool string) func(*model.Entry) {
	return func(e *model.Entry) { e.Call, e.Name = id, tool }
}

func named(name string) func(*model.Entry) { return func(e *model.Entry) { e.Name = name } }

func failed(e *model.Entry) { e.IsError = true }

func others(e *model.Entry) { e.Role = model.RoleUser }

// A tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

func converse(t tester, r *model.Request) *provider.Conversation {
	t.Helper()
	c, err := provider.Converse(r, "acme", 0)
	if err != nil {
		t.Fatalf("the request was refused: %v", err)
	}
	return c
}

const task = `{"name":"job","instruction":"Do it.","success_criteria":["it is done","it is good"]}`

func TestTurns(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		entries []model.Entry
		want    string
	}{
		"nothing at all": {nil, `
user
  "Go on."`},
		"a message that came while a call was under way is told after the result": {[]model.Entry{
			entry(1, 1, model.EntryTask, task),
			entry(1, 2, model.EntryMessage, `"too late for step 1"`, from("boss", "note")),
			entry(1, 1, model.EntrySay, `"I look."`),
			entry(1, 1, model.EntryCall, `{"a":1}`, call("c1", "look")),
			entry(1, 1, model.EntryCall, `{ }`, call("c2", "look")),
			entry(1, 1, model.EntryResult, `"two"`, call("c2", "look"), failed),
			entry(1, 2, model.EntryCompletion, `{"text":"Subagent (reference: x) has returned the following result:\n\n{}","result":{}}`, from("sub_00000002", "completion")),
			entry(1, 1, model.EntryResult, `{ "one": 1 }`, call("c1", "look")),
		}, `
user
  "Do it.\n\nThe task is done when:\n- it is done\n- it is good"
assistant
  "I look."
  call c1 look {"a":1}
  call c2 look {}
user
  result c1 false {"one":1}
  result c2 true two
  "Message from boss (note):\n\ntoo late for step 1"
  "Subagent (reference: x) has returned the following result:\n\n{}"`},
		"earlier sessions stay, and say how they ended": {[]model.Entry{
			entry(1, -2, model.EntryTask, `{"instruction":"First."}`),
			entry(1, -2, model.EntrySay, `"One."`),
			entry(1, -2, model.EntryEnd, `{"output":"One."}`, named("stop")),
			entry(2, -1, model.EntryTask, `{"instruction":"Second."}`),
			entry(2, -1, model.EntryCall, `{}`, call("c1", "look")),
			entry(2, -1, model.EntryEnd, `null`, named("timeout"), failed),
			entry(3, 0, model.EntryMessage, `{"n": 3}`),
			entry(3, 0, model.EntryEnd, `{"summary":"Three."}`, named("stop")),
			entry(4, 1, model.EntryMessage, `"Fourth."`, from("me", "")),
		}, `
user
  "First."
assistant
  "One."
user
  "Second."
assistant
  call c1 look {}
user
  result c1 true There is no result: the session ended before.
  "[The session ended without a result: timeout.]"
  "{\"n\":3}"
assistant
  "{\"summary\":\"Three.\"}"
user
  "Fourth."`},
		"steps of the model's own are kept apart": {[]model.Entry{
			entry(1, 1, model.EntrySay, `"One."`), entry(1, 2, model.EntrySay, `" "`), entry(1, 3, model.EntrySay, `"Three."`),
		}, `
user
  "Go on."
assistant
  "One."
user
  "Go on."
assistant
  "Three."
user
  "Go on."`},
		"another side's words are a user's, and its calls are its own": {[]model.Entry{
			entry(1, 1, model.EntrySay, `"Hello."`, others), entry(1, 1, model.EntryCall, `{}`, call("c1", "look"), others),
			entry(1, 1, model.EntryResult, `"seen"`, call("c1", "look")), entry(1, 2, model.EntrySay, `"Good day."`),
			entry(1, 3, model.EntrySay, `"Bye."`, others),
		}, `
user
  "Hello."
assistant
  "Good day."
user
  "Bye."`},
		"ids and names that no provider takes, and ids that come again": {[]model.Entry{
			entry(1, 0, model.EntryCall, `[]`, call("a", "look up")), entry(1, 0, model.EntryResult, `""`, call("a", "look up")),
			entry(2, 1, model.EntryCall, `{}`, call("a", "")), entry(2, 1, model.EntryResult, `"x"`, call("a", "")),
			entry(2, 1, model.EntryCall, `{}`, call("b:1", "look")),
		}, `
user
  "Go on."
assistant
  call a look_up {}
user
  result a false (nothing)
assistant
  call call_91ecf1bf37c698e52ee49d32 _ {}
  call call_c8476a66d7d81adf024df366 look {}
user
  result call_91ecf1bf37c698e52ee49d32 false x
  result call_c8476a66d7d81adf024df366 true There is no result: the session ended before.`},
	} {
		got := show(converse(t, &model.Request{Session: 9, Step: 1, History: c.entries}).Turns)
		if want := strings.TrimPrefix(c.want, "\n") + "\n"; got != want {
			t.Errorf("%s\nwant\n%s\ngot\n%s", what, want, got)
		}
	}
}

func TestATaskThatNoEntryTellsIsTold(t *testing.T) {
	t.Parallel()
	r := &model.Request{Session: 2, Step: 2, Task: &a2e.TaskDefinition{Instruction: "Second."}, History: []model.Entry{
		entry(1, 1, model.EntryTask, `{"instruction":"First."}`), entry(1, 1, model.EntrySay, `"One."`),
		entry(2, 1, model.EntrySay, `"Two."`), entry(2, 2, model.EntryMessage, `"More."`),
	}}
	want := "user\n  \"First.\"\nassistant\n  \"One.\"\nuser\n  \"Second.\"\nassistant\n  \"Two.\"\nuser\n  \"More.\"\n"
	if got := show(converse(t, r).Turns); got != want {
		t.Errorf("the task of the session should open it\nwant\n%s\ngot\n%s", want, got)
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	r := &model.Request{System: "You are the coordinator.", Config: a2e.SubagentConfig{Name: "ada", Role: "x", SystemPrompt: "Own."}}
	if got := converse(t, r).System; got != "You are the coordinator." {
		t.Errorf("a side's prompt is the whole prompt, got %q", got)
	}
	r.System = ""
	if got := converse(t, r).System; !strings.HasPrefix(got, "You are ada, a subagent. Your role: x\n\nOwn.\n\nWork until") {
		t.Errorf("without one it is made of name, role and the agent's own prompt, got %q", got)
	}
}

func TestWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*model.Request{
		"tool look":                 {Tools: []model.Tool{{Name: "look", Schema: json.RawMessage(`[]`)}}},
		"result":                    {Schema: json.RawMessage(`"x"`)},
		"agent.metadata.max_tokens": {Config: a2e.SubagentConfig{Metadata: map[string]json.RawMessage{"max_tokens": json.RawMessage(`"many"`)}}},
	} {
		if _, err := provider.Converse(r, "acme", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an error that names %s should come, got %v", want, err)
		}
	}
}

// Whatever a thread goes through, its conversation is one that providers take, and that of a later step begins
// with that of an earlier one.
func TestConversationsOnlyGrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := history{t: rt, session: 1}
		var before []provider.Turn
		var gave bool // the step before was told as one
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			h.shown()
			turns := converse(rt, &model.Request{Session: h.session, Step: h.step, History: h.entries}).Turns
			wantTakable(rt, turns)
			if gave && !strings.HasPrefix(show(turns), show(before)) {
				rt.Fatalf("a later conversation must begin with the one before\nbefore\n%s\nafter\n%s", show(before), show(turns))
			}
			if n := len(before); n > 0 && !strings.HasPrefix(show(turns), show(before[:n-1])) {
				rt.Fatalf("all but the last turn must stay\nbefore\n%s\nafter\n%s", show(before), show(turns))
			}
			before, gave = turns, h.takes()
		}
	})
}

// wantTakable checks the rules of the providers.
func wantTakable(t tester, turns []provider.Turn) {
	var owed []string
	used := map[string]bool{}
	for i, turn := range turns {
		if want := []model.Role{model.RoleUser, model.RoleAssistant}[i%2]; turn.Role != want {
			t.Fatalf("turn %d should be the %s's:\n%s", i, want, show(turns))
		}
		var got []string
		for _, r := range turn.Results {
			got = append(got, r.Call)
		}
		if strings.Join(got, " ") != strings.Join(owed, " ") {
			t.Fatalf("turn %d should have the results of %q:\n%s", i, owed, show(turns))
		}
		owed = nil
		for _, c := range turn.Calls {
			if used[c.ID] {
				t.Fatalf("the id %s comes twice:\n%s", c.ID, show(turns))
			}
			used[c.ID] = true
			owed = append(owed, c.ID)
		}
		if len(turn.Results)+len(turn.Texts)+len(turn.Calls) == 0 {
			t.Fatalf("turn %d is empty:\n%s", i, show(turns))
		}
	}
	if len(turns)%2 == 0 || len(owed) > 0 {
		t.Fatalf("the user's turn should be the last:\n%s", show(turns))
	}
}

// A history grows as a thread's does.
type history struct {
	t       *rapid.T
	session uint64
	step    int
	n       int
	entries []model.Entry
}

func (h *history) text() string { h.n++; return fmt.Sprintf(`"text %d"`, h.n) }

// prompts adds what comes in from outside, to be shown before step.
func (h *history) prompts(step int) {
	for range rapid.IntRange(0, 2).Draw(h.t, "messages") {
		h.entries = append(h.entries, entry(h.session, step, model.EntryMessage, h.text(), from("boss", "note")))
	}
}

// shown begins a step.
func (h *history) shown() {
	h.step++
	if h.step == 1 {
		h.entries = append(h.entries, entry(h.session, 1, model.EntryTask, `{"instruction":`+h.text()+`}`))
	}
	h.prompts(h.step)
}

// takes ends a step, and reports whether it gave anything.
func (h *history) takes() bool {
	h.prompts(h.step + 1)
	fate := rapid.SampledFrom([]string{"calls", "says", "stop", "cancelled"}).Draw(h.t, "fate")
	switch fate {
	case "says":
		h.entries = append(h.entries, entry(h.session, h.step, model.EntrySay, h.text()))
	case "calls":
		var results []model.Entry
		for i := range rapid.IntRange(1, 3).Draw(h.t, "calls") {
			c := call(fmt.Sprintf("c%d-%d", h.step, i), "look")
			h.entries = append(h.entries, entry(h.session, h.step, model.EntryCall, `{}`, c))
			results = append(results, entry(h.session, h.step, model.EntryResult, h.text(), c))
		}
		for _, r := range rapid.Permutation(results).Draw(h.t, "results") {
			h.prompts(h.step + 1)
			h.entries = append(h.entries, r)
		}
	case "stop":
		h.entries = append(h.entries, entry(h.session, h.step, model.EntryEnd, `{"output":`+h.text()+`}`, named("stop")))
	default:
		h.entries = append(h.entries, entry(h.session, h.step, model.EntryEnd, `null`, named(fate), failed))
	}
	if fate == "stop" || fate == "cancelled" {
		h.session++
		h.step = 0
	}
	return fate != "cancelled"
}
