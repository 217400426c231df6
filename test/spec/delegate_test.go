package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// task is a delegate request with a script.
func task(id, script string) string {
	return fmt.Sprintf(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go","metadata":{"script":%s}}}`, id, script)
}

// TestS0_5_Delegate: "accepted when no session is open, so also after COMPLETED, FAILED or CANCELLED (a
// new session with history intact). While a session is open: accepted:false with the current status. To
// a TERMINATED one: accepted:false, status:TERMINATED. Unknown: error not_found."
func TestS0_5_Delegate(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	const refused = `{"type":"SUBAGENT_DELEGATE_RESP","accepted":false,"status":%q}`
	id := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"]`)
	s.delegate(me, id, `[{"say":"first"},{"result":{"n":1}}]`)
	s.await(me, id).is("result", `{"n":1}`)
	s.delegate(me, id, `[{"fail":"second"}]`)
	s.await(me, id).is("status", `"FAILED"`)
	s.delegate(me, id, `[{"sleep_ms":3600000}]`)
	s.ask(me, "%s", task(id, `[{"result":"never"}]`)).equals(fmt.Sprintf(refused, "RUNNING"))
	s.cancel(me, id).is("event", `"cancelled"`)
	s.await(me, id).is("status", `"CANCELLED"`)
	s.delegate(me, id, `[{"result":{"n":4}}]`)
	s.await(me, id).is("result", `{"n":4}`)
	child := s.spawn(me, `"model":"test/gate"`)
	s.delegate(me, child, "null")
	next(s, "the child's step", g.entered)
	s.ask(me, "%s", task(child, "null")).equals(fmt.Sprintf(refused, "RUNNING"))
	g.open <- struct{}{}
	s.await(me, child).is("status", `"COMPLETED"`)

	parent := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"test/gate"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"i"}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}}]`)
	s.eventually(me, parent, "WAITING")
	s.ask(me, "%s", task(parent, "null")).equals(fmt.Sprintf(refused, "WAITING"))
	close(g.open)
	s.await(me, parent).is("status", `"COMPLETED"`)

	s.terminate(me, id)
	s.ask(me, "%s", task(id, "null")).equals(fmt.Sprintf(refused, "TERMINATED"))
	s.refused("not_found", "", me, "%s", task("sub_00000000", "null"))
	s.settled(me)
	if n := s.mails(me, id); n != 3 { // the cancelled session sends no completion
		t.Errorf("%d completions of %s are in the mail, want those of sessions 1, 2 and 4", n, id)
	}
	s.mail(me, id, "4").is("result", `{"n":4}`)
}

// TestS0_5_OneTick: "Two delegates in one tick: exactly one is accepted."
func TestS0_5_OneTick(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 5 {
		id := s.spawn(me, `"model":"builtin/script"`)
		answers := make(chan string, 20)
		var wg sync.WaitGroup
		for i := range cap(answers) {
			wg.Go(func() {
				answers <- s.ask(me, "%s", task(id, fmt.Sprintf(`[{"sleep_ms":50},{"result":{"task":%d}}]`, i))).text("accepted")
			})
		}
		wg.Wait()
		close(answers)
		accepted := 0
		for a := range answers {
			if a == "true" {
				accepted++
			}
		}
		if accepted != 1 {
			t.Errorf("%d of 20 delegates to one subagent were accepted, want exactly 1", accepted)
		}
		s.await(me, id).is("status", `"COMPLETED"`)
		natstest.Await(t, "the completion of the one accepted task", func() bool { return s.mails(me, id) > 0 })
		s.settled(me)
		if n := s.mails(me, id); n != 1 {
			t.Errorf("the one accepted task has %d completions in the mail, want 1", n)
		}
	}
}

// TestS0_6_Await: "With no task ever given it answers at once with READY. Many waiters are allowed, all
// get the answer."
func TestS0_6_Await(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	id := s.spawn(me, `"model":"test/gate"`)
	s.await(me, id).equals(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"` + id + `","status":"READY","result":null,"error":null}`)
	s.delegate(me, id, "null")
	next(s, "the step", g.entered)
	const want = `"status":"COMPLETED","result":{"output":"through the gate"},"error":null}`
	answers := make(chan answer, 100)
	var wg sync.WaitGroup
	for i := range cap(answers) {
		wg.Go(func() {
			answers <- s.ask(me, `{"type":"SUBAGENT_AWAIT_REQ","id":"w%d","timeout_seconds":25,"subagent_id":%q}`, i, id)
		})
	}
	s.refused("timeout", "", me, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q,"timeout_seconds":0.2}`, id)
	if len(answers) > 0 {
		t.Errorf("an await of a running subagent was answered: %s", (<-answers).raw)
	}
	close(g.open)
	wg.Wait()
	close(answers)
	seen := map[string]bool{}
	for a := range answers {
		seen[a.text("req_id")] = true
		if !strings.HasSuffix(a.raw, want) {
			t.Errorf("a waiter got %s", a.raw)
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 waiters got an answer of their own", len(seen))
	}
	for range 2 {
		s.await(me, id).equals(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"` + id + `",` + want)
	}
}

// TestS0_6_Modes: "Optional extension fields: timeout_seconds, mode: any|all|quorum with subagent_ids and
// quorum."
func TestS0_6_Modes(t *testing.T) {
	t.Parallel()
	s := start(t)
	const sleeper = `[{"sleep_ms":3600000}]`
	a, b, c, bad := s.run(me, `[{"result":{"n":1}}]`), s.run(me, `[{"result":{"n":2}}]`), s.run(me, sleeper), s.run(me, `[{"fail":"no"}]`)
	ask := func(mode, rest string, ids ...string) answer {
		t.Helper()
		return s.ask(me, `{"type":"SUBAGENT_AWAIT_REQ","mode":%q,"subagent_ids":["%s"]%s}`, mode, strings.Join(ids, `","`), rest)
	}
	got := ask("any", "", c, b)
	got.is("status", `"COMPLETED"`)
	got.is("subagent_id", quote(b))
	got.is("results.0.result", `{"n":2}`)
	got = ask("all", "", a, b, a)
	got.is("status", `"COMPLETED"`)
	if n := len(got.list("results")); n != 2 {
		t.Errorf("all of two that are named three times has %d results: %s", n, got.raw)
	}
	got = ask("quorum", `,"quorum":2`, c, a, bad, b)
	got.is("status", `"COMPLETED"`)
	got = ask("quorum", `,"quorum":2`, bad, a)
	got.is("status", `"FAILED"`)
	if !strings.HasSuffix(got.text("error"), "of the 2 that were needed completed") {
		t.Errorf("a quorum that can't be reached is told as %s", got.raw)
	}
	ask("all", "", a, bad).is("status", `"FAILED"`)
	ask("any", "", bad, "sub_00000000").is("status", `"FAILED"`)
	s.refused("timeout", "", me, `{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":[%q,%q],"timeout_seconds":0.1}`, a, c)
	s.cancel(me, c)
	ask("all", "", a, c).is("status", `"FAILED"`)
}

// TestS0_6_Cycle: "Awaiting oneself or an ancestor: await_cycle, at once."
func TestS0_6_Cycle(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.spawn(me, `"model":"m"`)
	b := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"b","model":"m"},"parent_agent_id":%q}`, a).text("subagent_id")
	for _, pair := range [][2]string{{me, me}, {a, a}, {a, me}, {b, b}, {b, a}, {b, me}} {
		s.refused("await_cycle", "subagent_id", pair[0], `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, pair[1])
		s.refused("await_cycle", "subagent_id", pair[0], `{"type":"SUBAGENT_AWAIT_REQ","mode":"any","subagent_ids":["sub_00000000",%q]}`, pair[1])
	}
	s.ask(a, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, b).is("status", `"READY"`)
}

// TestS0_7_Failed: "FAILED answers set both error and result: {"error": …}; partial output, if any, is
// kept in result.partial."
func TestS0_7_Failed(t *testing.T) {
	t.Parallel()
	broken := modelFunc(nil)
	s := startWith(t, host.Config{}, map[string]model.Model{"test/broken": broken})
	const failed = `{"type":"SUBAGENT_AWAIT_RESP","subagent_id":%q,"status":"FAILED","result":{"error":%s},"error":%s}`
	for script, why := range map[string]string{
		`[{"fail":"no <ink> \u00e9"}]`: `"no <ink> é"`,
		`[{"panic":"out of paper"}]`:   `"panic: out of paper"`,
	} {
		id := s.run(me, script)
		s.await(me, id).same(fmt.Sprintf(failed, id, why, why))
	}
	id := s.run(me, `[{"say":"half a thought"},{"fail":"lost it"}]`)
	s.await(me, id).equals(fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":%q,"status":"FAILED",`+
		`"result":{"error":"lost it","partial":"half a thought"},"error":"lost it"}`, id))
	s.delegate(me, id, `[{"fail":"again"}]`)
	s.await(me, id).equals(fmt.Sprintf(failed, id, `"again"`, `"again"`)) // the partial output was another session's
	for _, m := range []string{"test/broken", "no/such/model"} {
		id = s.spawn(me, `"model":`+quote(m))
		s.delegate(me, id, "null")
		got := s.await(me, id)
		got.is("status", `"FAILED"`)
		got.is("result.error", got.at("error").raw)
		if got.text("error") == "" {
			t.Errorf("a failure says nothing: %s", got.raw)
		}
	}
	done := s.run(me, `[{"say":"x"},{"result":{"error":"only a word"}}]`)
	s.await(me, done).is("error", `null`)
}

// TestS0_6_LargeForMany: "Many waiters are allowed, all get the answer": also when it is 20 KB for each of
// 100.
func TestS0_6_LargeForMany(t *testing.T) {
	t.Parallel()
	g := newGate()
	want := `{"output":"` + strings.Repeat("z", 20<<10) + `"}`
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g, "test/large": modelFunc(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		if _, err := g.Step(ctx, r); err != nil {
			return nil, err
		}
		return &model.Response{Done: true, Result: json.RawMessage(want)}, nil
	})})
	id := s.spawn(me, `"model":"test/large"`)
	s.delegate(me, id, "null")
	next(s, "the step", g.entered)
	inbox := s.Conn.NewInbox()
	answers := make(chan []byte, 200)
	stop, err := s.Conn.Subscribe(inbox, func(_ string, data []byte) { answers <- data })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	const waiters = 100
	for i := range waiters {
		msg := nats.NewMsg(s.Names.A2E(me))
		msg.Reply, msg.Data = inbox, fmt.Appendf(nil, `{"type":"SUBAGENT_AWAIT_REQ","id":"w%d","subagent_id":%q}`, i, id)
		if err := s.Conn.NC.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	// The thread takes its queue in order, so that behind this answer all of them wait.
	s.ask(me, "%s", task(id, "null")).is("accepted", `false`)
	g.open <- struct{}{}
	for range waiters {
		if got := parse(t, string(next(s, "a waiter's answer", answers))); got.text("status") != "COMPLETED" || got.at("result").raw != want {
			t.Fatalf("a waiter got %.200s, want the result of %d bytes", got.raw, len(want))
		}
	}
	s.settled(me)
	if len(answers) > 0 {
		t.Errorf("%d answers more than there were waiters", len(answers))
	}
}
