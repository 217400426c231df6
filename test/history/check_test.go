package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/test/natstest"
)

// A small history, in which there is something for every rule.
type small struct {
	*testing.T
	*Records
	parent, child, idle, ended, boss actor.ID
}

// playSmall plays it, without faults.
func playSmall(t *testing.T) *small {
	t.Helper()
	w := newWorld(t, 1, 1)
	w.source.Agents = []actor.ID{AgentID(0)}
	ctx := natstest.Context(t)
	ask := func(req a2e.Request) a2e.Message {
		t.Helper()
		msg, err := w.source.Book.Ask(ctx, AgentID(0), req)
		if _, refused := msg.(*a2e.Error); err != nil || refused {
			t.Fatalf("%T: %v %+v", req, err, msg)
		}
		return msg
	}
	spawn := func(name string) actor.ID {
		child := a2e.SubagentConfig{Name: name, Model: "builtin/script", Capabilities: []string{"multi_agent"}}.WithDefaults()
		return ask(&a2e.SpawnReq{Agent: child}).(*a2e.SpawnResp).SubagentID
	}
	work := func(id actor.ID, name string, script ...any) {
		task := as[a2e.TaskDefinition](object{"name": name, "instruction": "go", "metadata": object{"script": script}})
		ask(&a2e.DelegateReq{SubagentID: id, Task: task})
	}
	s := &small{T: t}
	s.parent, s.idle, s.ended = spawn("parent"), spawn("idle"), spawn("ended")
	for n := range 2 {
		ask(&a2e.MessageReq{FromSubagentID: AgentID(0), ToSubagentID: s.parent, Message: a2e.MessagePayload{Type: "note", Content: note{0, n + 1}.json()}})
	}
	work(s.parent, "family",
		object{"call": "subagent_spawn", "arguments": object{"agent": object{"name": "child", "model": "builtin/script"}}},
		object{"call": "subagent_delegate", "arguments": object{"subagent_id": "$results.0.subagent_id",
			"task": object{"name": "below", "instruction": "go", "metadata": object{"script": []any{object{"result": 1}}}}}},
		object{"call": "subagent_await", "arguments": object{"subagent_id": "$results.0.subagent_id"}},
		object{"result": object{"ok": true}})
	ask(&a2e.AwaitReq{SubagentID: s.parent, TimeoutSeconds: 20})
	work(s.parent, "again", object{"result": 2})
	ask(&a2e.AwaitReq{SubagentID: s.parent, TimeoutSeconds: 20})
	work(s.ended, "long", object{"sleep_ms": 60_000}, object{"result": 3})
	ask(&a2e.CancelReq{SubagentID: s.ended})
	ask(&a2e.TerminateReq{SubagentID: s.ended})
	ask(&a2e.MergeReq{SubagentIDs: []actor.ID{s.parent}, Strategy: a2e.Voting})
	s.boss = ask(&a2e.SpawnReq{Agent: a2e.SubagentConfig{Name: "a boss"}, Definition: "boss", ScopedEnv: map[string]json.RawMessage{"KEY": json.RawMessage(`"v"`)}}).(*a2e.SpawnResp).SubagentID
	work(s.boss, "compose")
	ask(&a2e.AwaitReq{SubagentID: s.boss, TimeoutSeconds: 20})
	w.source.Rest(ctx, leaseTerm)
	var err error
	if s.Records, err = w.source.Read(ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Journal {
		if e := s.birth(p); e != nil && e.Config.Name == "child" {
			s.child = p.of.ID
		}
	}
	return s
}

// copy makes a copy whose lists can be changed.
func (s *small) copy() *small {
	c, r := *s, *s.Records
	c.Records = &r
	r.Journal, r.Mail, r.Calls = slices.Clone(r.Journal), slices.Clone(r.Mail), slices.Clone(r.Calls)
	for i := range r.Journal {
		p := &r.Journal[i]
		p.Entries, p.Took, p.Effects = slices.Clone(p.Entries), slices.Clone(p.Took), slices.Clone(p.Effects)
	}
	for i, call := range r.Calls {
		c := *call
		c.answers, c.raw = slices.Clone(c.answers), slices.Clone(c.raw)
		r.Calls[i] = &c
	}
	r.Keys, r.Registry, r.Listed, r.Awaited = cloned(r.Keys), cloned(r.Registry), cloned(r.Listed), cloned(r.Awaited)
	return &c
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (s *small) birth(p Placed) *agent.Birth {
	var b agent.Birth
	if p.of.Host || len(p.Delta) == 0 || agent.Unpack(p.Delta, &b) != nil {
		return nil
	}
	return &b
}

// record gives the first record that ok likes, of a thread or of a host.
func (s *small) record(what string, of actor.Address, ok func(p *Placed) bool) *Placed {
	s.Helper()
	for i := range s.Journal {
		if p := &s.Journal[i]; (of == actor.Address{} || p.of == of) && ok(p) {
			return p
		}
	}
	s.Fatalf("the small history has no %s of %s", what, of)
	return nil
}

func thread(id actor.ID) actor.Address { return actor.Address{ID: id} }

// entry gives the place of an entry of a thread.
func (s *small) entry(id actor.ID, kind actor.EntryKind) (*Placed, int) {
	s.Helper()
	is := func(e actor.Entry) bool { return e.Kind == kind }
	p := s.record(string(kind), thread(id), func(p *Placed) bool { return slices.ContainsFunc(p.Entries, is) })
	return p, slices.IndexFunc(p.Entries, is)
}

// effect gives the place of an effect.
func (s *small) effect(kind actor.EffectKind) (*Placed, int) {
	s.Helper()
	is := func(e actor.Effect) bool { return e.Kind == kind }
	p := s.record(kind.String(), actor.Address{}, func(p *Placed) bool { return slices.ContainsFunc(p.Effects, is) })
	return p, slices.IndexFunc(p.Effects, is)
}

// without removes the records of an actor.
func (s *small) without(ok func(p Placed) bool) { s.Journal = slices.DeleteFunc(s.Journal, ok) }

// call gives the first call of a kind that was answered.
func call[R a2e.Request](s *small) *Call {
	s.Helper()
	for _, c := range s.Calls {
		if _, ok := c.request.(R); ok && len(c.answers) > 0 {
			return c
		}
	}
	s.Fatalf("the small history has no %T", *new(R))
	return nil
}

// answer gives a call another first answer.
func (c *Call) answer(m a2e.Message, raw string) {
	c.answers, c.raw = []a2e.Message{m}, []string{raw}
}

// last gives the place of the last record of a thread.
func (s *small) last(id actor.ID) *Placed {
	s.Helper()
	for i := len(s.Journal) - 1; i >= 0; i-- {
		if s.Journal[i].of == thread(id) {
			return &s.Journal[i]
		}
	}
	s.Fatalf("%s has no record", id)
	return nil
}

// again appends an earlier record of a thread, which then is what the thread is.
func (s *small) again(p *Placed) {
	r := *p
	r.seq, r.Cursor = s.Journal[len(s.Journal)-1].seq+1, s.last(p.of.ID).Cursor
	r.Took, r.Entries, r.Effects = nil, nil, nil
	s.Journal = append(s.Journal, r)
}

// open gives a record of a thread after which a session is open.
func (s *small) open(id actor.ID) *Placed {
	s.Helper()
	var first *Placed
	return s.record("open session", thread(id), func(p *Placed) bool {
		if first == nil {
			first = p
		}
		t, err := agent.Load(&p.Record, p.seq, &first.Record)
		return err == nil && t.Status() == a2e.Running
	})
}

// reborn changes what a thread was born as.
func (s *small) reborn(id actor.ID, change func(*agent.Birth)) {
	s.Helper()
	p := s.record("birth", thread(id), func(*Placed) bool { return true })
	b := s.birth(*p)
	change(b)
	p.Delta = agent.Pack(b)
}

// TestInspectionSeesWhatIsWrong: records of a sound history are found sound, and each rule has a change to them
// that breaks it and is seen.
func TestInspectionSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := playSmall(t)
	if wrong := Inspect(s.Records); len(wrong) > 0 {
		t.Fatalf("the inspection finds fault with a history in which nothing went wrong:\n%s", wrong)
	}
	for _, rule := range rules(t) {
		if breaks[rule] == nil {
			t.Errorf("nothing shows that this rule can fail: %s", rule)
			continue
		}
		t.Run(strings.ReplaceAll(rule, " ", "_"), func(t *testing.T) {
			c := s.copy()
			c.T = t
			breaks[rule](c)
			if wrong := Inspect(c.Records); len(wrong[rule]) == 0 {
				t.Errorf("the inspection does not see it; it sees:\n%s", wrong)
			}
		})
	}
	if len(breaks) != len(rules(t)) {
		t.Errorf("%d rules are broken here, the inspection has %d", len(breaks), len(rules(t)))
	}
}

// rules finds the rules in the source.
func rules(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	spelled := regexp.MustCompile(`(?:violation\(|const readable = )"([^"]+)"`)
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range spelled.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") {
				all = append(all, m[1])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sent is the raw text of an answer.
func sent(m a2e.Message) string { return fmt.Sprintf("%+v", m) }
