package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// answers answers a request to a person.
func (s *stage) answers(request, content string) error {
	s.t.Helper()
	c, err := client.New(client.Config{Conn: s.Conn, Names: s.Names, Agent: me})
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Answer(s.ctx, request, json.RawMessage(content))
}

// asks waits until a thread waits for a person, and gives what it asks.
func (s *stage) asks(id string, session uint64) *agent.Awaiting {
	s.t.Helper()
	e := s.rests(id, session, agent.StatusAwaitingHuman)
	if e.Awaiting == nil {
		s.t.Fatalf("%s waits for a person, and does not say for what: %+v", id, e)
	}
	return e.Awaiting
}

// approval is an agent whose side B is a person: side A says what it was told, and after an answer that and no more.
func approval() (*mind, string) {
	m := thinks(func(r *model.Request) *model.Response {
		said := entriesOf(r.History, model.EntrySay)
		for _, e := range said {
			if e.Role == model.RoleUser && e.Session == r.Session { // the person's
				return does("finish", fmt.Sprintf(`{"result":{"person":%s}}`, e.Content))(r)
			}
		}
		m := entriesOf(r.History, model.EntryMessage)
		return says("may I do " + string(m[len(m)-1].Content))(r)
	})
	return m, `{"name":"approval",` + prompted("test/approval", `,"sessionStop":"finish"`) + `,"sideB":{"human":true}}`
}

// TestS1_4_3_Human: "A child whose current turn belongs to a human-backed side parks with registry status
// awaiting_human. The session resumes when human input arrives on that side's perspective". And decision 3:
// "awaiting_human is not a close", and of 18: "answering twice or late is a clear error."
func TestS1_4_3_Human(t *testing.T) {
	t.Parallel()
	m, definition := approval()
	boss := plans(plan{does("subagent_create", `{"agent":"approval","name":"gate","message":"it"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/approval": m}, definition, defined("boss", "test/boss", only(`{"agent":"approval","blocking":true}`)))
	id := s.instance("boss")
	w := s.watch(me)
	s.say(id, `"go"`)
	natstest.Await(t, "the child", func() bool { return len(s.children(id)) == 1 })
	c := string(s.child(id).SubagentID)
	ask := s.asks(c, 1)
	if ask.Question != `may I do "it"` || ask.Side != "b" || ask.Request != c+".1" || ask.Since == 0 {
		t.Errorf("the person is asked %+v", ask)
	}
	w.named(c, "awaiting_human").is("content.request", quote(ask.Request))
	if s.status(me, c) != "WAITING" || s.status(me, id) != "WAITING" || len(boss.shown(id)) != 1 {
		t.Errorf("the child is %s and its parent %s after %d steps; both have to wait", s.status(me, c), s.status(me, id), len(boss.shown(id)))
	}
	s.StopHost(t) // a person takes time
	s.StartHost(t)
	for _, bad := range []string{c + ".2", c + ".0", c + ".01", "sub_00000000.1", id + ".1", "nonsense"} {
		if err := s.answers(bad, `"yes"`); !errors.Is(err, actor.NotFound) {
			t.Errorf("an answer to %q, which nobody asked, gives %v", bad, err)
		}
	}
	if err := s.answers(ask.Request, `"yes"`); err != nil {
		t.Fatalf("the answer is refused: %v", err)
	}
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result.results.0.content.result", `{"person":"yes"}`)
	for _, again := range []string{`"yes"`, `"no"`} {
		if err := s.answers(ask.Request, again); !errors.Is(err, actor.Conflict) {
			t.Errorf("a second answer gives %v, want a conflict", err)
		}
	}
	if e := s.entry(c); e.Session != 1 || e.Awaiting != nil {
		t.Errorf("a late answer did something: %+v", e)
	}
	s.noDeadLetters()
}

// TestS1Decision18_UnPark: "A parent's message to a child whose side B is human un-parks it: side A acts; metadata tells
// them apart. A person's answer is bound to the request it answers".
func TestS1Decision18_UnPark(t *testing.T) {
	t.Parallel()
	m, definition := approval()
	boss := plans(plan{does("subagent_create", `{"agent":"approval","name":"gate","message":"one"}`)}, plan{refers(0, "subagent_message", `{"reference":%q,"message":"two"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/approval": m}, definition, defined("boss", "test/boss", only(`{"agent":"approval"}`)))
	id, _ := s.runs("boss")
	c := string(s.child(id).SubagentID)
	first := s.asks(c, 1)
	s.session(id, 2, `"again"`)
	natstest.Await(t, "another question", func() bool {
		e := s.entry(c)
		return e.Awaiting != nil && e.Awaiting.Request != first.Request
	})
	second := s.asks(c, 1)
	if second.Question != `may I do "two"` {
		t.Errorf("after the parent's message the person is asked %+v", second)
	}
	if err := s.answers(first.Request, `"yes to one"`); !errors.Is(err, actor.Conflict) {
		t.Errorf("an answer to the request that was withdrawn gives %v, want a conflict", err)
	}
	if err := s.answers(second.Request, `"yes to two"`); err != nil {
		t.Fatal(err)
	}
	s.rests(c, 1, agent.StatusIdle)
	s.await(me, c).is("result.person", `"yes to two"`)
	shown := m.shown(c)
	last := shown[len(shown)-1].History
	parents := entriesOf(last, model.EntryMessage)
	if len(parents) != 2 || string(parents[1].From) != id || !strings.Contains(string(parents[1].Metadata), `"forwarded_from":"`+id+`"`) {
		t.Errorf("the parent's message is shown as\n%s", tellHistory(last))
	}
	for _, e := range entriesOf(last, model.EntrySay) {
		if e.Role == model.RoleUser && !strings.Contains(string(e.Metadata), second.Request) {
			t.Errorf("the person's answer is shown as\n%s", tellHistory([]model.Entry{e}))
		}
	}
}

// TestS1Decision18_SideA: "A human side A parks at once."
func TestS1Decision18_SideA(t *testing.T) {
	t.Parallel()
	s := stageOf(t, nil, `{"name":"person","sideA":{"human":true}}`)
	id := s.instance("person")
	s.say(id, `"what is the code?"`)
	ask := s.asks(id, 1)
	if ask.Side != "a" || ask.Question != "what is the code?" {
		t.Errorf("the person is asked %+v", ask)
	}
	if e := s.entry(id); e.Step != 0 {
		t.Errorf("a step was taken before the person's turn: %+v", e)
	}
	if err := s.answers(ask.Request, `{"code":7}`); err != nil {
		t.Fatal(err)
	}
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result", `{"code":7}`)
}

// TestS1Decision18_Race: of several answers to one request at the same time one counts.
func TestS1Decision18_Race(t *testing.T) {
	t.Parallel()
	s := stageOf(t, nil, `{"name":"person","sideA":{"human":true}}`)
	id := s.instance("person")
	s.say(id, `"?"`)
	ask := s.asks(id, 1)
	var wg sync.WaitGroup
	taken := make(chan int, 10)
	for i := range 10 {
		wg.Go(func() {
			switch err := s.answers(ask.Request, fmt.Sprintf(`{"n":%d}`, i)); {
			case err == nil:
				taken <- i
			case !errors.Is(err, actor.Conflict):
				t.Errorf("an answer that came too late gives %v, want a conflict", err)
			}
		})
	}
	wg.Wait()
	if len(taken) != 1 {
		t.Fatalf("%d of 10 answers were taken", len(taken))
	}
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result", fmt.Sprintf(`{"n":%d}`, <-taken))
}

// TestCase24_OneOfThree: one of three children needs a person; the answer comes → only that one resumes; the others are
// neither re-run nor lost.
func TestCase24_OneOfThree(t *testing.T) {
	t.Parallel()
	m, definition := approval()
	g := newGate()
	boss := plans(plan{does(
		"subagent_create", `{"agent":"approval","name":"p","message":"it"}`,
		"subagent_create", `{"agent":"worker","name":"w","message":"quick"}`,
		"subagent_create", `{"agent":"slow","name":"s","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/approval": m, "test/gate": g}, worker, definition, defined("slow", "test/gate", ""),
		defined("boss", "test/boss", only(`{"agent":"approval","blocking":true}`, `{"agent":"worker","blocking":true}`, `{"agent":"slow","blocking":true}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	next(s, "the slow child's step", g.entered)
	natstest.Await(t, "three children, of which the quick one has ended", func() bool {
		all := s.children(id)
		done := 0
		for _, c := range all {
			if c.Relationship == "worker" && c.Status == agent.StatusIdle && c.Session == 1 {
				done++
			}
		}
		return len(all) == 3 && done == 1
	})
	var asking string
	for _, c := range s.children(id) {
		if c.Relationship == "approval" {
			asking = string(c.SubagentID)
		}
	}
	if err := s.answers(s.asks(asking, 1).Request, `"yes"`); err != nil {
		t.Fatal(err)
	}
	s.rests(asking, 1, agent.StatusIdle)
	if len(g.entered) > 0 || len(g.aborted) > 0 {
		t.Errorf("the answer to one child disturbed another")
	}
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	got := s.await(me, id)
	got.is("result.results.0.content.result", `{"person":"yes"}`)
	got.is("result.results.1.content.result", `{"output":"quick"}`)
	got.is("result.results.2.content.result", `{"output":"through the gate"}`)
	for _, c := range s.children(id) {
		if c.Session != 1 || c.Relationship != "approval" && c.Step != 1 {
			t.Errorf("%s took %d sessions and %d steps", c.Relationship, c.Session, c.Step)
		}
	}
}

// TestCase25_SevenQuestions: seven children ask at the same time → seven questions are listed.
func TestCase25_SevenQuestions(t *testing.T) {
	t.Parallel()
	m, definition := approval()
	var calls []string
	for i := range 7 {
		calls = append(calls, "subagent_create", fmt.Sprintf(`{"agent":"approval","name":"p%d","message":"no. %d"}`, i, i))
	}
	boss := plans(plan{does(calls...)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/approval": m}, definition, defined("boss", "test/boss", only(`{"agent":"approval","blocking":true}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	c, err := client.New(client.Config{Conn: s.Conn, Names: s.Names, Agent: me})
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]string{} // by request
	natstest.Await(t, "seven questions", func() bool {
		entries, err := c.Entries(s.ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Awaiting != nil {
				asked[e.Awaiting.Request] = e.Awaiting.Question
			}
		}
		return len(asked) == 7
	})
	for request, question := range asked { // each gets its own answer
		if err := s.answers(request, quote("yes to "+question)); err != nil {
			t.Error(err)
		}
	}
	s.rests(id, 1, agent.StatusIdle)
	for i, r := range s.await(me, id).list("result.results") {
		r.is("content.result.person", quote(fmt.Sprintf(`yes to may I do "no. %d"`, i)))
	}
}
