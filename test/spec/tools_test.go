package spec

import (
	"fmt"
	"strings"
	"testing"
)

// TestS0_14_NoCapabilities: "capabilities [] means none."
func TestS0_14_NoCapabilities(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, capabilities := range []string{`[]`, `["tools","memory"]`, `["Multi_Agent"]`} {
		for _, tool := range []string{"spawn", "delegate", "await", "send", "list", "cancel", "terminate", "merge"} {
			id := s.spawn(me, `"model":"builtin/script","capabilities":`+capabilities)
			s.delegate(me, id, fmt.Sprintf(`[{"call":"subagent_%s","arguments":{"agent":{"name":"c","model":"m"}}}]`, tool))
			got := s.await(me, id)
			got.is("status", `"COMPLETED"`)
			got.is("result.code", `"not_found"`)
		}
	}
	if n := s.entries(); n != 24 {
		t.Errorf("the registry has %d subagents, want 24: a tool that was not there did something", n)
	}
}

// TestS0_14_Tools: "multi_agent turns on the tools subagent_spawn, …, subagent_merge, whose arguments are the
// fields of the SUBAGENT_* requests."
func TestS0_14_Tools(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.run(me, `[
		{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/echo","max_steps":7}}},
		{"call":"subagent_list"},
		{"call":"subagent_send","arguments":{"to_subagent_id":"$results.0.subagent_id","message":{"type":"note","content":{"n":1}}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$results.0.subagent_id","task":{"name":"t","instruction":"said"}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}},
		{"call":"subagent_merge","arguments":{"subagent_ids":["$results.0.subagent_id"],"strategy":"voting"}},
		{"call":"subagent_cancel","arguments":{"subagent_id":"$results.0.subagent_id"}},
		{"call":"subagent_terminate","arguments":{"subagent_id":"$results.0.subagent_id"}},
		{"call":"subagent_await","arguments":{"mode":"any","subagent_ids":["$results.0.subagent_id"]}},
		{"result":"$results"}]`)
	got := s.await(me, id).at("result.output")
	child := got.text("0.subagent_id")
	got.is("0", fmt.Sprintf(`{"type":"SUBAGENT_SPAWN_RESP","subagent_id":%q,"status":"READY"}`, child))
	got.is("1.subagents.0.subagent_id", quote(child))
	got.is("1.subagents.0.parent_agent_id", quote(id))
	got.is("1.subagents.0.root_agent_id", quote(me))
	got.is("1.subagents.0.depth", `2`)
	got.is("1.subagents.0.config.max_steps", `7`)
	got.is("2", `{"type":"SUBAGENT_MESSAGE_RESP","delivered":true}`)
	got.is("3", `{"type":"SUBAGENT_DELEGATE_RESP","accepted":true,"status":"RUNNING"}`)
	got.is("4", fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":%q,"status":"COMPLETED","result":{"output":"said"},"error":null}`, child))
	got.is("5.merged_result.answer", `{"output":"said"}`)
	got.is("6.content", `{"status":"COMPLETED","changed":false}`)
	got.is("7.event", `"terminated"`)
	got.is("8.results.0.status", `"TERMINATED"`)
	s.noDeadLetters()
}

// TestS0_14_Refused: what a tool call may not do is its result, an error message, and the script goes on.
func TestS0_14_Refused(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.spawn(me, `"model":"builtin/echo"`)
	id := s.run(me, fmt.Sprintf(`[
		{"call":"subagent_fly"},
		{"call":"subagent_spawn","arguments":{"agent":{"name":"","model":"m"}}},
		{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"m"},"parent_agent_id":"parent_1"}},
		{"call":"subagent_delegate","arguments":{"subagent_id":%[1]q,"task":{"name":"t","instruction":"i"}}},
		{"call":"subagent_await","arguments":{"subagent_id":%[1]q}},
		{"call":"subagent_await","arguments":{"subagent_id":"parent_1"}},
		{"call":"subagent_send","arguments":{"from_subagent_id":%[1]q,"to_subagent_id":%[1]q,"message":{"type":"t","content":1}}},
		{"call":"subagent_send","arguments":{"to_subagent_id":"sub_00000000","message":{"type":"t","content":1}}},
		{"call":"subagent_cancel","arguments":{"subagent_id":%[1]q}},
		{"call":"subagent_terminate","arguments":{"subagent_id":"parent_1"}},
		{"call":"subagent_merge","arguments":{"subagent_ids":[%[1]q]}},
		{"call":"subagent_list","arguments":{"status":"IDLE"}},
		{"call":"subagent_list","arguments":{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"c","model":"m"}}},
		{"result":"$results"}]`, other))
	got := s.await(me, id)
	for i, want := range []string{"not_found", "schema_violation", "not_found", "not_found", "not_found", "await_cycle", "unauthorized",
		"not_found", "not_found", "not_found", "not_found", "schema_violation", "schema_violation"} {
		got.is(fmt.Sprintf("result.output.%d.code", i), quote(want))
	}
	s.await(me, other).is("status", `"READY"`)
	if n := s.entries(); n != 2 {
		t.Errorf("the registry has %d subagents, want 2: a refused call left something behind", n)
	}
	s.noDeadLetters()
}

// TestS0_14_Scopes: the scopes that a subagent was given are those that it has, and its own children have
// the defaults, not those of their parent.
func TestS0_14_Scopes(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"],"memory_scope":"isolated","tool_scope":"isolated"`)
	s.delegate(me, id, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"m"}}}]`)
	s.await(me, id).is("status", `"COMPLETED"`)
	list := s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`)
	list.is("subagents.0.config.memory_scope", `"isolated"`)
	list.is("subagents.1.config.memory_scope", `"shared"`)
	list.is("subagents.1.config.tool_scope", `"restricted"`)
	list.is("subagents.1.config.capabilities", `[]`)
	if strings.Count(list.raw, "multi_agent") != 1 {
		t.Errorf("a child has a capability that it was not given: %s", list.raw)
	}
}
