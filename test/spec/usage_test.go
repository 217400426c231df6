package spec

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
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
