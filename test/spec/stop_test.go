package spec

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS0_8_Cancel: "of READY → CANCELLED; of a closed one → no-op; of a running one → graceful: the step in
// flight is abandoned, no further step starts, what was committed stays."
func TestS0_8_Cancel(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	w := s.watch(me)
	ready := s.spawn(me, `"model":"m"`)
	s.cancel(me, ready).is("content", `{"status":"CANCELLED","changed":true}`)
	s.cancel(me, ready).is("content", `{"status":"CANCELLED","changed":false}`)
	s.await(me, ready).equals(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"` + ready + `","status":"CANCELLED","result":null,"error":null}`)

	for script, want := range map[string]string{`[{"result":{"n":1}}]`: "COMPLETED", `[{"fail":"no"}]`: "FAILED"} {
		closed := s.run(me, script)
		before := s.await(me, closed)
		s.cancel(me, closed).is("content", `{"status":"`+want+`","changed":false}`)
		s.await(me, closed).equals(before.raw)
	}

	running := s.spawn(me, `"model":"test/gate"`)
	s.delegate(me, running, "null")
	next(s, "the step", g.entered)
	waiter := make(chan answer, 1)
	go func() { waiter <- s.await(me, running) }()
	s.cancel(me, running).is("content.status", `"CANCELLED"`)
	if got := next(s, "the end of the model call", g.aborted); got != running {
		t.Errorf("the step of %s was abandoned, want that of %s", got, running)
	}
	next(s, "the waiter's answer", waiter).is("status", `"CANCELLED"`)

	said := s.run(me, `[{"say":"committed"},{"sleep_ms":3600000},{"result":{"never":true}}]`)
	w.until("its second step", said, func(e event) bool { return e.name == "step" && e.text("content.step") == "2" })
	s.cancel(me, said)
	s.delegate(me, said, `[{"result":"$results"}]`)
	s.await(me, said).is("status", `"COMPLETED"`)
	s.settled(me)
	for _, id := range []string{ready, running} {
		if n := s.mails(me, id); n > 0 {
			t.Errorf("a cancelled session sent %d completions", n)
		}
	}
	if n := s.mails(me, said); n != 1 {
		t.Errorf("%d completions of %s, want that of its second session only", n, said)
	}
	for _, e := range w.of(running) {
		if e.name == "step" && e.number("content.step") > 1 {
			t.Errorf("a step began after the cancel: %s", e.raw)
		}
	}
}

// TestS0_8_Terminate: "TERMINATE: any state → TERMINATED, late results discarded."
func TestS0_8_Terminate(t *testing.T) {
	t.Parallel()
	deaf := newGate() // its model does not heed the interruption
	s := startWith(t, host.Config{}, map[string]model.Model{"test/deaf": modelFunc(deaf.deaf)})
	w := s.watch(me)
	ready, running := s.spawn(me, `"model":"m"`), s.spawn(me, `"model":"test/deaf"`)
	completed, failed, cancelled := s.run(me, `[{"result":{"n":1}}]`), s.run(me, `[{"fail":"no"}]`), s.spawn(me, `"model":"m"`)
	waiting := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/script"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"i","metadata":{"script":[{"sleep_ms":3600000}]}}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}}]`)
	s.delegate(me, running, "null")
	next(s, "the step", deaf.entered)
	s.await(me, completed)
	s.await(me, failed)
	s.cancel(me, cancelled)
	s.eventually(me, waiting, "WAITING")
	waiter := make(chan answer, 1)
	go func() { waiter <- s.await(me, running) }()
	for _, id := range []string{ready, running, completed, failed, cancelled, waiting} {
		s.terminate(me, id).is("content", `{"status":"TERMINATED","changed":true}`)
		s.terminate(me, id).is("content", `{"status":"TERMINATED","changed":false}`)
		s.cancel(me, id).is("content", `{"status":"TERMINATED","changed":false}`)
		s.await(me, id).is("status", `"TERMINATED"`)
		if got := w.named(id, "terminated"); w.count(id, "terminated") != 1 {
			t.Errorf("%s was terminated %d times by its events: %s", id, w.count(id, "terminated"), got.raw)
		}
	}
	next(s, "the waiter's answer", waiter).is("status", `"TERMINATED"`)
	close(deaf.open)
	next(s, "the end of the model call", deaf.aborted)
	s.settled(me)
	s.await(me, running).is("status", `"TERMINATED"`)
	if got := s.await(me, running); got.has("result.output") {
		t.Errorf("a late result was taken: %s", got.raw)
	}
	if n := s.mails(me, running) + s.mails(me, waiting); n > 0 {
		t.Errorf("terminated sessions sent %d completions", n)
	}
	s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":1}}`, ready).
		equals(`{"type":"SUBAGENT_MESSAGE_RESP","delivered":false}`)
}

// TestS0_8_Descendants: "Both reach all descendants, however deep."
func TestS0_8_Descendants(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string]string{"CANCEL": "CANCELLED", "TERMINATE": "TERMINATED"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			s := startWith(t, host.Config{Limits: host.Limits{MaxDepth: 12}}, map[string]model.Model{"test/gate": g})
			chain := []string{me}
			for range 12 {
				parent := chain[len(chain)-1]
				chain = append(chain, s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"test/gate"},"parent_agent_id":%q}`, parent).text("subagent_id"))
			}
			bystander := s.spawn(me, `"model":"test/gate"`)
			s.delegate(me, bystander, "null")
			for _, id := range chain[4:] { // 1 to 3 are READY
				s.delegate(me, id, "null")
			}
			for range 10 {
				next(s, "a step", g.entered)
			}
			s.ask(me, `{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, chain[2])
			for range 9 {
				if id := next(s, "the end of a model call", g.aborted); id == bystander || id == chain[1] {
					t.Errorf("%s, which is not below the target, was stopped", id)
				}
			}
			for i, id := range chain[1:] {
				if i == 0 {
					s.await(me, id).is("status", `"READY"`)
				} else {
					s.await(me, id).is("status", quote(want))
				}
			}
			if got := s.status(me, bystander); got != "RUNNING" {
				t.Errorf("the bystander is %s", got)
			}
			close(g.open)
			s.await(me, bystander).is("status", `"COMPLETED"`)
		})
	}
}

// TestS0_9_Limits: "timeout_seconds ends as FAILED with stopReason: timeout; ≤ 0 is a schema violation;
// max_steps likewise (stopReason: max_steps)."
func TestS0_9_Limits(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	w := s.watch(me)
	slow := s.spawn(me, `"model":"test/gate","timeout_seconds":1`)
	asleep := s.spawn(me, `"model":"builtin/script","timeout_seconds":1`)
	steps := s.spawn(me, `"model":"builtin/script","max_steps":3`)
	enough := s.spawn(me, `"model":"builtin/script","max_steps":3`)
	s.delegate(me, slow, "null")
	s.delegate(me, asleep, `[{"say":"so far"},{"sleep_ms":3600000}]`)
	s.delegate(me, steps, `[{"say":"1"},{"say":"2"},{"say":"3"},{"result":{}}]`)
	s.delegate(me, enough, `[{"say":"1"},{"say":"2"},{"result":{"n":3}}]`)
	next(s, "the step", g.entered)

	got := s.await(me, steps)
	got.is("status", `"FAILED"`)
	got.is("result.partial", `"3"`)
	s.await(me, enough).is("result", `{"n":3}`)
	s.await(me, slow).is("status", `"FAILED"`)
	if got := next(s, "the end of the model call", g.aborted); got != slow {
		t.Errorf("the step of %s was abandoned, want that of %s", got, slow)
	}
	got = s.await(me, asleep)
	got.is("status", `"FAILED"`)
	got.is("result.partial", `"so far"`)
	for id, want := range map[string]string{slow: "timeout", asleep: "timeout", steps: "max_steps", enough: "stop"} {
		natstest.Await(t, "the mail of "+id, func() bool { return s.mails(me, id) == 1 })
		s.mail(me, id, "1").is("stopReason", quote(want))
		end := w.until("its end", id, func(e event) bool { return e.has("content.stopReason") && e.name == "status_changed" })
		end.is("content.stopReason", quote(want))
		if n := w.count(id, "timeout"); (n == 1) != (want == "timeout") {
			t.Errorf("%s, which stopped by %s, told of %d timeouts", id, want, n)
		}
	}
	s.delegate(me, asleep, `[{"result":{"n":2}}]`)
	s.await(me, asleep).is("result", `{"n":2}`)
	for _, field := range []string{"timeout_seconds", "max_steps"} {
		for _, n := range []int{0, -1} {
			s.refused("schema_violation", "agent."+field, me, "%s", spawnWith(fmt.Sprintf(`%q:%d`, field, n)))
		}
	}
}

// TestS0_9_Restart: "timeout_seconds counts from acceptance, survives a restart."
func TestS0_9_Restart(t *testing.T) {
	t.Parallel()
	s := start(t)
	early, late := s.spawn(me, `"model":"builtin/script","timeout_seconds":1`), s.spawn(me, `"model":"builtin/script","timeout_seconds":3`)
	sleeper := s.spawn(me, `"model":"builtin/script"`)
	s.delegate(me, early, `[{"sleep_ms":3600000}]`)
	s.delegate(me, late, `[{"sleep_ms":3600000}]`)
	s.delegate(me, sleeper, `[{"sleep_ms":1},{"sleep_ms":1500},{"result":{"slept":true}}]`)
	s.StopHost(t)
	s.StartHost(t)
	for _, id := range []string{early, late} {
		got := s.await(me, id)
		got.is("status", `"FAILED"`)
	}
	s.await(me, sleeper).is("result", `{"slept":true}`)
	s.settled(me)
	for _, id := range []string{early, late, sleeper} {
		if n := s.mails(me, id); n != 1 {
			t.Errorf("%d completions of %s, want 1", n, id)
		}
	}
	s.mail(me, early, "1").is("stopReason", `"timeout"`)
	s.mail(me, late, "1").is("error", `"not done within 3s"`)
}
