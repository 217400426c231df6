package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS0_4_StopsHaveNoResponse: "CANCEL and TERMINATE have no response message; success shows as
// SUBAGENT_EVENT. When the request has an id or came as a NATS or HTTP request, an unknown id gets an
// error message."
func TestS0_4_StopsHaveNoResponse(t *testing.T) {
	t.Parallel()
	s := start(t)
	for verb, status := range map[string]string{"CANCEL": "CANCELLED", "TERMINATE": "TERMINATED"} {
		id := s.spawn(me, `"model":"m"`)
		w := s.watch(me)
		got := s.ask(me, `{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, id)
		got.is("type", `"SUBAGENT_EVENT"`)
		got.is("subagent_id", quote(id))
		got.is("event", quote(strings.ToLower(status)))
		got.is("content.status", quote(status))
		w.named(id, strings.ToLower(status))
		for _, unknown := range []string{"sub_00000000", "nobody"} {
			s.refused("not_found", "subagent_id", me, `{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, unknown)
			s.refused("not_found", "subagent_id", me, `{"type":"SUBAGENT_%s_REQ","id":"7%s","subagent_id":%q}`, verb, verb, unknown)
		}
		// Without a reply subject nobody can be answered, and the request counts all the same.
		other := s.spawn(me, `"model":"m"`)
		if err := s.Conn.Publish(s.Names.A2E(me), []byte(fmt.Sprintf(`{"type":"SUBAGENT_%s_REQ","subagent_id":%q}`, verb, other))); err != nil {
			t.Fatal(err)
		}
		s.eventually(me, other, status)
	}
	s.noDeadLetters()
}

// TestS0_4_Codes: every code that A2E can bring about, in the shape
// {"type":"error","req_id":…,"code":…,"message":…,"detail":{…},"retryable":…}.
func TestS0_4_Codes(t *testing.T) {
	t.Parallel()
	g := newGate()
	broken := func(context.Context, []host.Source) (json.RawMessage, error) { return nil, errors.New("out of paper") }
	s := startWith(t, host.Config{
		Limits: host.Limits{MaxLive: 2, MaxDepth: 1}, Merges: map[string]host.MergeFunc{"broken": broken},
	}, map[string]model.Model{"test/gate": g})
	done, busy := s.spawn(me, `"model":"builtin/echo"`), s.spawn(me, `"model":"test/gate"`)
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","id":%q,"agent":{"name":"n","model":"m"},"parent_agent_id":%q}`
	s.refused("quota_exceeded", "", me, spawn, "1", me)
	s.delegate(me, done, "null")
	s.delegate(me, busy, "null")
	s.await(me, done).is("status", `"COMPLETED"`)
	s.refused("depth_exceeded", "", me, spawn, "2", done)
	s.refused("parse_error", "", me, `{`)
	s.refused("schema_violation", "agent", me, `{"type":"SUBAGENT_SPAWN_REQ"}`)
	s.refused("invalid_message", "type", me, `{"type":"SUBAGENT_FLY_REQ"}`)
	s.refused("not_found", "", me, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"sub_00000000"}`)
	s.refused("await_cycle", "subagent_id", me, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"parent_1"}`)
	s.refused("timeout", "", me, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q,"timeout_seconds":0.05}`, busy)
	s.refused("runtime_error", "", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q],"strategy":"custom:broken"}`, done)
	s.ask(me, spawn, "3", me).is("status", `"READY"`)
	s.refused("conflict", "id", me, `{"type":"SUBAGENT_SPAWN_REQ","id":"3","agent":{"name":"another","model":"m"}}`)
	s.terminate(me, done)
	s.refused("thread_terminated", "parent_agent_id", me, spawn, "4", done)
	s.refused("too_large", "agent", me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m","system_prompt":%q}}`, strings.Repeat("x", 130<<10))
	got := s.ask(me, `{"type":"SUBAGENT_CANCEL_REQ","id":"last","subagent_id":"sub_00000000"}`)
	got.is("req_id", `"last"`)
	got.is("detail", `{"field":"subagent_id","id":"sub_00000000"}`)
	close(g.open)
}

// spawnWith is a spawn whose configuration has one member more.
func spawnWith(member string) string {
	return `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m",` + member + `}}`
}

// badInput lists requests, the code that each gets, and the field that it names.
var badInput = []struct{ kind, field, request string }{
	{"parse_error", "", ``},
	{"parse_error", "", `   `},
	{"parse_error", "", `hello`},
	{"parse_error", "", `{"type":"SUBAGENT_LIST_REQ"`},
	{"parse_error", "", `{"type":"SUBAGENT_LIST_REQ"} {}`},
	{"parse_error", "", `[]`},
	{"parse_error", "", `[{"type":"SUBAGENT_LIST_REQ"}]`},
	{"parse_error", "", `"SUBAGENT_LIST_REQ"`},
	{"parse_error", "", `null`},
	{"parse_error", "", `7`},
	{"parse_error", "", "{\"type\":\"SUBAGENT_LIST_REQ\",\"x\":\"\xff\"}"},
	{"parse_error", "", `{"type":"SUBAGENT_LIST_REQ","x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`},
	{"schema_violation", "type", `{}`},
	{"schema_violation", "type", `{"type":null}`},
	{"schema_violation", "type", `{"type":7}`},
	{"schema_violation", "type", `{"type":""}`},
	{"invalid_message", "type", `{"type":"subagent_list_req"}`},
	{"invalid_message", "type", `{"type":"SUBAGENT_LIST_RESP","subagents":[]}`},
	{"invalid_message", "type", `{"type":"SUBAGENT_EVENT","subagent_id":"x","event":"y"}`},
	{"schema_violation", "id", `{"type":"SUBAGENT_LIST_REQ","id":7}`},
	{"schema_violation", "id", `{"type":"SUBAGENT_LIST_REQ","id":"` + strings.Repeat("i", 300) + `"}`},
	{"schema_violation", "agent", `{"type":"SUBAGENT_SPAWN_REQ"}`},
	{"schema_violation", "agent", `{"type":"SUBAGENT_SPAWN_REQ","agent":null}`},
	{"schema_violation", "agent", `{"type":"SUBAGENT_SPAWN_REQ","agent":[]}`},
	{"schema_violation", "agent", `{"type":"SUBAGENT_SPAWN_REQ","agent":"researcher"}`},
	{"schema_violation", "agent.name", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"model":"m"}}`},
	{"schema_violation", "agent.name", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"","model":"m"}}`},
	{"schema_violation", "agent.name", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":["n"],"model":"m"}}`},
	{"schema_violation", "agent.name", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"\ud83d","model":"m"}}`},
	{"schema_violation", "agent.name", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"` + strings.Repeat("n", 10<<10) + `","model":"m"}}`},
	{"schema_violation", "agent.model", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n"}}`},
	{"schema_violation", "agent.model", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":null}}`},
	{"schema_violation", "agent.model", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":""}}`},
	{"schema_violation", "agent.role", spawnWith(`"role":7`)},
	{"schema_violation", "agent.system_prompt", spawnWith(`"system_prompt":{}`)},
	{"schema_violation", "agent.capabilities", spawnWith(`"capabilities":"tools"`)},
	{"schema_violation", "agent.capabilities[1]", spawnWith(`"capabilities":["tools",7]`)},
	{"schema_violation", "agent.memory_scope", spawnWith(`"memory_scope":"galactic"`)},
	{"schema_violation", "agent.tool_scope", spawnWith(`"tool_scope":"RESTRICTED"`)},
	{"schema_violation", "agent.max_steps", spawnWith(`"max_steps":0`)},
	{"schema_violation", "agent.max_steps", spawnWith(`"max_steps":-1`)},
	{"schema_violation", "agent.max_steps", spawnWith(`"max_steps":1.5`)},
	{"schema_violation", "agent.max_steps", spawnWith(`"max_steps":"40"`)},
	{"schema_violation", "agent.timeout_seconds", spawnWith(`"timeout_seconds":0`)},
	{"schema_violation", "agent.timeout_seconds", spawnWith(`"timeout_seconds":-600`)},
	{"schema_violation", "agent.timeout_seconds", spawnWith(`"timeout_seconds":99999999999999999999`)},
	{"schema_violation", "agent.metadata", spawnWith(`"metadata":[]`)},
	{"schema_violation", "parent_agent_id", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":""}`},
	{"schema_violation", "parent_agent_id", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":"` + strings.Repeat("p", 300) + `"}`},
	{"not_found", "parent_agent_id", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":"sub_00000000"}`},
	{"not_found", "parent_agent_id", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":"somebody_else"}`},
	{"schema_violation", "root_agent_id", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"root_agent_id":"somebody_else"}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_DELEGATE_REQ","task":{"name":"t","instruction":"i"}}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"","task":{"name":"t","instruction":"i"}}`},
	{"schema_violation", "task", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000"}`},
	{"schema_violation", "task.name", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000","task":{"name":"","instruction":"i"}}`},
	{"schema_violation", "task.instruction", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000","task":{"name":"t"}}`},
	{"schema_violation", "task.success_criteria", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000","task":{"name":"t","instruction":"i","success_criteria":{}}}`},
	{"not_found", "", `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000000","task":{"name":"t","instruction":"i"}}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_AWAIT_REQ"}`},
	{"schema_violation", "mode", `{"type":"SUBAGENT_AWAIT_REQ","mode":"some","subagent_ids":["sub_00000000"]}`},
	{"schema_violation", "subagent_ids", `{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":[]}`},
	{"schema_violation", "quorum", `{"type":"SUBAGENT_AWAIT_REQ","mode":"quorum","subagent_ids":["sub_00000000"],"quorum":2}`},
	{"schema_violation", "timeout_seconds", `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"sub_00000000","timeout_seconds":0}`},
	{"schema_violation", "from_subagent_id", `{"type":"SUBAGENT_MESSAGE_REQ","to_subagent_id":"x","message":{"type":"t","content":1}}`},
	{"schema_violation", "to_subagent_id", `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","message":{"type":"t","content":1}}`},
	{"schema_violation", "message.type", `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"x","message":{"content":1}}`},
	{"schema_violation", "message.content", `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"x","message":{"type":"t"}}`},
	{"not_found", "from_subagent_id", `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"somebody_else","to_subagent_id":"x","message":{"type":"t","content":1}}`},
	{"not_found", "", `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":"sub_00000000","message":{"type":"t","content":1}}`},
	{"schema_violation", "status", `{"type":"SUBAGENT_LIST_REQ","status":"IDLE"}`},
	{"schema_violation", "status[1]", `{"type":"SUBAGENT_LIST_REQ","status":["READY","ready"]}`},
	{"schema_violation", "limit", `{"type":"SUBAGENT_LIST_REQ","limit":0}`},
	{"schema_violation", "cursor", `{"type":"SUBAGENT_LIST_REQ","cursor":"from nowhere"}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_CANCEL_REQ"}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_CANCEL_REQ","subagent_id":["x"]}`},
	{"schema_violation", "subagent_id", `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":null}`},
	{"schema_violation", "subagent_ids", `{"type":"SUBAGENT_MERGE_REQ"}`},
	{"schema_violation", "subagent_ids", `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[]}`},
	{"schema_violation", "subagent_ids[0]", `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[7]}`},
	{"not_found", "subagent_ids[0]", `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["sub_00000000"]}`},
	{"schema_violation", "strategy", `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["sub_00000000"],"strategy":"shouting"}`},
	{"schema_violation", "strategy", `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["sub_00000000"],"strategy":"custom:"}`},
}

// TestBadInput: a request that can't be served gets a typed error that names the field, and leaves
// nothing behind.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range badInput {
		got := parse(t, s.Ask(t, me, c.request))
		got.is("type", `"error"`)
		got.is("code", quote(c.kind))
		if c.field == "" {
			got.missing("detail.field")
		} else {
			got.is("detail.field", quote(c.field))
		}
		if t.Failed() {
			t.Fatalf("the request was %.300s", c.request)
		}
	}
	s.nothingLeft(me)
	s.nothingLeft("somebody_else")
}

// TestBadInput_Caller: a caller that does not exist, or is not what its subject says, gets no further.
func TestBadInput_Caller(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, request := range []string{
		`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"}}`,
		`{"type":"SUBAGENT_LIST_REQ"}`,
		`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"sub_00000001"}`,
		`{"type":"SUBAGENT_AWAIT_REQ","mode":"any","subagent_ids":["sub_00000001"]}`,
		`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"sub_00000001","task":{"name":"t","instruction":"i"}}`,
		`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"sub_00000000","to_subagent_id":"sub_00000001","message":{"type":"t","content":1}}`,
		`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":"sub_00000001"}`,
		`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":"sub_00000001"}`,
		`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["sub_00000001"]}`,
	} {
		s.refused("not_found", "", "sub_00000000", "%s", request)
	}
	_, err := s.Conn.Request(s.ctx, "troupe.a2e.not=encoded", []byte(`{"type":"SUBAGENT_LIST_REQ"}`))
	if actor.KindOf(err) != actor.SchemaViolation {
		t.Errorf("a subject that names no agent: got %v, want the service's error 400", err)
	}
	s.nothingLeft(me)
}

// TestBadInput_Foreign: what belongs to another caller does not exist.
func TestBadInput_Foreign(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.spawn("owner", `"model":"builtin/echo"`)
	for _, other := range []string{"stranger", s.spawn("stranger", `"model":"builtin/echo"`)} {
		s.refused("not_found", "parent_agent_id", other, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":%q}`, id)
		s.refused("not_found", "", other, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"i"}}`, id)
		s.refused("not_found", "", other, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, id)
		s.refused("not_found", "", other, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":%q,"to_subagent_id":%q,"message":{"type":"t","content":1}}`, other, id)
		s.refused("not_found", "from_subagent_id", other, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":%q,"to_subagent_id":%q,"message":{"type":"t","content":1}}`, id, other)
		s.refused("not_found", "subagent_id", other, `{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`, id)
		s.refused("not_found", "subagent_id", other, `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, id)
		s.refused("not_found", "subagent_ids[0]", other, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q]}`, id)
		got := s.ask(other, `{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":[%q]}`, id)
		got.is("status", `"FAILED"`)
		if strings.Contains(s.ask(other, `{"type":"SUBAGENT_LIST_REQ"}`).raw, id) {
			t.Errorf("%s sees another's subagent %s in LIST", other, id)
		}
	}
	if n := s.entries(); n != 2 {
		t.Errorf("the registry has %d subagents, want the owner's and the stranger's own", n)
	}
	s.await("owner", id).is("status", `"READY"`)
}

// TestBadInput_Names: names that are hard on subjects, keys and terminals come back as they were given.
func TestBadInput_Names(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, name := range []string{
		"a.b.c", "a b", "*", ">", "troupe.>", "a:b~c", "🦜🦜", "مرحبا", "\u202eevil", "e\u0301", "\u00e9", "a\tb\nc", `"quoted\"`, "$KV", "=",
		strings.Repeat("é", 512), strings.Repeat("n", 1024), "\u0000",
	} {
		agent := fmt.Sprintf("%.85s", name) // runes
		id := s.ask(agent, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":%s,"model":"builtin/echo","role":%s}}`, quote(name), quote(name)).text("subagent_id")
		got := s.ask(agent, `{"type":"SUBAGENT_LIST_REQ"}`)
		got.is("subagents", fmt.Sprintf(`[{"subagent_id":%q,"name":%s,"status":"READY","parent_agent_id":%s,"root_agent_id":%s,"depth":1,"config":%s}]`,
			id, quote(name), quote(agent), quote(agent), got.at("subagents.0.config").raw))
		got.is("subagents.0.config.role", quote(name))
		w := s.watch(agent)
		s.ask(agent, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":%s,"instruction":%s}}`, id, quote(name), quote(name)).is("accepted", `true`)
		s.await(agent, id).is("result", `{"output":`+quote(name)+`}`)
		w.named(id, "delegated").is("content.task", quote(name))
		natstest.Await(t, "the completion in the mail of "+agent, func() bool {
			return s.stored(s.Names.MailStream(), s.Names.Mail(actor.ID(agent), actor.ID(id), "1")) == 1
		})
		if i == 0 && s.entries() != 1 {
			t.Errorf("the registry has %d entries, want 1", s.entries())
		}
	}
	s.noDeadLetters()
}

// TestCase38_Oversized: a payload over the server's limit → a typed error at the publisher; never
// retried for ever.
func TestCase38_Oversized(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, err := s.Conn.Request(s.ctx, s.Names.A2E(me), []byte(spawnWith(`"x":"`+strings.Repeat("x", 1<<20)+`"`)))
	if actor.KindOf(err) != actor.TooLarge {
		t.Errorf("a request over the server's limit: got %v, want the kind too_large", err)
	}
	s.refused("too_large", "agent", me, "%s", spawnWith(`"metadata":{"x":"`+strings.Repeat("x", 1000<<10)+`"}`))
	// What just fits through the door has to fit everywhere behind it, or be refused.
	id := s.spawn(me, `"model":"builtin/echo"`)
	most := strings.Repeat("é", 520_000)
	got := s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":%s}}`, id, quote(most))
	got.is("accepted", `true`)
	if full := s.full(s.await(me, id).at("result")); canonical(t, string(full)) != `{"output":`+quote(most)+`}` {
		t.Errorf("an instruction of %d bytes came back as %d bytes: %.100s…", len(most), len(full), full)
	}
	script := `"model":"builtin/script","metadata":{"script":[{"result":"$inbox.0.content"}]}`
	to := s.spawn(me, script)
	s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":{"text":%s}}}`, to, quote(most)).
		is("delivered", `true`)
	s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":""}}`, to).is("accepted", `true`)
	if full := s.full(s.await(me, to).at("result")); canonical(t, string(full)) != `{"text":`+quote(most)+`}` {
		t.Errorf("a message of %d bytes came back as %d bytes: %.100s…", len(most), len(full), full)
	}
	ids := `"` + strings.Repeat(`sub_00000000","`, 60_000) + `sub_00000001"`
	s.refused("too_large", "subagent_ids", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%s]}`, ids)
	s.ask(me, `{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":[%s]}`, ids).is("status", `"FAILED"`)
	s.noDeadLetters()
}
