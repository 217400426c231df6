package a2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

func asError(t *testing.T, err error) *actor.Error {
	t.Helper()
	var e *actor.Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("errors must be *actor.Error, this is %T: %v", err, err)
	}
	return e
}

// decode reads a request that must be good.
func decode[T a2e.Request](t *testing.T, line string) T {
	t.Helper()
	r, err := a2e.Decode([]byte(line))
	if err != nil {
		t.Fatalf("a good request is refused: %v\n%s", err, line)
	}
	m, ok := r.(T)
	if !ok {
		t.Fatalf("decoded as %T: %s", r, line)
	}
	return m
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nis    %#v\nwants %#v", what, got, want)
	}
}

func TestS0_Defaults(t *testing.T) {
	t.Parallel()
	want := a2e.SubagentConfig{
		Name: "a", Model: "m", Capabilities: []string{}, MemoryScope: "shared", ToolScope: "restricted",
		MaxSteps: 40, TimeoutSeconds: 600, Metadata: map[string]json.RawMessage{},
	}
	same(t, "WithDefaults fills in the specification's defaults", a2e.SubagentConfig{Name: "a", Model: "m"}.WithDefaults(), want)
	for what, agent := range map[string]string{
		"absent fields have the defaults": `{"name":"a","model":"m"}`,
		"a null in an optional field means absent": `{"name":"a","model":"m","role":null,"system_prompt":null,"capabilities":null,` +
			`"memory_scope":null,"tool_scope":null,"max_steps":null,"timeout_seconds":null,"metadata":null}`,
	} {
		m := decode[*a2e.SpawnReq](t, `{"type":"SUBAGENT_SPAWN_REQ","agent":`+agent+`,"parent_agent_id":null,"root_agent_id":null}`)
		same(t, what, m, &a2e.SpawnReq{Agent: want})
	}
	task := decode[*a2e.DelegateReq](t, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":"s","task":{"name":"n","instruction":""}}`).Task
	same(t, "criteria and metadata are empty by default", task, a2e.TaskDefinition{
		Name: "n", SuccessCriteria: []string{}, Metadata: map[string]json.RawMessage{},
	})
	merge := decode[*a2e.MergeReq](t, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["s"]}`)
	same(t, "the default strategy", merge.Strategy, a2e.HierarchicalSummary)
	for line, want := range map[string]a2e.Message{
		`{"type":"SUBAGENT_DELEGATE_RESP","status":"RUNNING"}`:                    &a2e.DelegateResp{Accepted: true, Status: a2e.Running},
		`{"type":"SUBAGENT_MESSAGE_RESP"}`:                                        &a2e.MessageResp{Delivered: true},
		`{"type":"SUBAGENT_EVENT","subagent_id":"s","event":"e"}`:                 &a2e.Event{SubagentID: "s", Event: "e", Content: json.RawMessage("{}")},
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"s","status":"FAILED"}`:      &a2e.AwaitResp{SubagentID: "s", Status: a2e.Failed},
		`{"type":"error","code":"timeout","message":null,"detail":{"more":[1]} }`: &a2e.Error{Code: actor.Timeout},
	} {
		m, err := a2e.DecodeAnswer([]byte(line))
		same(t, fmt.Sprintf("defaults of %s (%v)", line, err), m, want)
	}
}

func TestS0_Values(t *testing.T) {
	t.Parallel()
	spawn := `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"a","model":"m",%s}}`
	for _, s := range []a2e.MemoryScope{"shared", "isolated", "snapshot"} {
		m := decode[*a2e.SpawnReq](t, fmt.Sprintf(spawn, `"memory_scope":"`+string(s)+`"`))
		same(t, "memory scope", m.Agent.MemoryScope, s)
	}
	for _, s := range []a2e.ToolScope{"shared", "restricted", "isolated"} {
		m := decode[*a2e.SpawnReq](t, fmt.Sprintf(spawn, `"tool_scope":"`+string(s)+`"`))
		same(t, "tool scope", m.Agent.ToolScope, s)
	}
	for _, s := range []a2e.Strategy{"hierarchical_summary", "voting", "custom", "custom:mine"} {
		m := decode[*a2e.MergeReq](t, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["s"],"strategy":"`+string(s)+`"}`)
		same(t, "strategy", m.Strategy, s)
	}
	closed := map[a2e.Status]bool{
		"READY": false, "RUNNING": false, "WAITING": false,
		"COMPLETED": true, "FAILED": true, "CANCELLED": true, "TERMINATED": true,
	}
	for s, want := range closed {
		if !s.Valid() || s.Closed() != want {
			t.Errorf("%s: valid %v, closed %v; it is valid, and closed is %v", s, s.Valid(), s.Closed(), want)
		}
	}
	for s, want := range map[a2e.Strategy]string{"custom": "", "custom:mine": "mine", "custom::": ":"} {
		if got, ok := s.Function(); !ok || got != want {
			t.Errorf("%s names the function %q (%v), not %q", s, got, ok, want)
		}
	}
	if _, ok := a2e.Voting.Function(); ok {
		t.Error("voting has no merge function to be looked up")
	}
}

func TestS0_6_Await(t *testing.T) {
	t.Parallel()
	m := decode[*a2e.AwaitReq](t, `{"type":"SUBAGENT_AWAIT_REQ","mode":"any","subagent_ids":["a","b"],"subagent_id":"c","timeout_seconds":0.25}`)
	same(t, "await any", m, &a2e.AwaitReq{
		SubagentID: "c", SubagentIDs: []actor.ID{"a", "b"}, Mode: a2e.ModeAny, TimeoutSeconds: 0.25,
	})
	for seconds, want := range map[float64]time.Duration{0: 0, 0.25: 250 * time.Millisecond, 1e-300: 1, 1e300: (1<<31 - 1) * time.Second} {
		if got := (&a2e.AwaitReq{TimeoutSeconds: seconds}).Timeout(); got != want {
			t.Errorf("%g seconds are %v, not %v", seconds, got, want)
		}
	}
}

func TestDecode_KeysMatchByCaseAndTheLastCounts(t *testing.T) {
	t.Parallel()
	m := decode[*a2e.CancelReq](t, " \n"+`{"Type":"x","type":"x","ty\u0070e":"SUBAGENT_CANCEL_REQ","SUBAGENT_ID":7,`+
		`"subagent_id":7,"subagent_id":"a\ud83d\ude00\n","more":{"subagent_id":"no"}}`+"\t")
	same(t, "subagent_id", m.SubagentID, actor.ID("a\U0001F600\n"))
}

func TestDecode_KeepsFreeFormBytes(t *testing.T) {
	t.Parallel()
	const content = `{"b":1.50, "a":[ 1e5,"\u00e9\/"],"b":2}`
	line := []byte(`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a","to_subagent_id":"b","message":{"type":"t","content":` + content + `}}`)
	r, err := a2e.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	clear(line)
	if got := r.(*a2e.MessageReq).Message.Content; string(got) != content {
		t.Errorf("content must keep its bytes, also when the caller's buffer is used again: %s", got)
	}
}

func TestS0_2_Envelope(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]a2e.Envelope{
		`{"type":"SUBAGENT_LIST_REQ"}`:                                              {},
		`{"type":"SUBAGENT_LIST_REQ","id":null,"version":"","ts":"now"}`:            {},
		`{"type":"SUBAGENT_LIST_REQ","id":"7","version":"2","ts":1.5}`:              {ID: "7", Version: "2", TS: 1.5},
		`{"type":"SUBAGENT_LIST_REQ","id":"7","a2e":"2"}`:                           {ID: "7", Version: "2", A2E: "2"},
		`{"type":"SUBAGENT_LIST_REQ","id":"7","version":"1","a2e":"2","req_id":""}`: {ID: "7", Version: "1", A2E: "2"},
	} {
		same(t, line, decode[*a2e.ListReq](t, line).Env(), want)
		same(t, "recovered from "+line, a2e.DecodeEnvelope([]byte(line)), want)
	}
	now := time.UnixMicro(1700000000123456)
	same(t, "a bare request has a bare answer", a2e.Answer(a2e.Envelope{Version: "2"}, now), a2e.Envelope{})
	same(t, "an id is answered", a2e.Answer(a2e.Envelope{ID: "7"}, now), a2e.Envelope{
		ID: "r-7", ReqID: "7", Version: "1.0", A2E: "1.0", TS: 1700000000.123456,
	})
	same(t, "a version is echoed", a2e.Answer(a2e.Envelope{ID: "7", Version: "2"}, now).A2E, "2")
}

func TestDecodeEnvelope_FromBrokenRequests(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100000)
	for line, want := range map[string]string{
		`{"type":"nope","id":"7"}`:                                  "7",
		`{"id":"7","agent":{"name":`:                                "7",
		`{"agent":{"a":"}\"{"},"id":"7","x":tru`:                    "7",
		`{"id":"7","x":"` + "\xff" + `"}`:                           "7",
		`{"id":"7"} trailing`:                                       "7",
		`{"x":` + deep + strings.Repeat("]", 100000) + `,"id":"7"}`: "7",
		`{"x":` + deep:                                              "",
		`{"id":"7`:                                                  "",
		`{"id":"7\"`:                                                "",
		`{"id":7}`:                                                  "",
		`{"id":"` + "\xff" + `"}`:                                   "",
		`{"id":"\ud800"}`:                                           "",
		`{"id":"` + strings.Repeat("x", 257) + `"}`:                 "",
		`{"id":`: "",
		`{"`:     "",
		`{`:      "",
		`["id"]`: "",
		`"id"`:   "",
		``:       "",
	} {
		if got := a2e.DecodeEnvelope([]byte(line)).ID; got != want {
			t.Errorf("the id recovered is %q, not %q: %.80s", got, want, line)
		}
	}
}
