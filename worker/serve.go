package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/tool"
	"github.com/troupehq/troupe/work"
)

// Model serves the steps of a model. name is what the model finds as Config.Model, "" to leave what the thread has.
// The errors of a provider that are unavailable are tried again by any worker.
func Model(m model.Model, name string) Func {
	return func(ctx context.Context, j *Job) (*Answer, error) {
		r := requestOf(j)
		if name != "" {
			r.Config.Model = name
		}
		resp, err := m.Step(ctx, r)
		switch {
		case err != nil && resp != nil && resp.Usage != nil:
			return &Answer{Response: &work.Response{Usage: usageOf(resp.Usage)}}, err
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, &actor.Error{Op: "worker.Model", ID: j.Thread, Kind: actor.RuntimeError, Err: fmt.Errorf("the model %q returned nothing: no response and no error", r.Config.Model)}
		}
		return &Answer{Response: responseOf(resp)}, nil
	}
}

// Tool serves a tool of a registry.
func Tool(tools *tool.Registry, name string) Func {
	return func(ctx context.Context, j *Job) (*Answer, error) {
		result, err := tools.Call(ctx, name, tool.Call{Thread: j.Thread, Session: j.Session, ID: j.Call, Arguments: j.Arguments})
		switch {
		case err != nil:
			return nil, err
		case result.IsError:
			return nil, &toolError{result.Content}
		case len(result.Files) > 0:
			return nil, &actor.Error{Op: "worker.Tool", Kind: actor.RuntimeError, Err: errFiles}
		}
		return &Answer{Result: result.Content}, nil
	}
}

// A toolError is the result of a tool that failed, as the tool says it.
type toolError struct{ content json.RawMessage }

// Error is what the tool says, or the JSON that it says.
func (e *toolError) Error() string {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(e.content, &said) == nil && said.Message != "" {
		return said.Message
	}
	return string(e.content)
}

// requestOf is what a job asks of a model.
func requestOf(j *Job) *model.Request {
	w := j.Request
	r := &model.Request{
		Thread: j.Thread, Session: j.Session, Step: j.Step, Config: w.Config, Task: w.Task, System: w.System, Schema: w.Schema,
		History: make([]model.Entry, len(w.History)), Progress: j.Progress,
	}
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	for i := range w.History {
		e := &w.History[i]
		r.History[i] = model.Entry{
			Kind: model.EntryKind(e.Kind), Role: model.Role(e.Role), Session: e.Session, Step: e.Step, From: e.From, Type: e.Type, Call: e.Call,
			Name: e.Name, Content: e.Content, Metadata: e.Metadata, IsError: e.IsError, At: e.At,
		}
	}
	return r
}

// responseOf is a model's response as an answer says it.
func responseOf(r *model.Response) *work.Response {
	w := &work.Response{Text: r.Text, Result: r.Result, Done: r.Done, Fail: r.Fail, Sleep: int64(r.Sleep / time.Millisecond)}
	for _, c := range r.Calls {
		w.Calls = append(w.Calls, work.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if r.Usage != nil {
		w.Usage = usageOf(r.Usage)
	}
	return w
}

func usageOf(u *model.Usage) *work.Usage {
	return &work.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens,
		USD: u.USD,
	}
}
