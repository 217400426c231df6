package a2e_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// refused is a request that must be refused, with the Kind and Field that the caller is told.
type refused struct {
	line  string
	kind  actor.Kind
	field string
}

func (r refused) check(t *testing.T) {
	t.Helper()
	m, err := a2e.Decode([]byte(r.line))
	e := asError(t, err)
	if e == nil {
		t.Errorf("this must be refused, and was read as %T: %.200s", m, r.line)
		return
	}
	if e.Kind != r.kind || e.Field != r.field || e.Err == nil {
		t.Errorf("told as %s on %q (%v), wants %s on %q: %.200s", e.Kind, e.Field, err, r.kind, r.field, r.line)
	}
}

func TestDecode_ParseErrors(t *testing.T) {
	t.Parallel()
	const list = `{"type":"SUBAGENT_LIST_REQ"`
	for _, line := range []string{
		``, ` `, `{`, `null`, `[]`, `"x"`, `7`, `true`, `[` + list + `}]`, list, list + `,}`, list + `}}`, list + `} {}`,
		list + `,"a":01}`, list + `,"a":.5}`, list + `,"a":1.}`, list + `,"a":1e}`, list + `,"a":-}`, list + `,"a":+1}`,
		list + `,"a":tru}`, list + `,"a":nul}`, list + `,"a":NaN}`, list + `,"a":'b'}`, list + `,"a":"` + "\n" + `"}`,
		list + `,"a":"\x"}`, list + `,"a":"\u12g4"}`, list + `,"a":"\u12`, list + `,"a":"\`, list + `,"a"}`, list + `,a:1}`,
		list + `,"a":[1,]}`, list + `,"a":[1 2]}`, list + `,"a":[1}`, list + `,"a":{"b":1]}`, list + `,"a":"` + "\xff" + `"}`,
		list + `,"a":"` + "\xed\xa0\x80" + `"}`, "\xef\xbb\xbf" + list + `}`, list + `,"` + "\xff" + `":1}`,
		list + `,"a":` + nest(a2e.MaxDepth) + `}`,
		list + `,"a":` + strings.Repeat(`[`, 1<<20) + `}`,
		strings.Repeat(`{"a":`, 1<<20),
	} {
		refused{line, actor.ParseError, ""}.check(t)
	}
	if _, err := a2e.Decode([]byte(list + `,"a":` + nest(a2e.MaxDepth-1) + `}`)); err != nil {
		t.Errorf("%d levels are allowed, the message itself being the first: %v", a2e.MaxDepth, err)
	}
}

// nest is a list in a list and so on, levels deep.
func nest(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestDecode_InvalidMessages(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"nope", "subagent_list_req", "SUBAGENT_LIST_REQ ", "error",
		a2e.TypeSpawnResp, a2e.TypeDelegateResp, a2e.TypeAwaitResp, a2e.TypeMessageResp, a2e.TypeListResp, a2e.TypeMergeResp, a2e.TypeEvent,
	} {
		refused{`{"type":"` + kind + `"}`, actor.InvalidMessage, "type"}.check(t)
	}
	if m, err := a2e.DecodeAnswer([]byte(`{"type":"SUBAGENT_LIST_REQ"}`)); actor.KindOf(err) != actor.InvalidMessage {
		t.Errorf("a request is not an answer: %v %v", m, err)
	}
}

// A shape is a request with its fields, and for each the values that must be refused.
type shape struct {
	before, after string // of the field under test
	path          string
	fields        map[string][]string // ABSENT: the field must be there
}

const absent = "ABSENT"

func long(n int) string { return `"` + strings.Repeat("x", n) + `"` }

var (
	badID      = []string{`null`, `7`, `""`, `[]`, `{}`, `true`, `"\ud800"`, `"\udc00\ud800"`, long(actor.MaxIDBytes + 1)}
	requiredID = append(badID, absent)
	optionalID = badID[1:]
	badText    = []string{`7`, `[]`, `{}`, `false`, `"\ud800x"`, `"\ud800\u0041"`}
	badName    = append(badText, `""`, `null`, absent, long(a2e.MaxNameBytes+1))
	badInteger = []string{`0`, `-1`, `1.5`, `1.0`, `4e1`, `"40"`, `[]`, `{}`, `true`, `2147483648`, `99999999999999999999`}
	badList    = []string{`"a"`, `{}`, `7`, `true`}
	badDict    = []string{`"a"`, `[]`, `7`, `true`, `{"\ud800":1}`}
	badScope   = []string{`"SHARED"`, `"Shared"`, `""`, `"private"`, `7`, `[]`, `{}`}
	needText   = append(badText, `null`, absent)
	needObject = []string{`null`, absent, `"a"`, `[]`, `7`, `true`}
)

var shapes = []shape{
	{`{"type":"SUBAGENT_SPAWN_REQ",`, `}`, "", map[string][]string{"agent": needObject}},
	{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a","model":"m"},`, `}`, "", map[string][]string{
		"parent_agent_id": optionalID, "root_agent_id": optionalID, "id": badText, "version": badText, "a2e": badText, "req_id": badText,
	}},
	{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a",`, `}}`, "agent.", map[string][]string{"model": needText}},
	{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"model":"m",`, `}}`, "agent.", map[string][]string{"name": badName}},
	{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a","model":"m",`, `}}`, "agent.", map[string][]string{
		"role": badText, "system_prompt": badText, "capabilities": badList, "memory_scope": badScope, "tool_scope": badScope,
		"max_steps": badInteger, "timeout_seconds": badInteger, "metadata": badDict,
		"idle_timeout_seconds": badInteger, "budget": {`"a"`, `[]`, `7`, `true`, `{}`, `{"tokens":null}`, `{"token":1}`},
	}},
	{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a","model":"m","budget":{`, `}}}`, "agent.budget.", map[string][]string{
		"tokens": {`0`, `-1`, `1.5`, `1e3`, `"1"`, `[]`, `9007199254740993`, `99999999999999999999`}, "steps": {`0`, `-1`, `1.5`, `"1"`},
		"usd": {`0`, `-0.5`, `"1"`, `[]`, `1e10`, `1e400`, `1e-400`}, "seconds": {`0`, `-0.5`, `"1"`, `[]`, `1e10`, `1e400`},
	}},
	{`{"type":"SUBAGENT_EXTEND_REQ","seconds":1,`, `}`, "", map[string][]string{"subagent_id": requiredID}},
	{`{"type":"SUBAGENT_EXTEND_REQ","subagent_id":"s",`, `}`, "", map[string][]string{"seconds": {absent, `null`, `0`, `-0.5`, `"1"`, `[]`, `1e10`, `1e400`, `1e-400`}}},
	{`{"type":"SUBAGENT_DELEGATE_REQ","task":{"name":"a","instruction":"i"},`, `}`, "", map[string][]string{"subagent_id": requiredID}},
	{`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s",`, `}`, "", map[string][]string{"task": needObject}},
	{`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s","task":{"instruction":"i",`, `}}`, "task.", map[string][]string{"name": badName}},
	{`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s","task":{"name":"n",`, `}}`, "task.", map[string][]string{"instruction": needText}},
	{`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s","task":{"name":"n","instruction":"i",`, `}}`, "task.", map[string][]string{
		"success_criteria": badList, "metadata": badDict,
	}},
	{`{"type":"SUBAGENT_AWAIT_REQ",`, `}`, "", map[string][]string{"subagent_id": requiredID}},
	{`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"s",`, `}`, "", map[string][]string{
		"timeout_seconds": {`0`, `-0.5`, `"1"`, `[]`, `1e10`, `1e400`, `1e-400`}, "mode": {`"ANY"`, `""`, `7`}, "quorum": {`1`},
	}},
	{`{"type":"SUBAGENT_AWAIT_REQ","mode":"any",`, `}`, "", map[string][]string{"subagent_ids": append(badList, `[]`, `null`, absent)}},
	{`{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":["a"],`, `}`, "", map[string][]string{"subagent_id": optionalID, "quorum": {`1`}}},
	{`{"type":"SUBAGENT_AWAIT_REQ","mode":"quorum","subagent_ids":["a","b","b"],`, `}`, "", map[string][]string{
		"quorum": {absent, `null`, `0`, `-1`, `3`, `1.5`, `"1"`},
	}},
	{`{"type":"SUBAGENT_MESSAGE_REQ","to_subagent_id":"b","message":{"type":"t","content":1},`, `}`, "", map[string][]string{"from_subagent_id": requiredID}},
	{`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a","message":{"type":"t","content":1},`, `}`, "", map[string][]string{"to_subagent_id": requiredID}},
	{`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a","to_subagent_id":"b",`, `}`, "", map[string][]string{"message": needObject}},
	{`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a","to_subagent_id":"b","message":{"content":1,`, `}}`, "message.", map[string][]string{"type": needText}},
	{`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a","to_subagent_id":"b","message":{"type":"t",`, `}}`, "message.", map[string][]string{"content": {absent}}},
	{`{"type":"SUBAGENT_LIST_REQ",`, `}`, "", map[string][]string{
		"status": {`"ready"`, `""`, `7`, `{}`, `[]`}, "parent_agent_id": optionalID, "cursor": badText,
		"limit": {`0`, `-1`, `10001`, `1.5`, `"1"`},
	}},
	{`{"type":"SUBAGENT_CANCEL_REQ",`, `}`, "", map[string][]string{"subagent_id": requiredID}},
	{`{"type":"SUBAGENT_TERMINATE_REQ",`, `}`, "", map[string][]string{"subagent_id": requiredID}},
	{`{"type":"SUBAGENT_MERGE_REQ",`, `}`, "", map[string][]string{"subagent_ids": append(badList, `[]`, `null`, absent)}},
	{`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["s"],`, `}`, "", map[string][]string{
		"strategy": {`""`, `"VOTING"`, `"custom:"`, `"customs"`, `7`, `[]`, `"custom:` + long(actor.MaxIDBytes + 1)[1:]},
	}},
}

func TestDecode_SchemaViolations(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for field, values := range s.fields {
			for _, v := range values {
				member := `"` + field + `":` + v
				if v == absent {
					member = `"ABSENT":0`
				}
				refused{s.before + member + s.after, actor.SchemaViolation, s.path + field}.check(t)
			}
		}
	}
}

func TestDecode_ViolationsInLists(t *testing.T) {
	t.Parallel()
	for _, r := range []refused{
		{`{}`, actor.SchemaViolation, "type"},
		{`{"type":null}`, actor.SchemaViolation, "type"},
		{`{"type":7}`, actor.SchemaViolation, "type"},
		{`{"Type":"SUBAGENT_LIST_REQ"}`, actor.SchemaViolation, "type"},
		{`{"type":"SUBAGENT_LIST_REQ","id":` + long(actor.MaxIDBytes+1) + `}`, actor.SchemaViolation, "id"},
		{`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a","model":"m","capabilities":["tools",null]}}`, actor.SchemaViolation, "agent.capabilities[1]"},
		{`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s","task":{"name":"a","instruction":"i","success_criteria":["a","b",3]}}`, actor.SchemaViolation, "task.success_criteria[2]"},
		{`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[""]}`, actor.SchemaViolation, "subagent_ids[0]"},
		{`{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["a",["b"]]}`, actor.SchemaViolation, "subagent_ids[1]"},
		{`{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":["a",` + long(actor.MaxIDBytes+1) + `]}`, actor.SchemaViolation, "subagent_ids[1]"},
		{`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"s","subagent_ids":["a"]}`, actor.SchemaViolation, "mode"},
		{`{"type":"SUBAGENT_LIST_REQ","status":["READY","LOST"]}`, actor.SchemaViolation, "status[1]"},
		{`{"type":"SUBAGENT_LIST_REQ","status":[null]}`, actor.SchemaViolation, "status[0]"},
	} {
		r.check(t)
	}
}

func TestDecode_ConfigSize(t *testing.T) {
	t.Parallel()
	const before, after = `{"type":"SUBAGENT_SPAWN_REQ","agent":`, `}`
	agent := func(prompt int) string {
		return `{"name":"a","model":"m","system_prompt":` + long(prompt) +
			`,"capabilities":[],"memory_scope":"shared","tool_scope":"shared","max_steps":1,"timeout_seconds":1,"metadata":{}}`
	}
	fits := a2e.MaxConfigBytes - len(agent(0))
	refused{before + agent(fits+1) + after, actor.TooLarge, "agent"}.check(t)
	decode[*a2e.SpawnReq](t, before+agent(fits)+after)
	decode[*a2e.SpawnReq](t, before+strings.Repeat(" ", a2e.MaxConfigBytes)+agent(fits)+after)
	short := `{"name":"a","model":"m","system_prompt":` + long(a2e.MaxConfigBytes-60) + `}`
	if len(short) > a2e.MaxConfigBytes {
		t.Fatalf("this configuration should be small enough without its defaults: %d bytes", len(short))
	}
	refused{before + short + after, actor.TooLarge, "agent"}.check(t)
}
