package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestCase1_BusyParent and case 6: 50 children end at the same moment while their parent is busy with
// something else → all arrive, once each, in one ordered batch and not in 50 model turns.
func TestCase1_BusyParent(t *testing.T) {
	t.Parallel()
	const n = 50
	g, busy := newGate(), newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/gate": g, "test/boss": boss{children: many(n, `{"name":"c","model":"test/gate"}`), busy: busy},
	})
	w := s.watch(me)
	id := s.runBoss()
	next(s, "the parent's busy step", busy.entered)
	for range n {
		next(s, "a child's step", g.entered)
	}
	close(g.open)
	w.until("50 completions", id, func(event) bool { return w.count(id, "message_received") == n })
	close(busy.open)
	all, steps := s.shownTo(id)
	s.onceEach(all, n)
	for _, e := range all {
		if e.Step != 4 {
			t.Errorf("the completion of %s was shown in step %d, want all in step 4", e.From, e.Step)
		}
		if !strings.Contains(string(e.Content), `"text":"Subagent (reference: `) || !strings.Contains(string(e.Content), "through the gate") {
			t.Errorf("the completion of %s reads %s", e.From, e.Content)
		}
	}
	if steps != 4 {
		t.Errorf("the parent took %d steps, want 4", steps)
	}
	s.settled(me)
	if n := s.mails(me, id); n != 1 {
		t.Errorf("the parent's own owner has %d completions, want 1", n)
	}
}

// TestCase1_Script: the same told as a script, with a parent that sleeps.
func TestCase1_Script(t *testing.T) {
	t.Parallel()
	s := start(t)
	var calls, works []string
	for i := range 19 {
		calls = append(calls, `{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/script"}}}`)
		works = append(works, fmt.Sprintf(`{"call":"subagent_delegate","arguments":{"subagent_id":"$results.%d.subagent_id","task":{"name":"t","instruction":"i","metadata":{"script":[{"sleep_ms":100},{"result":{"n":%d}}]}}}}`, i, i))
	}
	id := s.run(me, fmt.Sprintf(`[{"calls":[%s]},{"calls":[%s]},{"sleep_ms":2000},{"result":"$inbox"}]`, strings.Join(calls, ","), strings.Join(works, ",")))
	got := s.await(me, id)
	seen := map[string]bool{}
	for _, one := range got.list("result.output") {
		one.is("type", `"completion"`)
		one.is("content.status", `"COMPLETED"`)
		seen[one.text("content.result.n")] = true
	}
	if n := len(got.list("result.output")); n != 19 || len(seen) != 19 {
		t.Errorf("the parent was shown %d completions of %d children, want 19 of 19", n, len(seen))
	}
}

// TestCase2_OneATurn: 16 children are spawned one a turn; the fast ones finish while the fan-out still
// goes on → none is lost.
func TestCase2_OneATurn(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/boss": boss{children: many(16, `{"name":"c","model":"builtin/echo"}`), oneATurn: true},
	})
	all, _ := s.shownTo(s.runBoss())
	s.onceEach(all, 16)
}

// TestCase3_SilentChild and case 27: a child runs past its limit without having said a word → the parent
// gets a failure all the same, the run is never called completed, and the reason is in the record.
func TestCase3_SilentChild(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/boss": boss{children: []string{
		`{"name":"slow","model":"builtin/script","timeout_seconds":1,"metadata":{"script":[{"sleep_ms":3600000}]}}`,
		`{"name":"long","model":"builtin/script","max_steps":2,"metadata":{"script":[{"progress":"1"},{"progress":"2"},{"result":{}}]}}`,
	}}})
	id := s.runBoss()
	all, _ := s.shownTo(id)
	s.onceEach(all, 2)
	reasons := map[string]bool{}
	for _, e := range all {
		got := parse(t, string(e.Content))
		got.is("status", `"FAILED"`)
		if !e.IsError || !strings.Contains(got.text("text"), ") has failed with the following error:\n\nnot done ") {
			t.Errorf("a child that ran over its limit is told as %s", e.Content)
		}
		reasons[got.text("stopReason")] = true
		entry, err := s.Store.Registry.Get(s.ctx, me, parseID(id), e.From)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, string(entry.Data)).is("stopReason", quote(got.text("stopReason")))
		parse(t, string(entry.Data)).is("status", `"failed"`)
	}
	if !reasons["timeout"] || !reasons["max_steps"] {
		t.Errorf("the reasons are %v, want timeout and max_steps", reasons)
	}
	for _, one := range s.ask(me, `{"type":"SUBAGENT_LIST_REQ","parent_agent_id":%q}`, id).list("subagents") {
		one.is("status", `"FAILED"`)
	}
}

// TestCase5_OnceDelivered: a child ends while its parent is busy, then the parent gets another message →
// the completion is delivered once.
func TestCase5_OnceDelivered(t *testing.T) {
	t.Parallel()
	busy := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/boss": boss{children: many(1, `{"name":"c","model":"builtin/echo"}`), busy: busy},
	})
	w := s.watch(me)
	id := s.runBoss()
	next(s, "the parent's busy step", busy.entered)
	w.until("the completion", id, func(event) bool { return w.count(id, "message_received") == 1 })
	s.send(me, me, id, "note", `"another"`)
	close(busy.open)
	all, _ := s.shownTo(id)
	if len(all) != 2 || all[0].Kind != model.EntryCompletion || all[1].Kind != model.EntryMessage || string(all[1].Content) != `"another"` {
		t.Errorf("the parent was shown %+v, want the completion and then the message, once each", all)
	}
	s.delegate(me, id, "null") // a new session sees neither as new
	next(s, "the parent's busy step", busy.entered)
	all, _ = s.shownTo(id)
	if n := len(all); n != 3 {
		t.Errorf("the history of two sessions has %d completions and messages, want 3", n)
	}
}

// TestCase7_Panic: a child, or the spawning code itself, panics → the child is failed, the parent woken, the
// scheduler lives.
func TestCase7_Panic(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/nil": modelFunc(nil), // a nil pointer in the model's own code
		"test/boss": boss{children: []string{
			`{"name":"a","model":"builtin/script","metadata":{"script":[{"panic":"out of paper"}]}}`,
			`{"name":"b","model":"test/nil"}`,
			`{"name":"c","model":"builtin/echo"}`,
		}},
	})
	id := s.runBoss()
	all, _ := s.shownTo(id)
	s.onceEach(all, 3)
	failed := 0
	for _, e := range all {
		if e.IsError {
			failed++
			parse(t, string(e.Content)).is("stopReason", `"error"`)
		}
	}
	if failed != 2 {
		t.Errorf("%d of 3 children failed, want the two that panicked", failed)
	}
	spawner := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"m"}}},{"panic":"in the middle of it"}]`)
	s.await(me, spawner).is("error", `"panic: in the middle of it"`)
	natstest.Await(t, "the failure in the owner's mail", func() bool { return s.mails(me, spawner) == 1 })
	s.delegate(me, spawner, `[{"result":{"alive":true}}]`)
	s.await(me, spawner).is("result", `{"alive":true}`)
	s.settled(me)
}

// TestCase34_Order: B is sent after A to a busy actor → never overtakes it; 25 messages at once keep their
// order.
func TestCase34_Order(t *testing.T) {
	t.Parallel()
	g := newGate()
	var seen []string
	s := startWith(t, host.Config{}, map[string]model.Model{"test/two": twoSteps(g, &seen)})
	w := s.watch(me)
	id := s.spawn(me, `"model":"test/two"`)
	s.delegate(me, id, "null")
	next(s, "the first step", g.entered)
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("step 2 is shown %d", i))
		request := fmt.Sprintf(`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":%d}}`, id, i)
		if err := s.Conn.Publish(s.Names.A2E(me), []byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	w.until("25 messages", id, func(event) bool { return w.count(id, "message_received") == 25 })
	for i := range 25 {
		want = append(want, fmt.Sprintf(`step 2 is shown "raw %d"`, i))
		s.Conn.Send(s.Names.Inbox(parseID(id), "a", "me"), []byte(fmt.Sprintf(`{"content":"raw %d"}`, i)))
	}
	w.until("50 messages", id, func(event) bool { return w.count(id, "message_received") == 50 })
	close(g.open)
	s.await(me, id).is("status", `"COMPLETED"`)
	if got := strings.Join(seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the messages were shown in the order\n%s", got)
	}
}
