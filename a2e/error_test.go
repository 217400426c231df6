package a2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

func TestS0_4_Errors(t *testing.T) {
	t.Parallel()
	cause := errors.New("must be an integer")
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			&actor.Error{Op: "a2e.Decode", Kind: actor.SchemaViolation, Field: "agent.max_steps", Err: cause},
			`"code":"schema_violation","message":"agent.max_steps: must be an integer","detail":{"field":"agent.max_steps"},"retryable":false}`,
		},
		{
			fmt.Errorf("spawn: %w", &actor.Error{Op: "host.Spawn", ID: "sub_1", Kind: actor.QuotaExceeded}),
			`"code":"quota_exceeded","message":"quota exceeded","detail":{"id":"sub_1"},"retryable":true}`,
		},
		{actor.NotFound, `"code":"not_found","message":"not_found","detail":{},"retryable":false}`},
		{errors.New("disk <full>"), `"code":"runtime_error","message":"disk <full>","detail":{},"retryable":true}`},
		{nil, `"code":"runtime_error","message":"","detail":{},"retryable":true}`},
	} {
		now := time.UnixMicro(1700000000000000)
		bare, err := a2e.Encode(a2e.NewError(a2e.Envelope{}, now, c.err))
		if want := `{"type":"error",` + c.want; err != nil || string(bare) != want {
			t.Errorf("the answer to a bare request (%v)\nis    %s\nwants %s", err, bare, want)
		}
		line, err := a2e.Encode(a2e.NewError(a2e.Envelope{ID: "7"}, now, c.err))
		want := `{"type":"error","id":"r-7","req_id":"7","version":"1.0","a2e":"1.0","ts":1700000000,` + c.want
		if err != nil || string(line) != want {
			t.Errorf("the answer to a request with an id (%v)\nis    %s\nwants %s", err, line, want)
		}
	}
}

func TestError_ErrIsTheInverse(t *testing.T) {
	t.Parallel()
	was := &actor.Error{Op: "host.Spawn", ID: "sub_1", Kind: actor.Conflict, Field: "subagent_id", Err: errors.New("is busy")}
	line, err := a2e.Encode(a2e.NewError(a2e.Envelope{ID: "7"}, time.UnixMicro(1), was))
	if err != nil {
		t.Fatal(err)
	}
	m, err := a2e.DecodeAnswer(line)
	if err != nil {
		t.Fatalf("our own error is refused: %v\n%s", err, line)
	}
	got := asError(t, m.(*a2e.Error).Err())
	want := "sub_1: conflict: subagent_id: is busy"
	if got.Error() != want || got.ID != was.ID || got.Field != was.Field || !errors.Is(got, actor.Conflict) {
		t.Errorf("the caller should see %q, not %q", want, got)
	}
	if got := (&a2e.Error{Code: actor.Timeout}).Err().Error(); got != "timeout" {
		t.Errorf("an error without a message is its code, not %q", got)
	}
}

func TestDecodeAnswer_Refuses(t *testing.T) {
	t.Parallel()
	for line, field := range map[string]string{
		`{"type":"SUBAGENT_SPAWN_RESP","subagent_id":"s","status":"DONE"}`:                                "status",
		`{"type":"SUBAGENT_DELEGATE_RESP","status":"READY","accepted":"yes"}`:                             "accepted",
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"s","status":"READY","result":[]}`:                   "result",
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"","status":"READY"}`:                                "subagent_id",
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"s","status":"READY","results":[7]}`:                 "results[0]",
		`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"","status":"READY","results":[{"status":"READY"}]}`: "results[0].subagent_id",
		`{"type":"SUBAGENT_LIST_RESP","subagents":[null]}`:                                                "subagents[0]",
		`{"type":"SUBAGENT_LIST_RESP","subagents":[{"subagent_id":"s","name":"n","status":"READY"}]}`:     "subagents[0].config",
		`{"type":"SUBAGENT_MERGE_RESP","merged_result":null}`:                                             "merged_result",
		`{"type":"SUBAGENT_EVENT","subagent_id":"s","event":"e","content":[]}`:                            "content",
		`{"type":"error","message":"m"}`:                                                                  "code",
		`{"type":"error","code":"timeout","detail":"d"}`:                                                  "detail",
		`{"type":7}`: "type",
		`{"type":`:   "",
	} {
		m, err := a2e.DecodeAnswer([]byte(line))
		if e := asError(t, err); e == nil || e.Field != field {
			t.Errorf("must be refused on %q, is %v %v: %s", field, m, err, line)
		}
	}
}
