package spec

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// breeder is a script that has two children do what it does itself, again and again, for a long time.
func breeder() string {
	const once = `{"call":"subagent_spawn","arguments":{"agent":{"name":"b","model":"builtin/script","capabilities":["multi_agent"],"max_steps":1000}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":"$task"}}`
	return "[" + once + strings.Repeat(","+once, 99) + `,{"sleep_ms":3600000}]`
}

// live lists the subagents of a tree that are not closed.
func (s *stage) live(root string) (found []string) {
	s.t.Helper()
	cursor := ""
	for {
		list := s.ask(root, `{"type":"SUBAGENT_LIST_REQ","status":["READY","RUNNING","WAITING"]%s}`, cursor)
		for _, one := range list.list("subagents") {
			found = append(found, one.text("subagent_id")+" "+one.text("status"))
		}
		if !list.has("cursor") {
			return found
		}
		cursor = `,"cursor":` + list.at("cursor").raw
	}
}

// TestCase19_NoSurvivor: the root is cancelled while descendants keep spawning → no survivor.
func TestCase19_NoSurvivor(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"CANCEL", "TERMINATE"} {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprint(verb, " ", whole), func(t *testing.T) {
				t.Parallel()
				s := startWith(t, host.Config{Limits: host.Limits{MaxDepth: 8, MaxLive: 400}}, nil)
				top := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"],"max_steps":1000`)
				s.delegate(me, top, breeder())
				natstest.Await(t, "60 live descendants", func() bool { return len(s.live(me)) >= 60 })
				target := top
				if whole {
					target = me
				}
				s.ask(me, `{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, target).is("type", `"SUBAGENT_EVENT"`)
				s.barren(top)
			})
		}
	}
}

// barren checks that nothing below me lives or is born any more, but for the fences of the check itself.
func (s *stage) barren(top string) {
	s.t.Helper()
	born := s.entries()
	for i := range 3 {
		if left := s.live(me); len(left) > 0 {
			s.t.Fatalf("%d of %d survive the cascade, seen %d fences after it:\n%s", len(left), born, i, strings.Join(left, "\n"))
		}
		s.settled(me) // a child's whole life later
	}
	if n := s.entries() - 3; n != born {
		s.t.Errorf("%d subagents were born after the cascade was over", n-born)
	}
	if n := s.mails(me, top); n > 0 {
		s.t.Errorf("the session that was stopped sent %d completions", n)
	}
	s.noDeadLetters()
}

// TestCase18_Interrupted: a parent is interrupted while a child sits in a model call → the call is aborted,
// no further step starts, also in children still starting.
func TestCase18_Interrupted(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/gate": g, "test/boss": boss{children: many(20, `{"name":"c","model":"test/gate"}`)},
	})
	w := s.watch(me)
	id := s.runBoss()
	first := next(s, "the first child's step", g.entered) // others are still starting
	s.cancel(me, id).is("content.status", `"CANCELLED"`)
	natstest.Await(t, "the end of every model call", func() bool { return len(g.aborted) == len(g.entered)+1 })
	var aborted []string
	for len(g.aborted) > 0 {
		child := <-g.aborted
		s.await(me, child).is("status", `"CANCELLED"`)
		natstest.Await(t, "the event of "+child+"'s step", func() bool { return w.count(child, "step") > 0 })
		aborted = append(aborted, child)
	}
	s.await(me, first).is("status", `"CANCELLED"`)
	began := len(g.entered)
	if left := s.live(me); len(left) > 0 {
		t.Errorf("these survive: %v", left)
	}
	s.settled(me)
	for _, child := range aborted {
		if n := w.count(child, "step"); n != 1 {
			t.Errorf("%s took %d steps, want 1", child, n)
		}
	}
	if left := s.live(me); len(left) > 0 || len(g.entered) > began {
		t.Errorf("these live after the cancel: %v, and %d steps began", left, len(g.entered)-began)
	}
}

// TestCase20_Race: a cancel races a completion → one outcome, everywhere the same; the first terminal word
// wins.
func TestCase20_Race(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 1000}}, nil)
	w := s.watch(me)
	type outcome struct{ id, cancel, await string }
	var mu sync.Mutex
	var all []outcome
	var wg sync.WaitGroup
	for i := range 80 {
		verb := []string{"CANCEL", "TERMINATE"}[i%2]
		wg.Go(func() {
			id := s.spawn(me, `"model":"builtin/script"`)
			s.delegate(me, id, fmt.Sprintf(`[{"progress":"x"},{"sleep_ms":%d},{"result":{"n":1}}]`, i%4))
			got := s.ask(me, `{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, id)
			o := outcome{id, got.text("content.status"), s.await(me, id).text("status")}
			mu.Lock()
			all = append(all, o)
			mu.Unlock()
		})
	}
	wg.Wait()
	s.settled(me)
	count := map[string]int{}
	for _, o := range all {
		count[o.await]++
		w.until("its end", o.id, func(e event) bool { return e.has("content.stopReason") })
		mails, completed, cancelled := s.mails(me, o.id), 0, 0
		for _, e := range w.of(o.id) {
			switch {
			case e.name == "status_changed" && e.text("content.status") == "COMPLETED":
				completed++
			case e.name == "cancelled" || e.name == "terminated":
				cancelled++
			}
		}
		ok := o.cancel == o.await && s.status(me, o.id) == o.await
		switch o.await {
		case "COMPLETED":
			ok = ok && mails == 1 && completed == 1 && cancelled == 0
		case "CANCELLED":
			ok = ok && mails == 0 && completed == 0 && cancelled == 1
		case "TERMINATED": // it may have completed before
			ok = ok && int(mails) == completed && cancelled == 1
		default:
			ok = false
		}
		if !ok {
			t.Errorf("%+v, LIST says %s, %d completions in the mail, events:\n%s", o, s.status(me, o.id), mails, w.tell(o.id))
		}
	}
	t.Logf("outcomes: %v", count)
}

// TestCase21_StaysTerminated: terminate, then a restart → it stays terminated.
func TestCase21_StaysTerminated(t *testing.T) {
	t.Parallel()
	s := start(t)
	top := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/script"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"i","metadata":{"script":[{"sleep_ms":300},{"result":{}}]}}}},
		{"sleep_ms":300},{"result":{}}]`)
	natstest.Await(t, "two subagents at work", func() bool {
		return len(s.ask(me, `{"type":"SUBAGENT_LIST_REQ","status":"RUNNING"}`).list("subagents")) == 2
	})
	s.StopHost(t)
	// The worker is unreachable: the request is answered by nobody, and waits in no queue.
	if err := s.Conn.Publish(s.Names.A2E(me), []byte(fmt.Sprintf(`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, top))); err != nil {
		t.Fatal(err)
	}
	s.StartHost(t)
	s.terminate(me, top).is("content.status", `"TERMINATED"`)
	s.StopHost(t)
	s.StartHost(t)
	s.settled(me)
	for _, one := range s.ask(me, `{"type":"SUBAGENT_LIST_REQ","parent_agent_id":%q}`, top).list("subagents") {
		one.is("status", `"TERMINATED"`)
	}
	s.await(me, top).is("status", `"TERMINATED"`)
	if n := s.mails(me, top); n > 0 {
		t.Errorf("a terminated session sent %d completions", n)
	}
}

// TestCase23_Cycle: A waits for B and B for A → found at once, both told.
func TestCase23_Cycle(t *testing.T) {
	t.Parallel()
	s := start(t)
	began := time.Now()
	a := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"b","model":"builtin/script","capabilities":["multi_agent"]}}},
		{"call":"subagent_list"},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"i",
			"metadata":{"boss":"$results.1.subagents.0.parent_agent_id","script":[
				{"call":"subagent_await","arguments":{"subagent_id":"$$task.metadata.boss"}},
				{"call":"subagent_await","arguments":{"mode":"all","subagent_ids":["$$task.metadata.boss"]}},
				{"result":"$$results"}]}}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}}]`)
	got := s.await(me, a)
	got.is("status", `"COMPLETED"`)
	got.is("result.status", `"COMPLETED"`)
	for i := range 2 {
		got.is(fmt.Sprintf("result.result.output.%d.code", i), `"await_cycle"`)
		got.is(fmt.Sprintf("result.result.output.%d.detail.id", i), quote(a))
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("the cycle was found after %v, want at once", d)
	}
	// Two siblings do not see each other at all.
	b := s.spawn(me, `"model":"m"`)
	s.refused("not_found", "", a, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, b)
	s.refused("not_found", "", b, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, a)
}

// TestCascade_AfterCancel: a thread that was cancelled may be given work again, in its own name and in
// that of whoever acts for it, and so may its children.
func TestCascade_AfterCancel(t *testing.T) {
	t.Parallel()
	s := start(t)
	parent := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/script"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"i","metadata":{"script":[{"sleep_ms":3600000}]}}}},
		{"sleep_ms":3600000}]`)
	natstest.Await(t, "two subagents at work", func() bool {
		return len(s.ask(me, `{"type":"SUBAGENT_LIST_REQ","status":"RUNNING"}`).list("subagents")) == 2
	})
	child := s.ask(parent, `{"type":"SUBAGENT_LIST_REQ"}`).text("subagents.0.subagent_id")
	s.cancel(me, parent)
	s.await(me, child).is("status", `"CANCELLED"`)
	s.delegate(me, child, `[{"result":{"by":"the root"}}]`)
	s.await(me, child).is("result", `{"by":"the root"}`)
	s.delegate(parent, child, `[{"result":{"by":"a program in the parent's name"}}]`)
	s.await(parent, child).is("result", `{"by":"a program in the parent's name"}`)
	s.delegate(me, parent, `[{"call":"subagent_list"},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagents.0.subagent_id","task":{"name":"t","instruction":"the parent"}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagents.0.subagent_id"}}]`)
	s.await(me, parent).is("result.result", `{"output":"the parent"}`)
	s.spawn(parent, `"model":"m"`)
}
