package spec

import (
	"context"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/tool"
)

// does spawns a subagent with scopes and capabilities, has it play a script and gives its result.
func (s *stage) does(parent, fields, script string) answer {
	s.t.Helper()
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"child","model":"builtin/script",%s}}`, parent, fields).text("subagent_id")
	s.delegate(me, id, script)
	return s.await(me, id)
}

// TestS0_14_MemoryScopes: "shared = the parent's space; isolated = an empty one; snapshot = a copy as of the spawn".
func TestS0_14_MemoryScopes(t *testing.T) {
	t.Parallel()
	s := start(t)
	const get = `[{"call":"memory_get","arguments":{"key":"k"}},{"call":"memory_list","arguments":{}},{"result":"$results"}]`
	s.does(me, `"capabilities":["memory"]`, `[{"call":"memory_set","arguments":{"key":"k","value":{"n":1}}}]`).is("status", `"COMPLETED"`)
	s.does(me, `"capabilities":["memory"]`, get).is("result.output", `[{"n":1},["k"]]`)
	s.does(me, `"capabilities":["memory"],"memory_scope":"isolated"`, get).is("result.output", `[null,[]]`)
	snap := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"child","model":"builtin/script","capabilities":["memory"],"memory_scope":"snapshot"}}`).text("subagent_id")
	s.does(me, `"capabilities":["memory"]`, `[{"call":"memory_set","arguments":{"key":"k","value":{"n":2}}},{"call":"memory_set","arguments":{"key":"l","value":3}}]`)
	s.delegate(me, snap, get)
	s.await(me, snap).is("result.output", `[{"n":1},["k"]]`)
	s.delegate(me, snap, `[{"call":"memory_set","arguments":{"key":"own","value":1}}]`)
	s.await(me, snap)
	s.does(me, `"capabilities":["memory"]`, get).is("result.output", `[{"n":2},["k","l"]]`)
	// Below a snapshot, shared is the snapshot's copy.
	s.does(snap, `"capabilities":["memory"]`, get).is("result.output", `[{"n":1},["k","own"]]`)
	// A thread's own tool takes the snapshot of its own space.
	boss := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent","memory"],"memory_scope":"isolated"`)
	s.delegate(me, boss, `[{"call":"memory_set","arguments":{"key":"k","value":"mine"}},
		{"call":"subagent_spawn","arguments":{"agent":{"name":"c","model":"builtin/script","capabilities":["memory"],"memory_scope":"snapshot"}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"i","metadata":{"script":[{"call":"memory_get","arguments":{"key":"k"}}]}}}},
		{"call":"subagent_list","arguments":{}},{"call":"subagent_await","arguments":{"subagent_id":"$last.subagents.0.subagent_id"}},{"result":"$last.result"}]`)
	s.await(me, boss).is("result.output", `"mine"`)
	// Without the capability there is no memory.
	s.does(me, `"capabilities":[]`, get).missing("result.output.1.0")
}

// TestS0_14_ToolScopes: "tool_scope restricted = the parent's tools that the host's allow-list also names."
func TestS0_14_ToolScopes(t *testing.T) {
	t.Parallel()
	type in struct {
		A int `json:"a"`
	}
	echo := func(name string) tool.Tool {
		f, err := tool.Func(tool.Description{Name: name, Description: "gives a back"}, func(_ context.Context, i in) (int, error) { return i.A, nil })
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	tools, err := tool.New(tool.Config{Tools: []tool.Tool{echo("open_a"), echo("open_b"), echo("closed")}, Allow: []string{"open_*"}})
	if err != nil {
		t.Fatal(err)
	}
	s := startWith(t, host.Config{Tools: tools}, nil)
	call := func(name string) string { return `[{"call":"` + name + `","arguments":{"a":7}},{"result":"$last"}]` }
	s.does(me, `"capabilities":["tools"]`, call("open_a")).is("result.output", `7`)
	s.does(me, `"capabilities":["tools"]`, call("closed")).is("result.code", `"not_found"`)
	s.does(me, `"capabilities":["tools"],"tool_scope":"shared"`, call("open_b")).is("result.output", `7`)
	s.does(me, `"capabilities":["tools"],"tool_scope":"shared"`, call("closed")).is("result.code", `"not_found"`)
	isolated := `"capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["open_a","closed"]}`
	s.does(me, isolated, call("open_a")).is("result.output", `7`)
	s.does(me, isolated, call("open_b")).is("result.code", `"not_found"`)
	s.does(me, isolated, call("closed")).is("result.code", `"not_found"`)
	s.does(me, `"capabilities":[]`, call("open_a")).is("result.code", `"not_found"`)
	s.does(me, `"capabilities":["tools"]`, `[{"call":"open_a","arguments":{"a":"x"}},{"result":"$last"}]`).is("result.code", `"schema_violation"`)
	// What an isolated parent has is all that its children may have.
	top := s.spawn(me, `"model":"builtin/script","capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["open_a"]}`)
	s.does(top, `"capabilities":["tools"]`, call("open_a")).is("result.output", `7`)
	s.does(top, `"capabilities":["tools"],"tool_scope":"shared"`, call("open_b")).is("result.code", `"not_found"`)
	s.does(top, `"capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["*"]}`, call("open_b")).is("result.code", `"not_found"`)
	s.does(top, `"capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["*"]}`, call("open_a")).is("result.output", `7`)
}
