package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

type answer struct {
	resp *a2e.AwaitResp
	err  error
}

// awaiting awaits a subagent meanwhile.
func (r room) awaiting(t *testing.T, id actor.ID) <-chan answer {
	t.Helper()
	answers := make(chan answer, 1)
	go func() {
		resp, err := r.Await(r.ctx, id)
		answers <- answer{resp, err}
	}()
	return answers
}

func TestAwaitSurvivesTheHostsRestart(t *testing.T) {
	r := newRoom(t)
	id := r.play(t, `[{"sleep_ms":1000},{"result":{"answer":42}}]`)
	answers := r.awaiting(t, id)
	r.StopHost(t)
	r.StartHost(t)
	if a := next(t, "the answer", answers); a.err != nil || a.resp.Status != a2e.Completed {
		t.Fatalf("after the host's restart: %+v, %v; want COMPLETED", a.resp, a.err)
	}
}

func TestAwaitSurvivesTheServersRestart(t *testing.T) {
	r := newRoom(t)
	id := r.play(t, `[{"sleep_ms":1000},{"result":{"answer":42}}]`)
	answers := r.awaiting(t, id)
	r.StopHost(t)
	r.Server.Stop(t)
	r.Server.Restart(t)
	r.StartHost(t)
	if a := next(t, "the answer", answers); a.err != nil || a.resp.Status != a2e.Completed {
		t.Fatalf("after the server's restart: %+v, %v; want COMPLETED", a.resp, a.err)
	}
}

func TestGather(t *testing.T) {
	r := newRoom(t)
	good := r.play(t, `[{"result":{"n":1}}]`)
	bad := r.play(t, `[{"fail":"no way"}]`)
	slow := r.play(t, `[{"sleep_ms":60000}]`)
	all, err := r.AwaitAll(r.ctx, bad, good, bad)
	if err != nil || len(all) != 2 || all[0].SubagentID != bad || all[1].SubagentID != good {
		t.Fatalf("all: %+v, %v; want both, once each, in the order asked for", all, err)
	}
	one, err := r.AwaitAny(r.ctx, slow, bad, good)
	if err != nil || one.SubagentID != good || string(one.Result) != `{"n":1}` {
		t.Fatalf("any: %+v, %v; want the one that completed, with its result", one, err)
	}
	resp, err := r.Gather(r.ctx, a2e.ModeQuorum, 2, bad, good)
	if err != nil || resp.Status != a2e.Failed || resp.Error == "" {
		t.Fatalf("a quorum that can't be reached: %+v, %v; want FAILED, saying why", resp, err)
	}
	if _, err = r.AwaitAll(r.ctx, slow, "sub_00000000"); actor.KindOf(err) != actor.NotFound {
		t.Fatalf("one of several does not exist: %v; want not_found without waiting for the slow one", err)
	}
	if one, err = r.AwaitAny(r.ctx, bad); err != nil || one.Status != a2e.Failed {
		t.Fatalf("any of those that fail: %+v, %v; want FAILED", one, err)
	}
}

func TestManyAwaitTogether(t *testing.T) {
	r := newRoom(t)
	var ids []actor.ID
	for i := range 50 {
		id := r.spawn(t, fmt.Sprint("s", i), "builtin/echo")
		r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: fmt.Sprint(i)})
		ids = append(ids, id)
	}
	all, err := r.AwaitAll(r.ctx, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for i, resp := range all {
		if want := fmt.Sprintf(`{"output":"%d"}`, i); string(resp.Result) != want {
			t.Fatalf("answer %d is %s, want %s", i, resp.Result, want)
		}
	}
}

// CASES 26: what travels by reference arrives exact.
func TestLargeResultsAreInlined(t *testing.T) {
	r := newRoom(t)
	mail := make(chan client.Delivery, 10)
	serve(t, "Mail", func(ctx context.Context) error { return r.Mail(ctx, 0, func(d client.Delivery) { mail <- d }) })
	text := strings.Repeat("Straße <日本> & \u2028 🌍 ", 20_000)
	want, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, got json.RawMessage) {
		t.Helper()
		var is string
		if err := json.Unmarshal(got, &is); err != nil || is != text {
			t.Fatalf("%s: %d bytes that are not the %d that were meant: %.80s, %v", what, len(got), len(want), got, err)
		}
	}
	var fields map[string]json.RawMessage
	read := func(raw json.RawMessage) map[string]json.RawMessage {
		t.Helper()
		fields = nil
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatalf("%.100s: %v", raw, err)
		}
		return fields
	}
	id := r.spawn(t, "s", "builtin/echo")
	r.task(t, id, a2e.TaskDefinition{Name: "t", Instruction: text})
	resp, err := r.Await(r.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	same("the result", read(resp.Result)["output"])
	same("the mail", read(next(t, "the completion", mail).Completion.Result)["output"])
	merged, err := r.Merge(r.ctx, a2e.Voting, id)
	if err != nil {
		t.Fatal(err)
	}
	same("the merged result", read(read(merged)["answer"])["output"])
}

// What a failed subagent had so far may be large, too.
func TestLargePartialResult(t *testing.T) {
	t.Parallel()
	conn := natstest.Conn(t, natstest.Start(t))
	ctx, names := natstest.Context(t), natstest.Names(t)
	if _, err := conn.Ensure(ctx, bus.Layout{Names: names}); err != nil {
		t.Fatal(err)
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	partial := `"` + strings.Repeat("<p> & ", 50_000) + `"`
	ref, err := st.Blobs.Put(ctx, []byte(partial))
	if err != nil {
		t.Fatal(err)
	}
	result, err := json.Marshal(map[string]any{"error": "enough", "partial": map[string]any{"$blob": ref}})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, "the door", func(ctx context.Context) error {
		return serveDoor(ctx, conn, names, func(env a2e.Envelope) a2e.Message {
			return &a2e.AwaitResp{Envelope: a2e.Answer(env, time.Now()), SubagentID: "sub_00000001", Status: a2e.Failed, Result: result, Error: "enough"}
		})
	})
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Await(ctx, "sub_00000001")
	if want := `{"error":"enough","partial":` + partial + `}`; err != nil || string(resp.Result) != want {
		t.Fatalf("%.80s, %v; want the partial result in the place of its reference", resp.Result, err)
	}
}

// What only looks like a reference is the subagent's own result, and stays.
func TestNoReference(t *testing.T) {
	r := newRoom(t)
	for _, result := range []string{
		`{"$blob":"x"}`,
		`{"$blob":{"bucket":"mine","name":"n","digest":"d","size":1}}`,
		`{"$blob":{"bucket":"troupe_blobs","name":"n","digest":"d","size":1}}`,
		`{"other":1,"$blob":{"bucket":"troupe_blobs","name":"n","digest":"d","size":1}}`,
	} {
		r.wants(t, r.play(t, `[{"result":`+result+`}]`), a2e.Completed, result)
	}
}
