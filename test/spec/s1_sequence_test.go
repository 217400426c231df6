package spec

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS1SequenceTwoNotices: a child that completes, is messaged and completes again gives two notices.
func TestS1SequenceTwoNotices(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"w","message":"one"}`)})
	boss.act = func(inner func(*model.Request) *model.Response) func(*model.Request) *model.Response {
		return func(r *model.Request) *model.Response {
			c := entriesOf(r.History, model.EntryCompletion)
			m := entriesOf(r.History, model.EntryCall)
			if len(c) == 1 && len(m) == 1 { // after the first notice it is messaged
				return refers(0, "subagent_message", `{"reference":%q,"message":"two"}`)(r)
			}
			return inner(r)
		}
	}(boss.act)
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	s.hears(boss, id, 2)
	s.settled(me)
	got := s.hears(boss, id, 2) // and no third
	for i, want := range []string{"one", "two"} {
		if len(got) != 2 || !strings.HasSuffix(text(got[i]), "\n\n"+want) {
			t.Fatalf("the parent was given the notices\n%s want two, the %d-th of %s", tellHistory(got), i+1, want)
		}
	}
}

// TestCase22_Asks: a blocking child asks its parent a question → delivered and answered, never a silent wait. And decision
// 21: "the question is delivered to the owning side and the child parks; the parent, even while it blocks on that child,
// is woken to answer it."
func TestCase22_Asks(t *testing.T) {
	t.Parallel()
	child := plans(plan{does("ask", `{"question":"which one?"}`, "ask", `{}`)})
	boss := plans(plan{
		does("subagent_create", `{"agent":"child","name":"c","message":"m"}`),
		refers(0, "subagent_message", `{"reference":%q,"message":"the second"}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/child": child}, defined("child", "test/child", `,"askParent":"ask"`),
		defined("boss", "test/boss", only(`{"agent":"child","blocking":true}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	c := s.hears(boss, id, 1)
	shown := boss.shown(id)
	asked := results(&shown[1])
	if len(asked) != 1 || !strings.Contains(string(asked[0].Content), `"which one?"`) || !strings.Contains(string(asked[0].Content), `"asking"`) {
		t.Fatalf("the waiting parent is told %s", tellHistory(asked))
	}
	if len(c) != 1 || !strings.Contains(text(c[0]), `"the second"`) {
		t.Errorf("the child's end is told as %s", tellHistory(c))
	}
	s.await(me, string(s.child(id).SubagentID)).is("result.results.1.content.code", `"schema_violation"`)
	s.noDeadLetters()
}

// TestCase22_Outside: a question to an owner outside is in its mail, and a message answers it.
func TestCase22_Outside(t *testing.T) {
	t.Parallel()
	child := plans(plan{does("ask", `{"question":"which one?"}`)})
	s := stageOf(t, map[string]model.Model{"test/child": child}, defined("child", "test/child", `,"askParent":"ask"`))
	id := s.instance("child")
	s.say(id, `"go"`)
	natstest.Await(t, "the question in the mail", func() bool { return s.mails(me, id) == 1 })
	s.eventually(me, id, "WAITING")
	s.say(id, `"this one"`)
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result.results.0.content", `"this one"`)
}

// TestS1SequenceDepth: a depth-2 child revived after a restart still knows its depth, and makes no child below the limit.
func TestS1SequenceDepth(t *testing.T) {
	t.Parallel()
	const create = `{"agent":"deep","name":"d"}`
	deep := plans(plan{does("subagent_create", create)}, plan{does("subagent_create", create)})
	s := stageWith(t, host.Config{Limits: host.Limits{MaxDepth: 3}}, map[string]model.Model{"test/deep": deep},
		defined("deep", "test/deep", only(`{"agent":"deep","parentCommunication":"explicit"}`)))
	id, _ := s.runs("deep")
	two := string(s.child(id).SubagentID)
	if e := s.entry(two); e.Depth != 2 || e.Session != 0 {
		t.Fatalf("the child is %+v, want depth 2 and no session", e)
	}
	s.StopHost(t)
	s.StartHost(t)
	s.session(two, 1, `"go"`)[0].is("error", `false`)
	three := string(s.child(two).SubagentID)
	if e := s.entry(three); e.Depth != 3 || string(e.ParentAgentID) != two || e.RootAgentID != me {
		t.Errorf("the revived child made %+v, want one at depth 3 below %s", e, two)
	}
	s.KillHost(t)
	s.StartHost(t)
	got := s.session(three, 1, `"go"`)[0]
	got.is("content.code", `"depth_exceeded"`)
	if why := got.text("content.message"); !strings.Contains(why, strings.Join([]string{me, id, two, three}, " > ")) {
		t.Errorf("the error does not name the chain: %s", why)
	}
	if n := len(s.children(three)); n > 0 {
		t.Errorf("%d children stand below the limit", n)
	}
}

// TestCase14_Quota: finished children free their places in the quota: the quota is of live ones. A failed and a finished
// child count for maxInstances all the same.
func TestCase14_Quota(t *testing.T) {
	t.Parallel()
	create := func(agent string) string { return fmt.Sprintf(`{"agent":%q,"name":"n","message":"m"}`, agent) }
	var all []string
	for range 14 {
		all = append(all, "subagent_create", create("many"))
	}
	boss := plans(
		plan{does("subagent_create", create("fails")), does("subagent_create", create("worker"))},
		plan{does("subagent_create", create("fails")), does("subagent_create", create("worker")),
			does(all[:6]...), does(all[6:12]...), does(all[12:18]...), does(all[18:24]...), does(all[24:28]...)},
	)
	quiet := func(agent, more string) string {
		return `{"agent":"` + agent + `","parentCommunication":"explicit"` + more + `}`
	}
	s := stageWith(t, host.Config{Limits: host.Limits{MaxLive: 4}}, map[string]model.Model{"test/boss": boss}, worker,
		`{"name":"fails","sideA":{"prompt":`+plays(`[{"fail":"no luck"}]`)+`}}`,
		defined("boss", "test/boss", only(quiet("worker", `,"maxInstances":1`), quiet("fails", `,"maxInstances":1`), quiet("worker", `,"as":"many","blocking":true`))))
	id, got := s.runs("boss")
	for _, r := range got {
		r.is("error", `false`)
	}
	for _, c := range s.children(id) {
		natstest.Await(t, "the end of "+c.Relationship, func() bool {
			e := s.entry(string(c.SubagentID))
			return e.Session == 1 && e.Status != agent.StatusRunning
		})
	}
	got = s.session(id, 2, `"again"`)
	for i, r := range got {
		if i < 2 {
			r.is("content.code", `"max_instances"`)
		} else { // three at a time, with the parent itself as the fourth: 14 in all
			r.is("error", `false`)
		}
	}
	if n := len(s.children(id)); n != 16 {
		t.Errorf("there are %d children, want 2 and 14", n)
	}
}

// TestS1SequenceQuotaFull: live ones do fill the quota, and one that is refused leaves nothing behind.
func TestS1SequenceQuotaFull(t *testing.T) {
	t.Parallel()
	g := newGate()
	const create = `{"agent":"slow","name":"n","message":"m"}`
	boss := plans(plan{does("subagent_create", create), does("subagent_create", create), does("subagent_create", create)})
	s := stageWith(t, host.Config{Limits: host.Limits{MaxLive: 3}}, map[string]model.Model{"test/boss": boss, "test/gate": g}, defined("slow", "test/gate", ""),
		defined("boss", "test/boss", only(`{"agent":"slow","parentCommunication":"explicit"}`)))
	id, got := s.runs("boss")
	got[1].is("error", `false`)
	got[2].is("content.code", `"quota_exceeded"`)
	if n := len(s.children(id)); n != 2 {
		t.Errorf("there are %d children, want 2", n)
	}
	close(g.open)
}

// TestCase37_Evicted: an evicted (idle) parent → its children stay registered and reachable.
func TestCase37_Evicted(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"w","message":"one"}`)},
		plan{does("subagents", `{}`), refers(0, "subagent_message", `{"reference":%q,"message":"two"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker","parentCommunication":"explicit"}`)))
	id, _ := s.runs("boss")
	c := string(s.child(id).SubagentID)
	s.rests(c, 1, agent.StatusIdle)
	s.StopHost(t) // nothing of them is in any memory
	s.StartHost(t)
	got := s.session(id, 2, `"again"`)
	got[0].is("content.0.reference", quote(s.entry(c).Reference))
	got[1].is("error", `false`)
	s.rests(c, 2, agent.StatusIdle)
	s.await(me, c).is("result", `{"output":"two"}`)
}

// TestCase37_Woken: the completion of a child wakes a parent that was evicted.
func TestCase37_Woken(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"w"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker"}`)))
	id, _ := s.runs("boss")
	c := s.child(id)
	s.StopHost(t)
	s.StartHost(t)
	s.say(string(c.SubagentID), `"hello"`)
	got := s.hears(boss, id, 1)
	if len(got) != 1 || got[0].From != c.SubagentID || s.rests(id, 2, agent.StatusIdle).Session != 2 {
		t.Errorf("the parent was told\n%s", tellHistory(got))
	}
}

// TestS1SequenceOtherHost: parents whose host dies while they wait for a blocking child get the answer on another host,
// each once.
func TestS1SequenceOtherHost(t *testing.T) {
	t.Parallel()
	const parents = 8
	g := newGate()
	boss := plans(plan{does("subagent_create", `{"agent":"slow","name":"s","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/gate": g}, defined("slow", "test/gate", ""),
		defined("boss", "test/boss", only(`{"agent":"slow","blocking":true}`)))
	s.JoinHost(t, "another")
	var ids []string
	for range parents {
		id := s.instance("boss")
		ids = append(ids, id)
		s.say(id, `"go"`)
	}
	for range parents {
		next(s, "a child's step", g.entered)
	}
	for _, id := range ids {
		s.eventually(me, id, "WAITING")
	}
	s.KillHost(t)
	close(g.open)
	for _, id := range ids {
		s.rests(id, 1, agent.StatusIdle)
		got := s.await(me, id)
		got.is("result.results.0.content.result", `{"output":"through the gate"}`)
		if n := len(got.list("result.results")); n != 1 {
			t.Errorf("%s has %d results of one call", id, n)
		}
		if c := s.child(id); c.Session != 1 || c.Status != agent.StatusIdle {
			t.Errorf("the child of %s is %+v", id, c)
		}
	}
	for _, id := range ids {
		natstest.Await(t, "a completion in the mail", func() bool { return s.mails(me, id) > 0 })
	}
	s.settled(me)
	for _, id := range ids {
		if e := s.entry(id); e.Session != 1 || s.mails(me, id) != 1 {
			t.Errorf("%s is in session %d and its owner has %d messages of it; want one each", id, e.Session, s.mails(me, id))
		}
	}
	s.noDeadLetters()
}

// TestS1SequenceCancelled: what a child had sent when its parent was cancelled goes into the history, and opens no
// session: the parent stays cancelled. A message wakes it later.
func TestS1SequenceCancelled(t *testing.T) {
	t.Parallel()
	var done sync.Map // channels, by child
	entered, busy := make(chan string, 100), newGate()
	slow := modelFunc(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		open, _ := done.LoadOrStore(string(r.Thread), make(chan struct{}))
		entered <- string(r.Thread)
		select {
		case <-open.(chan struct{}):
			return says("done")(r), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	boss := thinks(func(r *model.Request) *model.Response {
		switch {
		case r.Session > 1:
			return ended(r)
		case r.Step == 1:
			return does("subagent_create", `{"agent":"slow","name":"s","message":"m"}`)(r)
		}
		busy.entered <- string(r.Thread)
		<-busy.open
		return ended(r)
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/slow": slow}, defined("slow", "test/slow", ""),
		defined("boss", "test/boss", only(`{"agent":"slow"}`)))
	var ids []string
	for range 20 {
		id := s.instance("boss")
		ids = append(ids, id)
		s.say(id, `"go"`)
		open, _ := done.Load(next(s, "the child's step", entered))
		next(s, "the parent's second step", busy.entered)
		close(open.(chan struct{})) // the child completes as its parent is cancelled
		s.cancel(me, id).is("event", `"cancelled"`)
	}
	close(busy.open)
	s.settled(me)
	for _, id := range ids {
		if e := s.entry(id); e.Session != 1 || e.StopReason != agent.StopCancelled {
			t.Errorf("the cancelled parent is in session %d, which ended for the reason %q", e.Session, e.StopReason)
		}
	}
	s.say(ids[0], `"wake up"`)
	s.rests(ids[0], 2, agent.StatusIdle)
}
