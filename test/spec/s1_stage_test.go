package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// A mind is a model that keeps what it is shown, and acts as a function says.
type mind struct {
	act func(r *model.Request) *model.Response

	mu   sync.Mutex
	seen []model.Request
}

// thinks is a mind.
func thinks(act func(r *model.Request) *model.Response) *mind { return &mind{act: act} }

func (m *mind) Step(_ context.Context, r *model.Request) (*model.Response, error) {
	one := *r
	one.History, one.Tools = slices.Clone(r.History), slices.Clone(r.Tools)
	m.mu.Lock()
	m.seen = append(m.seen, one)
	m.mu.Unlock()
	return m.act(r), nil
}

// shown gives what a thread was shown so far, step by step.
func (m *mind) shown(thread string) (all []model.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.seen {
		if string(r.Thread) == thread {
			all = append(all, r)
		}
	}
	return all
}

// A plan is what a mind does in the steps of a session, the first of them at 0; after the last it ends with all
// results of the session.
type plan []func(r *model.Request) *model.Response

// plans is a mind with a plan for each session, the first at 0. In later ones it ends at once.
func plans(sessions ...plan) *mind {
	return thinks(func(r *model.Request) *model.Response {
		if n := int(r.Session) - 1; n < len(sessions) && r.Step-1 < len(sessions[n]) {
			return sessions[n][r.Step-1](r)
		}
		return ended(r)
	})
}

// ended ends the session with what its calls gave: a list of {"error", "content"}.
func ended(r *model.Request) *model.Response {
	all := []map[string]any{}
	for _, e := range results(r) {
		all = append(all, map[string]any{"error": e.IsError, "content": e.Content})
	}
	data, err := json.Marshal(map[string]any{"results": all})
	if err != nil {
		return &model.Response{Fail: err.Error()}
	}
	return &model.Response{Done: true, Result: data}
}

// results are those of the calls that the session made, in the order of the calls.
func results(r *model.Request) (all []model.Entry) {
	given := map[string]model.Entry{}
	for _, e := range entriesOf(r.History, model.EntryResult) {
		given[e.Call] = e
	}
	for _, c := range entriesOf(r.History, model.EntryCall) {
		if e, ok := given[c.Call]; ok && c.Session == r.Session {
			all = append(all, e)
		}
	}
	return all
}

// entriesOf are the entries of a kind that are in a history.
func entriesOf(history []model.Entry, kind model.EntryKind) (all []model.Entry) {
	for _, e := range history {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// does makes a step of calls: a tool's name and its arguments, in turn.
func does(calls ...string) func(r *model.Request) *model.Response {
	return func(r *model.Request) *model.Response {
		var resp model.Response
		for i := 0; i < len(calls); i += 2 {
			resp.Calls = append(resp.Calls, model.Call{ID: fmt.Sprintf("s%d.%d.%d", r.Session, r.Step, i), Name: calls[i], Arguments: json.RawMessage(calls[i+1])})
		}
		return &resp
	}
}

// refers makes a step of one call, whose arguments have %q for the reference that the n-th result of the
// session, or of all sessions, gave.
func refers(n int, tool, arguments string) func(r *model.Request) *model.Response {
	return func(r *model.Request) *model.Response {
		var references []string
		for _, e := range entriesOf(r.History, model.EntryResult) {
			var made struct{ Reference string }
			if json.Unmarshal(e.Content, &made) == nil && made.Reference != "" {
				references = append(references, made.Reference)
			}
		}
		if n >= len(references) {
			return &model.Response{Fail: fmt.Sprintf("%d calls gave references, not %d", len(references), n+1)}
		}
		return does(tool, fmt.Sprintf(arguments, references[n]))(r)
	}
}

// says ends a turn with a text.
func says(text string) func(r *model.Request) *model.Response {
	return func(*model.Request) *model.Response { return &model.Response{Text: text} }
}

// fails gives up.
func fails(why string) func(r *model.Request) *model.Response {
	return func(*model.Request) *model.Response { return &model.Response{Fail: why} }
}

// prompted is a side A with a prompt for a model; more is what the side has besides, and begins with a comma.
func prompted(model, more string) string {
	return `"sideA":{"prompt":{"text":"You are an agent.","model":"` + model + `"}` + more + `}`
}

// defined is a definition with a side A that has a prompt for a model.
func defined(name, model, more string) string {
	return `{"name":"` + name + `",` + prompted(model, more) + `}`
}

// worker is an agent that ends with what it is told.
var worker = `{"name":"worker","toolDescription":"works",` + prompted("builtin/echo", "") + `}`

// only is the relationships of a side, as more of it.
func only(relationships ...string) string {
	return `,"subagents":[` + strings.Join(relationships, ",") + `]`
}

// stageOf starts a host with minds, and stores definitions.
func stageOf(t *testing.T, minds map[string]model.Model, definitions ...string) *stage {
	t.Helper()
	return stageWith(t, host.Config{}, minds, definitions...)
}

func stageWith(t *testing.T, cfg host.Config, minds map[string]model.Model, definitions ...string) *stage {
	t.Helper()
	s := startWith(t, cfg, minds)
	s.agents(definitions...)
	return s
}

// runs has an instance of an agent take its first session, and gives its id and what its calls gave.
func (s *stage) runs(name string) (id string, results []answer) {
	s.t.Helper()
	id = s.instance(name)
	return id, s.session(id, 1, `"go"`)
}

// session has a thread take a message, in its n-th session, and gives what its calls gave.
func (s *stage) session(id string, n uint64, content string) []answer {
	s.t.Helper()
	s.say(id, content)
	if s.rests(id, n, agent.StatusIdle).ParentAgentID != me {
		got := s.await(me, id)
		got.is("status", `"COMPLETED"`)
		return got.list("result.results")
	}
	subject := s.Names.Mail(me, actor.ID(id), fmt.Sprint(n))
	natstest.Await(s.t, "the mail of session "+fmt.Sprint(n), func() bool { return s.stored(s.Names.MailStream(), subject) == 1 })
	got := s.mail(me, id, fmt.Sprint(n)) // what children say may have opened the next session already
	got.is("status", `"COMPLETED"`)
	return got.list("result.results")
}

// children gives the registry entries of a thread's children, in creation order.
func (s *stage) children(id string) (all []agent.Entry) {
	s.t.Helper()
	stored, err := s.Store.Registry.Tree(s.ctx, me)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, one := range stored {
		var e agent.Entry
		if err := json.Unmarshal(one.Data, &e); err != nil {
			s.t.Fatal(err)
		}
		if string(e.ParentAgentID) == id {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b agent.Entry) int { return int(a.Order) - int(b.Order) })
	return all
}

// child gives a thread's only child.
func (s *stage) child(id string) agent.Entry {
	s.t.Helper()
	all := s.children(id)
	if len(all) != 1 {
		s.t.Fatalf("%s has %d children, want 1", id, len(all))
	}
	return all[0]
}

// firstChild waits for a thread's first child.
func (s *stage) firstChild(id string) string {
	s.t.Helper()
	natstest.Await(s.t, "a child of "+id, func() bool { return len(s.children(id)) > 0 })
	return string(s.children(id)[0].SubagentID)
}

// invalid validates definitions that are not sound, and wants exactly one problem.
func invalid(t *testing.T, code, path string, definitions ...string) {
	t.Helper()
	var all []agent.Definition
	for _, text := range definitions {
		d, err := agent.ParseDefinition([]byte(text))
		if err != nil {
			t.Fatalf("definition %s: %v", text, err)
		}
		all = append(all, *d)
	}
	problems := agent.Validate(all, nil)
	if len(problems) != 1 || string(problems[0].Code) != code || problems[0].Path != path {
		t.Errorf("%s\nhas the problems %v, want one: %s at %s", strings.Join(definitions, "\n"), problems, code, path)
	}
}

// toolNames are the names of the tools that a step was shown.
func toolNames(r *model.Request) (names []string) {
	for _, one := range r.Tools {
		names = append(names, one.Name)
	}
	return names
}

// toolOf finds a tool that a step was shown, with its schema.
func (s *stage) toolOf(r *model.Request, name string) (model.Tool, answer) {
	s.t.Helper()
	for _, one := range r.Tools {
		if one.Name == name {
			return one, parse(s.t, string(one.Schema))
		}
	}
	s.t.Fatalf("no tool %s is shown; there are %v", name, toolNames(r))
	panic("unreachable")
}

// wakes waits until a mind was shown a number of steps of a thread, and gives them.
func (s *stage) wakes(m *mind, id string, steps int) []model.Request {
	s.t.Helper()
	natstest.Await(s.t, fmt.Sprintf("step %d of %s", steps, id), func() bool { return len(m.shown(id)) >= steps })
	return m.shown(id)
}
