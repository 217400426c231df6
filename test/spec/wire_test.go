package spec

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

const defaultConfig = `{"name":"n","model":"builtin/echo","capabilities":[],"memory_scope":"shared","tool_scope":"restricted",` +
	`"max_steps":40,"timeout_seconds":600,"metadata":{}}`

// TestS0_1_Defaults: every default of the specification's tables, as the other side sees it.
func TestS0_1_Defaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/echo"}}`).text("subagent_id")
	list := s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`)
	list.equals(`{"type":"SUBAGENT_LIST_RESP","subagents":[{"subagent_id":"` + id + `","name":"n","status":"READY","parent_agent_id":"parent_1",` +
		`"root_agent_id":"parent_1","depth":1,"config":` + defaultConfig + `}]}`)
	null := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","role":null,"model":"builtin/echo","system_prompt":null,"capabilities":null,
		"memory_scope":null,"tool_scope":null,"max_steps":null,"timeout_seconds":null,"metadata":null},"parent_agent_id":null,"root_agent_id":null}`)
	null.is("status", `"READY"`)
	s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).is("subagents.1.config", defaultConfig)

	seen := s.spawn(me, `"model":"builtin/script","metadata":{"script":[{"result":"$task"}]}`)
	s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"i"}}`, seen).
		equals(`{"type":"SUBAGENT_DELEGATE_RESP","accepted":true,"status":"RUNNING"}`)
	s.await(me, seen).equals(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"` + seen + `","status":"COMPLETED",` +
		`"result":{"name":"t","instruction":"i","success_criteria":[],"metadata":{}},"error":null}`)
	s.await(me, id).equals(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"` + id + `","status":"READY","result":null,"error":null}`)
	s.ask(me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q]}`, seen).is("merged_result.strategy", `"hierarchical_summary"`)
	s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":null}}`, id).
		equals(`{"type":"SUBAGENT_MESSAGE_RESP","delivered":true}`)
}

// TestS0_1_FullConfig: what is not a default comes back as it was given.
func TestS0_1_FullConfig(t *testing.T) {
	t.Parallel()
	s := start(t)
	const config = `{"name":"n","role":"r","model":"builtin/echo","system_prompt":"p","capabilities":["tools","memory","multi_agent","x"],` +
		`"memory_scope":"snapshot","tool_scope":"isolated","max_steps":1,"timeout_seconds":2147483647,"metadata":{"a":{"z":1.50,"b":[null,"<&>\u2028"]},"é":1e2}}`
	s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":%s}`, config).is("status", `"READY"`)
	s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).is("subagents.0.config", config)
}

// TestS0_1_Enums: every value of the three enumerations is seen on the wire, and no other is taken.
func TestS0_1_Enums(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	for _, scope := range []string{"shared", "isolated", "snapshot"} {
		s.spawn(me, fmt.Sprintf(`"model":"m","memory_scope":%q`, scope))
	}
	for _, scope := range []string{"shared", "restricted", "isolated"} {
		s.spawn(me, fmt.Sprintf(`"model":"m","tool_scope":%q`, scope))
	}
	list := s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents")
	for i, scope := range []string{"shared", "isolated", "snapshot"} {
		list[i].is("config.memory_scope", quote(scope))
	}
	for i, scope := range []string{"shared", "restricted", "isolated"} {
		list[3+i].is("config.tool_scope", quote(scope))
	}
	for _, field := range []string{"memory_scope", "tool_scope"} {
		for _, bad := range []string{`"Shared"`, `"SHARED"`, `""`, `"global"`, `1`, `["shared"]`} {
			s.refused("schema_violation", "agent."+field, me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m",%q:%s}}`, field, bad)
		}
	}

	ready := list[0].text("subagent_id")
	running := s.spawn(me, `"model":"test/gate"`)
	s.delegate(me, running, "null")
	waiting := s.run(me, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"test/gate"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"i"}}},
		{"call":"subagent_list"},{"call":"subagent_await","arguments":{"subagent_id":"$last.subagents.0.subagent_id"}}]`)
	completed, failed := s.run(me, `[{"result":{}}]`), s.run(me, `[{"fail":"no"}]`)
	s.await(me, completed)
	s.await(me, failed)
	cancelled, terminated := list[1].text("subagent_id"), list[2].text("subagent_id")
	s.cancel(me, cancelled)
	s.terminate(me, terminated)
	next(s, "the running one's step", g.entered)
	next(s, "the step of the child that is waited for", g.entered)
	for id, want := range map[string]string{
		ready: "READY", running: "RUNNING", waiting: "WAITING", completed: "COMPLETED", failed: "FAILED", cancelled: "CANCELLED", terminated: "TERMINATED",
	} {
		s.eventually(me, id, want)
		found := s.ask(me, `{"type":"SUBAGENT_LIST_REQ","status":%q}`, want)
		if !strings.Contains(found.raw, id) {
			t.Errorf("LIST of status %s lacks %s: %s", want, id, found.raw)
		}
	}
	close(g.open)
}

// TestS0_2_Envelope: "A request with an id is answered with id, req_id, version, a2e, ts; one without is
// answered bare, as in the examples."
func TestS0_2_Envelope(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.spawn(me, `"model":"builtin/echo"`)
	requests := []string{
		`"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/echo"}`,
		`"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"` + id + `","task":{"name":"t","instruction":"i"}`,
		`"type":"SUBAGENT_AWAIT_REQ","subagent_id":"` + id + `"`,
		`"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":["` + id + `"]`,
		`"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"` + id + `","message":{"type":"t","content":1}`,
		`"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"parent_1","message":{"type":"t","content":1}`,
		`"type":"SUBAGENT_LIST_REQ"`,
		`"type":"SUBAGENT_MERGE_REQ","subagent_ids":["` + id + `"]`,
		`"type":"SUBAGENT_CANCEL_REQ","subagent_id":"` + id + `"`,
		`"type":"SUBAGENT_TERMINATE_REQ","subagent_id":"` + id + `"`,
		`"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000","task":{"name":"t","instruction":"i"}`,
		`"type":"SUBAGENT_CANCEL_REQ","subagent_id":"sub_00000000"`,
		`"type":"SUBAGENT_NO_SUCH_REQ"`,
		`"type":"SUBAGENT_AWAIT_REQ"`,
	}
	for i, r := range requests {
		got := s.ask(me, `{%s,"unknown":{"keys":["are","ignored"]}}`, r)
		for _, key := range []string{"id", "req_id", "version", "a2e", "ts"} {
			got.missing(key)
		}
		for _, version := range []string{"version", "a2e"} {
			got = s.ask(me, `{"id":"é-%d-%s",%q:"2.7","ts":1700000000.25,%s}`, i, version, version, r)
			got.is("id", fmt.Sprintf(`"r-é-%d-%s"`, i, version))
			got.is("req_id", fmt.Sprintf(`"é-%d-%s"`, i, version))
			got.is("version", `"2.7"`)
			got.is("a2e", `"2.7"`)
			if !regexp.MustCompile(`^[0-9]{10,}(\.[0-9]+)?$`).MatchString(got.at("ts").raw) {
				t.Errorf("ts is no time: %s", got.raw)
			}
		}
		s.ask(me, `{"id":"v%d",%s}`, i, r).is("version", `"1.0"`)
	}
}

// TestS0_3_IDs: "Ids are generated as sub_ + 8 lower-case hex, unique by construction, and accepted as
// opaque strings (the page's own example has sub_e5f6g7h8, which is not hex)."
func TestS0_3_IDs(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 1000}}, nil)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 20 {
				id := s.spawn(fmt.Sprintf("parent_%d", i%4), `"model":"m"`)
				mu.Lock()
				if seen[id] || !regexp.MustCompile(`^sub_[0-9a-f]{8}$`).MatchString(id) {
					t.Errorf("the id %q was given out before, or is not sub_ and 8 lower-case hex digits", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, opaque := range []string{"sub_e5f6g7h8", "x", "sub_", "a.b *>", strings.Repeat("é", 128)} {
		s.refused("not_found", "", me, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, opaque)
	}
}
