package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

// completed spawns subagents that have completed with the results.
func (s *stage) completed(agent string, results ...string) (ids []string) {
	s.t.Helper()
	for _, result := range results {
		id := s.spawn(agent, `"model":"builtin/script"`)
		s.delegate(agent, id, fmt.Sprintf(`[{"result":%s}]`, result))
		s.await(agent, id).is("status", `"COMPLETED"`)
		ids = append(ids, id)
	}
	return ids
}

func (s *stage) merge(agent, strategy string, ids ...string) answer {
	s.t.Helper()
	got := s.ask(agent, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":["%s"],"strategy":%q}`, strings.Join(ids, `","`), strategy)
	got.is("type", `"SUBAGENT_MERGE_RESP"`)
	return got.at("merged_result")
}

// sources gives the ids of the sources of a merged result.
func sources(merged answer) (ids []string) {
	for _, one := range merged.list("sources") {
		ids = append(ids, one.text("subagent_id"))
	}
	return ids
}

// TestS0_13_Sources: "takes the COMPLETED ones in request order, each once; others are listed in
// merged_result.skipped with their status. None completed: {"strategy":…,"sources":[],"skipped":[…]}."
func TestS0_13_Sources(t *testing.T) {
	t.Parallel()
	s := start(t)
	done := s.completed(me, `{"answer":1}`, `{"answer":1}`, `{"answer":2}`)
	ready, failed, cancelled, terminated, running := s.spawn(me, `"model":"m"`), s.run(me, `[{"fail":"no"}]`), s.spawn(me, `"model":"m"`),
		s.completed(me, `{"answer":3}`)[0], s.run(me, `[{"sleep_ms":3600000}]`)
	s.await(me, failed)
	s.cancel(me, cancelled)
	s.terminate(me, terminated)
	others := []string{ready, failed, cancelled, terminated, running}
	var skipped []string
	for i, status := range []string{"READY", "FAILED", "CANCELLED", "TERMINATED", "RUNNING"} {
		skipped = append(skipped, fmt.Sprintf(`{"subagent_id":%q,"status":%q}`, others[i], status))
	}
	for _, strategy := range []string{"hierarchical_summary", "voting"} {
		s.merge(me, strategy, others...).is("sources", `[]`)
		s.merge(me, strategy, others...).same(fmt.Sprintf(`{"strategy":%q,"sources":[],"skipped":[%s]}`, strategy, strings.Join(skipped, ",")))
	}
	for _, strategy := range []string{"custom", "custom:anything"} {
		s.refused("schema_violation", "strategy", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q],"strategy":%q}`, ready, strategy)
	}
	all := []string{running, done[2], failed, done[0], done[2], ready, done[1], done[0], cancelled, running, terminated}
	got := s.merge(me, "voting", all...)
	if fmt.Sprint(sources(got)) != fmt.Sprint([]string{done[2], done[0], done[1]}) {
		t.Errorf("the sources are %v, want those that completed, in request order and each once", sources(got))
	}
	if n := len(got.list("skipped")); n != 5 {
		t.Errorf("%d were skipped, want 5: %s", n, got.raw)
	}
	got.is("answer", `1`)
	s.refused("schema_violation", "strategy", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q],"strategy":"shouting"}`, done[0])
	s.refused("not_found", "subagent_ids[1]", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q,"sub_00000000"]}`, done[0])
}

// TestS0_13_Voting: "the majority over the canonical JSON of result.answer, else result.vote, else the whole
// result; ties go to the earliest in request order and say tie:true; failed children never vote."
func TestS0_13_Voting(t *testing.T) {
	t.Parallel()
	s := start(t)
	ids := s.completed(me, `{"answer":{"b":1,"a":[1,2]},"vote":"x"}`, `{"vote":"y"}`, `{"answer":{"a":[1,2],"b":1}}`, `{"vote":"y","why":"?"}`,
		`{"vote":"y"}`, `{"answer":"y"}`, `{"b":2,"a":1}`, `{"a":1,"b":2}`, `{"answer":null}`, `{"answer":1.0}`, `{"answer":1}`)
	failing := s.run(me, `[{"say":"y"},{"fail":"no"}]`)
	s.await(me, failing).is("status", `"FAILED"`)

	got := s.merge(me, "voting", ids[0], ids[1], ids[2], failing)
	got.is("answer", `{"a":[1,2],"b":1}`)
	got.is("votes", `2`)
	got.missing("tie")
	got = s.merge(me, "voting", ids...)
	got.is("answer", `"y"`)
	got.is("votes", `4`)
	got = s.merge(me, "voting", failing, ids[6], ids[0], ids[7])
	got.is("answer", `{"a":1,"b":2}`)
	got = s.merge(me, "voting", ids[1], ids[0], ids[2], ids[3])
	got.is("answer", `"y"`)
	got.is("votes", `2`)
	got.is("tie", `true`)
	got = s.merge(me, "voting", ids[2], ids[1], ids[3], ids[0])
	got.is("answer", `{"a":[1,2],"b":1}`)
	got.is("tie", `true`)
	s.merge(me, "voting", ids[8]).is("answer", `null`)
	s.merge(me, "voting", ids[9], ids[10]).is("answer", `1.0`)
}

// TestS0_13_Custom: "custom, or custom:<name>: a merge function registered in Go."
func TestS0_13_Custom(t *testing.T) {
	t.Parallel()
	joined := func(name string) host.MergeFunc {
		return func(_ context.Context, sources []host.Source) (json.RawMessage, error) {
			var parts []string
			for _, one := range sources {
				parts = append(parts, string(one.SubagentID)+"="+string(one.Result))
			}
			return json.Marshal(name + ": " + strings.Join(parts, " "))
		}
	}
	panics := func(context.Context, []host.Source) (json.RawMessage, error) { panic("no ink") }
	s := startWith(t, host.Config{Merges: map[string]host.MergeFunc{"custom": joined("plain"), "best of": joined("best"), "panics": panics}}, nil)
	ids := s.completed(me, `{"n":1}`, `{"n":2}`)
	want := fmt.Sprintf(`%s={"n":2} %s={"n":1}`, ids[1], ids[0])
	s.merge(me, "custom", ids[1], ids[0]).is("result", quote("plain: "+want))
	s.merge(me, "custom:best of", ids[1], ids[0]).is("result", quote("best: "+want))
	s.refused("schema_violation", "strategy", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q],"strategy":"custom:worst"}`, ids[0])
	s.refused("runtime_error", "", me, `{"type":"SUBAGENT_MERGE_REQ","subagent_ids":[%q],"strategy":"custom:panics"}`, ids[0])
	s.merge(me, "custom", ids[0]).is("strategy", `"custom"`)
}

// TestS0_13_FailedMergeMayBeRepeated: an answer that says "retryable" is not kept under its request's id.
func TestS0_13_FailedMergeMayBeRepeated(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	flaky := func(context.Context, []host.Source) (json.RawMessage, error) {
		switch runs.Add(1) {
		case 1:
			return nil, &actor.Error{Kind: actor.Unavailable}
		case 2:
			return nil, errors.New("no ink")
		}
		return json.RawMessage(`"at last"`), nil
	}
	s := startWith(t, host.Config{Merges: map[string]host.MergeFunc{"custom": flaky}}, nil)
	id := s.completed(me, `1`)[0]
	const merge = `{"type":"SUBAGENT_MERGE_REQ","id":"one","subagent_ids":[%q],"strategy":"custom"}`
	s.refused("unavailable", "", me, merge, id)
	s.refused("runtime_error", "", me, merge, id)
	for range 2 {
		if got := s.ask(me, merge, id); !strings.Contains(got.raw, "at last") {
			t.Errorf("the third try was answered %s", got.raw)
		}
	}
	if n := runs.Load(); n != 3 {
		t.Errorf("the merge ran %d times; once it has succeeded it must not run again", n)
	}
}

// TestS0_13_Summary: "hierarchical_summary: a tree of summaries with a fan-in of 8, by the parent's model,
// or by the built-in extractive summariser when no model is set."
func TestS0_13_Summary(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var most atomic.Int32
	s := startWith(t, host.Config{}, map[string]model.Model{"test/summariser": modelFunc(func(_ context.Context, r *model.Request) (*model.Response, error) {
		calls.Add(1)
		n := int32(strings.Count(r.Task.Instruction, "<document>"))
		most.Store(max(most.Load(), n))
		return &model.Response{Done: true, Result: json.RawMessage(fmt.Sprintf(`{"summary":"of %d"}`, n))}, nil
	})})
	parent := s.spawn(me, `"model":"test/summariser"`)
	var results []string
	for i := range 20 {
		results = append(results, fmt.Sprintf(`{"summary":"Finding number %d is about ships."}`, i))
	}
	ids := s.completed(parent, results...)
	got := s.merge(parent, "hierarchical_summary", ids...)
	got.is("summary", `"of 3"`)
	if calls.Load() != 4 || most.Load() != 8 {
		t.Errorf("20 results took %d calls with up to %d documents, want 8 + 8 + 4 and then 3", calls.Load(), most.Load())
	}
	if fmt.Sprint(sources(got)) != fmt.Sprint(ids) {
		t.Errorf("the sources are %v, want %v", sources(got), ids)
	}
	got = s.merge(me, "hierarchical_summary", ids...)
	if text := got.text("summary"); !strings.Contains(text, "is about ships.") {
		t.Errorf("the extractive summary is %q", text)
	}
	if calls.Load() != 4 {
		t.Errorf("the model of the subagent was asked for the agent outside")
	}
	got = s.merge(me, "hierarchical_summary", s.completed(me, `{"output":"All of it."}`)...)
	got.is("summary", `"All of it."`)
}
