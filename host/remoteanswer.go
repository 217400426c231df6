package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/work"
)

// Answers of workers come on lane job, which is open to them, and are JSON. They have no envelope id: each is new by
// its place in the inbox, and one cursor rules lanes job and ctl, for both wait in one queue. That an answer comes
// twice, from one worker or from two, needs no ledger: a job's number is never used again, and the thread takes an
// answer only to a job that it waits for.

// fromWorker reads an answer. One that does not say which job of this thread it is for is an error; of any other the
// cell of the thread says what is wrong with it.
func fromWorker(d bus.Delivery) ([]actor.Envelope, error) {
	a, err := work.DecodeAnswer(d.Data)
	if err != nil && a.ID == "" {
		return nil, err
	}
	thread, n, err := work.ParseID(a.ID)
	if err != nil {
		return nil, err
	}
	if thread != d.To {
		return nil, fmt.Errorf("the answer is to a job of %.300q", thread)
	}
	return []actor.Envelope{{From: d.From, Kind: kindWorker, Session: n, Body: d.Data, Seq: d.Seq, Lane: d.Lane, At: d.Time}}, nil
}

// admit makes what Decide takes of a worker's answer. It reports false for one that changes nothing: to a job that is
// over, or not from whom the job was for, which is a dead letter.
func (c *cell) admit(ctx context.Context, e *actor.Envelope) (bool, error) {
	t, ok := c.machine.(*agent.Thread)
	job, waits := c.outstanding(e.Session)
	if !ok || !waits {
		return false, nil
	}
	r := c.p.h.remoteOf(t, job)
	if r == nil || actor.ID(r.service.String()) != e.From {
		c.refuseAnswer(e, fmt.Sprintf("job %d is not for %s", e.Session, e.From))
		return false, nil
	}
	answer, err := c.p.h.takeAnswer(ctx, r.service, e.Body)
	switch actor.KindOf(err) {
	case "":
	case actor.ParseError, actor.SchemaViolation, actor.NotFound:
		c.refuseAnswer(e, err.Error())
		answer = failedAs(r.service, &actor.Error{Kind: actor.RuntimeError, Err: fmt.Errorf("the worker's answer can't be used: %w", err)}).JobAnswer
	default:
		return false, err
	}
	answer.N = job.N
	if job.Kind == agent.JobModel {
		c.p.h.counters.stepped(c.thinksWith(job), endOf(ctx, answer.Err), 0)
	}
	e.Kind, e.Body = agent.KindJob, agent.Pack(&answer)
	return true, nil
}

func (c *cell) refuseAnswer(e *actor.Envelope, why string) {
	c.p.bad(c.addr.ID, c.p.h.Names.Inbox(c.addr.ID, e.Lane, e.From), why, e.Body)
}

// takeAnswer turns an answer into what a thread takes. The Kinds parse_error, schema_violation and not_found mean
// that the answer is wrong, and how.
func (h *Host) takeAnswer(ctx context.Context, s work.Service, data []byte) (answer agent.JobAnswer, err error) {
	wrong := func(field, why string) error {
		return &actor.Error{Op: "host.takeAnswer", Kind: actor.SchemaViolation, Field: field, Err: errors.New(why)}
	}
	a, err := work.DecodeAnswer(data)
	if err != nil {
		return answer, err
	}
	switch {
	case a.Error != nil:
		failure := &actor.Error{Kind: a.Error.Kind(), Err: errors.New(words(a.Error.Message))}
		answer = failedAs(s, failure).JobAnswer
		if a.Usage != nil && s.Kind == work.Model {
			answer.Step.Used = usageOf(usageFrom(a.Usage))
		}
		return answer, nil
	case s.Kind == work.Tool && a.Result == nil:
		return answer, wrong("result", "a tool is answered with a result or an error")
	case s.Kind == work.Model && a.Response == nil:
		return answer, wrong("response", "a model's step is answered with a response or an error")
	case s.Kind == work.Tool:
		answer.Content, err = h.value(ctx, a.Result)
		return answer, err
	}
	answer.Step, err = h.respond(ctx, a.Response)
	return answer, err
}

// respond turns a worker's response into a step.
func (h *Host) respond(ctx context.Context, r *work.Response) (agent.Step, error) {
	resp := &model.Response{Text: r.Text, Result: r.Result, Fail: r.Fail, Done: r.Done, Sleep: time.Duration(r.Sleep) * time.Millisecond}
	for _, call := range r.Calls {
		arguments := call.Arguments
		if string(arguments) == "null" {
			arguments = nil
		}
		resp.Calls = append(resp.Calls, model.Call{ID: call.ID, Name: call.Name, Arguments: arguments})
	}
	if r.Usage != nil {
		resp.Usage = usageFrom(r.Usage)
	}
	step, err := h.stepOf(ctx, resp)
	if err == nil && r.Done && isReference(r.Result) {
		step.Result, err = h.value(ctx, r.Result)
	}
	return step, err
}

func usageFrom(u *work.Usage) *model.Usage {
	return &model.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens,
		USD: u.USD,
	}
}

// value keeps a value that came from a worker: one that is large goes into a blob, one that is the reference of a
// blob has to name one that is stored here.
func (h *Host) value(ctx context.Context, data json.RawMessage) (actor.Value, error) {
	if !isReference(data) {
		return h.shrink(ctx, actor.Value{JSON: data})
	}
	v := actor.Value{JSON: data, Blob: true}
	ref, err := refOf(v)
	if err != nil {
		return v, &actor.Error{Op: "host.value", Kind: actor.SchemaViolation, Field: "$blob", Err: err}
	}
	if err := h.Store.Blobs.Stat(ctx, ref); err != nil {
		return v, err
	}
	v.JSON, err = json.Marshal(map[string]store.Ref{"$blob": ref})
	return v, err
}

// isReference reports whether a value is no more than the reference of a blob.
func isReference(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(data, &fields) == nil && len(fields) == 1 && len(fields["$blob"]) > 0
}
