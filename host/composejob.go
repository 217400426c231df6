package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/tool"
)

// A callAt is where a tool was called.
type callAt struct {
	actor.Lineage
	session uint64
}

// composedJob carries out a job of a composed thread.
func (h *Host) composedJob(ctx context.Context, at callAt, job actor.Job) (answer agent.JobAnswer) {
	var err error
	switch job.Kind {
	case agent.JobPrepare:
		answer.Prepared, err = steady[agent.Prepare](ctx, h, job, func(p *agent.Prepare) (*agent.Prepared, error) {
			return h.prepare(ctx, at.Lineage, p)
		})
	case agent.JobDeliver:
		answer.Delivered, err = steady[agent.Deliver](ctx, h, job, func(d *agent.Deliver) (*agent.Delivered, error) {
			return h.deliver(ctx, at.ID, d)
		})
	case agent.JobSubagents:
		answer.Content, err = steady[agent.Snapshot](ctx, h, job, func(s *agent.Snapshot) (actor.Value, error) {
			return h.snapshot(ctx, at.Lineage, s.Relationships)
		})
	case agent.JobTool:
		return h.toolJob(ctx, at, job.Body)
	}
	if err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	return answer
}

// steady unpacks a job's body for f, and does it again while nobody answers.
func steady[B, A any](ctx context.Context, h *Host, job actor.Job, f func(*B) (A, error)) (answer A, err error) {
	var body B
	if err := agent.Unpack(job.Body, &body); err != nil {
		return answer, err
	}
	err = h.steadily(ctx, job.Kind, func() (err error) {
		answer, err = f(&body)
		return err
	})
	return answer, err
}

// toolJob calls a tool. What fails is its result, for the model to read.
func (h *Host) toolJob(ctx context.Context, at callAt, body []byte) agent.JobAnswer {
	var call agent.ToolCall
	if err := agent.Unpack(body, &call); err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	result, err := h.Tools.Call(ctx, call.Name, tool.Call{Thread: at.ID, Session: at.session, ID: call.ID, Arguments: call.Arguments})
	if err != nil {
		data, encodeErr := a2e.Encode(a2e.NewError(a2e.Envelope{}, time.Now(), err))
		if encodeErr != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		result = tool.Result{Content: data, IsError: true}
	}
	if !json.Valid(result.Content) {
		result.Content = json.RawMessage("null")
	}
	v, err := h.kept(ctx, result.Content)
	if err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	answer := agent.JobAnswer{Content: v}
	if result.IsError {
		answer.Err = "tool"
	}
	return answer
}
