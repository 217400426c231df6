package model_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// lookup finds a built-in model.
func lookup(t testing.TB, name string) model.Model {
	t.Helper()
	r, err := model.New(model.Config{})
	if err != nil {
		t.Fatalf("a registry of the built-in models alone was refused: %v", err)
	}
	m, err := r.Lookup(name)
	if err != nil {
		t.Fatalf("%s is built in, but was not found: %v", name, err)
	}
	return m
}

// request is the first step of session 2 of a thread with a task; metadata is key, JSON, key, JSON.
func request(instruction string, metadata ...string) *model.Request {
	return &model.Request{
		Thread: "sub_00000001", Session: 2, Step: 1,
		Config:   a2e.SubagentConfig{Name: "ada"},
		Task:     &a2e.TaskDefinition{Name: "job", Instruction: instruction, Metadata: meta(metadata...)},
		Progress: func(string) {},
	}
}

func meta(kv ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = json.RawMessage(kv[i+1])
	}
	return m
}

func message(session uint64, step int, from actor.ID, content string) model.Entry {
	return model.Entry{Kind: model.EntryMessage, Session: session, Step: step, From: from, Type: "note",
		Content: json.RawMessage(content)}
}

func result(session uint64, step int, content string) model.Entry {
	return model.Entry{Kind: model.EntryResult, Session: session, Step: step, Call: "c1", Name: "tool",
		Content: json.RawMessage(content)}
}

// step takes a step that must not err.
func step(t testing.TB, m model.Model, r *model.Request) *model.Response {
	t.Helper()
	resp, err := m.Step(context.Background(), r)
	if err != nil {
		t.Fatalf("step %d erred, where the model had all it needs: %v", r.Step, err)
	}
	return resp
}

// wantResult checks that the session ended with exactly this JSON.
func wantResult(t testing.TB, resp *model.Response, want string) {
	t.Helper()
	if !resp.Done || resp.Fail != "" || string(resp.Result) != want {
		t.Errorf("the session should end with %s\ngot done=%v fail=%q result=%s", want, resp.Done, resp.Fail, resp.Result)
	}
}
