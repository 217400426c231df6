package spec

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

const spawnReq = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/script"}}`

// TestCase8_Retry: the spawn's answer is lost or late and the caller retries with the same key → the same
// child; with another key → another child.
func TestCase8_Retry(t *testing.T) {
	t.Parallel()
	s := start(t)
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","id":%q,"agent":{"name":"n","model":"builtin/script"}}`
	if err := s.Conn.Publish(s.Names.A2E(me), []byte(fmt.Sprintf(spawn, "k1"))); err != nil { // nobody hears the answer
		t.Fatal(err)
	}
	ids := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			id := s.ask(me, spawn, "k1").text("subagent_id")
			mu.Lock()
			ids[id] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	first := s.ask(me, spawn, "k1").text("subagent_id")
	if !ids[first] || len(ids) != 1 || s.entries() != 1 {
		t.Errorf("22 tries with one key made %d children, answers named %v", s.entries(), ids)
	}
	if second := s.ask(me, spawn, "k2").text("subagent_id"); ids[second] {
		t.Errorf("another key gave the same child %s", second)
	}
	if other := s.ask("another", spawn, "k1").text("subagent_id"); ids[other] {
		t.Errorf("another caller's key gave the same child %s", other)
	}
	s.StopHost(t)
	s.StartHost(t)
	if again := s.ask(me, spawn, "k1").text("subagent_id"); again != first {
		t.Errorf("after a restart the key gives %s, want %s", again, first)
	}
	const work = `{"type":"SUBAGENT_DELEGATE_REQ","id":%q,"subagent_id":%q,"task":{"name":"t","instruction":%q}}`
	for range 3 {
		s.ask(me, work, "d1", first, "once").is("accepted", `true`)
		s.await(me, first).is("result", `{"output":"once"}`)
	}
	s.ask(me, work, "d2", first, "twice").is("accepted", `true`)
	s.refused("conflict", "id", me, work, "d2", first, "another")
	const note = `{"type":"SUBAGENT_MESSAGE_REQ","id":"m1","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":1}}`
	s.await(me, first)
	for range 3 {
		s.ask(me, note, first).is("delivered", `true`)
	}
	s.delegate(me, first, `[{"result":{"inbox":"$inbox"}}]`)
	if got := s.await(me, first); len(got.list("result.inbox")) != 1 {
		t.Errorf("three tries of one message were delivered as %s", got.raw)
	}
	s.settled(me)
	if n := s.mails(me, first); n != 3 {
		t.Errorf("%d sessions ended, want 3: a retry opened one, or was lost", n)
	}
}

// TestCase10_Race: cap 10, 9 live, 11 concurrent spawns → exactly one. Case 11: a configured cap of 10 → the
// 6th to 10th work.
func TestCase10_Race(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 10}}, nil)
	for i := range 9 {
		if got := s.ask(me, spawnReq); got.text("type") != "SUBAGENT_SPAWN_RESP" {
			t.Fatalf("spawn %d of 9 under a cap of 10: %s", i+1, got.raw)
		}
	}
	answers := make(chan string, 11)
	var wg sync.WaitGroup
	for range cap(answers) {
		wg.Go(func() {
			got := s.ask(me, spawnReq)
			if got.has("code") {
				answers <- got.text("code")
				return
			}
			answers <- got.text("status")
		})
	}
	wg.Wait()
	close(answers)
	count := map[string]int{}
	for a := range answers {
		count[a]++
	}
	if count["READY"] != 1 || count["quota_exceeded"] != 10 {
		t.Errorf("11 spawns with one place left were answered %v", count)
	}
	if n := s.entries(); n != 10 {
		t.Errorf("the registry has %d subagents, want 10", n)
	}
}

// TestCase11_Cap: a configured cap of 10 → the 6th to 10th work (no hidden constant).
func TestCase11_Cap(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 10}}, nil)
	for range 10 {
		s.delegate(me, s.spawn(me, `"model":"builtin/script"`), `[{"sleep_ms":3600000}]`)
	}
	s.refused("quota_exceeded", "", me, spawnReq)
	if n := len(s.ask(me, `{"type":"SUBAGENT_LIST_REQ","status":"RUNNING"}`).list("subagents")); n != 10 {
		t.Errorf("%d subagents run, want 10", n)
	}
}

// TestCase12_Finished: 14 finished children; the quota is of live ones → new spawns work.
func TestCase12_Finished(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 10}}, nil)
	s.completed(me, strings.Split(strings.Repeat("{} ", 14), " ")[:14]...)
	for range 10 {
		s.spawn(me, `"model":"m"`)
	}
	s.refused("quota_exceeded", "", me, spawnReq)
}

// TestCase13_Endings: failed children, cancelled children, children of a dead worker → every kind of ending
// leaves the live count.
func TestCase13_Endings(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 8}}, map[string]model.Model{"test/gate": g})
	script := func(member, script string) string {
		id := s.spawn(me, `"model":"builtin/script"`+member)
		s.delegate(me, id, script)
		return id
	}
	closed := []string{
		script("", `[{"result":{}}]`), script("", `[{"fail":"no"}]`), script("", `[{"panic":"no"}]`),
		script(`,"max_steps":1`, `[{"say":"x"},{"say":"y"}]`), script(`,"timeout_seconds":1`, `[{"sleep_ms":3600000}]`),
	}
	held, cancelled, terminated := s.spawn(me, `"model":"test/gate"`), script("", `[{"sleep_ms":3600000}]`), s.spawn(me, `"model":"m"`)
	s.delegate(me, held, "null")
	next(s, "the step", g.entered)
	s.StopHost(t) // its worker is gone in the middle of a step
	s.StartHost(t)
	next(s, "the step, on the worker that took over", g.entered)
	g.open <- struct{}{}
	s.cancel(me, cancelled)
	s.terminate(me, terminated)
	for _, id := range append(closed, held) {
		s.await(me, id)
	}
	for range 8 {
		s.spawn(me, `"model":"m"`)
	}
	s.refused("quota_exceeded", "", me, spawnReq)
}

// again is a script that has a child do what it was told to do itself, and waits for it.
const again = `[
	{"call":"subagent_spawn","arguments":{"agent":{"name":"self","model":"builtin/script","capabilities":["multi_agent"]}}},
	{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":"$task"}},
	{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}},
	{"result":{"spawned":"$results.0","below":"$results.2.result"}}]`

// TestCase15_OwnSlot: a parent's turn holds a slot that its own blocking child needs → it runs; at a cap of
// one, too.
func TestCase15_OwnSlot(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Running: 1, Limits: host.Limits{MaxLive: 3, MaxDepth: 3}}, nil)
	got := s.await(me, s.run(me, again))
	got.is("status", `"COMPLETED"`)
	got.is("result.below.below.spawned.code", `"depth_exceeded"`)
}

// TestCase16_Recursion: an agent re-delegates its own prompt to itself, 20 levels deep → stopped at the
// cap, and the cycle is named in the error.
func TestCase16_Recursion(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.run(me, again)
	got := s.await(me, id).at("result")
	chain := []string{me, id}
	for range 4 {
		chain = append(chain, got.text("spawned.subagent_id"))
		got = got.at("below")
	}
	got.is("spawned.code", `"depth_exceeded"`)
	if message := got.text("spawned.message"); !strings.Contains(message, strings.Join(chain, " > ")) {
		t.Errorf("the error %q does not name the chain %v", message, chain)
	}
	if n := s.entries(); n != 5 {
		t.Errorf("%d subagents were born, want 5", n)
	}
}

// TestCase17_DepthRemembered: a depth-2 child is resumed after a restart and spawns → its depth is
// remembered.
func TestCase17_DepthRemembered(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxDepth: 2}}, nil)
	a := s.spawn(me, `"model":"m"`)
	b := s.under(me, a, `"model":"m"`)
	s.StopHost(t)
	s.StartHost(t)
	s.refused("depth_exceeded", "", b, spawnReq)
	s.refused("depth_exceeded", "", me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":%q}`, b)
	s.ask(a, spawnReq).is("status", `"READY"`)
}
