package spec

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// What steps cost is told by the completion, for the session, and by the registry entry, for the thread's life.
func TestUsage(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/paid": modelFunc(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{
			Done: true, Result: json.RawMessage(`{}`),
			Usage: &model.Usage{InputTokens: 1000, OutputTokens: 20, CacheReadTokens: 800, CacheWriteTokens: 100, USD: 0.0012345},
		}, nil
	})})
	id := s.spawn(me, `"model":"test/paid"`)
	for range 2 {
		s.delegate(me, id, `null`)
		s.await(me, id)
	}
	s.settled(me)
	s.mail(me, id, "2").is("usage", `{"steps":1,"input_tokens":1000,"output_tokens":20,"cache_read_tokens":800,"cache_write_tokens":100,"usd":0.001235}`)
	if u := s.entry(id).Usage; u == nil || u.Steps != 2 || u.Tokens() != 2040 || u.USD != 2470 {
		t.Errorf("the registry tells %+v of two steps, want 2,040 tokens and $0.00247", u)
	}
}

// A model that writes something else than arguments reads so, as the result of the call, and nothing is called.
func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	read := make(chan string, 1)
	s := startWith(t, host.Config{}, map[string]model.Model{"test/sloppy": modelFunc(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if r.Step == 1 {
			args, err := json.Marshal(map[string]string{model.InvalidArguments: `{"agent": {"name"`})
			return &model.Response{Calls: []model.Call{{ID: "c1", Name: "subagent_spawn", Arguments: args}}}, err
		}
		last := r.History[len(r.History)-1]
		if !last.IsError {
			read <- "no error"
		}
		read <- string(last.Content)
		return &model.Response{Done: true, Result: json.RawMessage(`{}`)}, nil
	})})
	id := s.spawn(me, `"model":"test/sloppy","capabilities":["multi_agent"]`)
	s.delegate(me, id, `null`)
	s.await(me, id).is("status", `"COMPLETED"`)
	if got := next(s, "what the model reads", read); !strings.Contains(got, `must be a JSON object`) || !strings.Contains(got, `\"agent\\\": {`) {
		t.Errorf("the model reads %s, want that its arguments are no JSON, and what they were", got)
	}
	if n := s.entries(); n != 1 {
		t.Errorf("the registry has %d subagents, want 1: the call was made all the same", n)
	}
}

// What a model told of the cost of steps that came to nothing counts: of one that failed, and of one that was broken off,
// after its session has ended.
func TestStepsThatComeToNothingCost(t *testing.T) {
	t.Parallel()
	cost := &model.Response{Usage: &model.Usage{InputTokens: 300, OutputTokens: 40, USD: 0.002}}
	entered := make(chan struct{}, 1)
	s := startWith(t, host.Config{}, map[string]model.Model{
		"test/fails": modelFunc(func(context.Context, *model.Request) (*model.Response, error) {
			return cost, errors.New("the stream broke")
		}),
		"test/hangs": modelFunc(func(ctx context.Context, _ *model.Request) (*model.Response, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return cost, ctx.Err()
		}),
		"test/nothing": modelFunc(func(context.Context, *model.Request) (*model.Response, error) { return nil, nil }),
	})
	boss := s.spawn(me, `"model":"builtin/echo","budget":{"tokens":1020}`)
	child := func(name string) string {
		id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"c","model":%q}}`, boss, name).text("subagent_id")
		s.delegate(me, id, `null`)
		return id
	}
	tells := func(id string) {
		t.Helper()
		natstest.Await(t, id+" tells what its step cost", func() bool {
			u := s.entry(id).Usage
			return u != nil && u.InputTokens == 300 && u.OutputTokens == 40 && u.USD == 2000
		})
	}
	failed := child("test/fails")
	s.await(me, failed).is("error", `"the stream broke"`)
	tells(failed)
	hangs := child("test/hangs")
	next(s, "the step", entered)
	s.cancel(me, hangs).is("event", `"cancelled"`)
	tells(hangs)
	mute := s.spawn(me, `"model":"test/nothing"`)
	s.delegate(me, mute, `null`)
	if got := s.await(me, mute).text("error"); !strings.Contains(got, "returned nothing: no response and no error") {
		t.Errorf("a model that gives neither a response nor an error ends as %q", got)
	}
	spent := func() bool {
		got := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":"last","model":"m"}}`, boss)
		return got.has("code") && got.text("code") == "quota_exceeded"
	}
	if spent() {
		t.Error("680 of 1020 tokens were told of, and nothing is left")
	}
	s.await(me, child("test/fails"))
	natstest.Await(t, "the budget of 1020 tokens is used up by steps that came to nothing", spent)
	s.noDeadLetters()
}
