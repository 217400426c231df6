package host

import (
	"context"
	"encoding/json"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

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
	case agent.JobSnapshot:
		answer.Content, err = steady[agent.SnapshotOf](ctx, h, job, func(s *agent.SnapshotOf) (actor.Value, error) {
			digest, err := h.snapshotFor(ctx, s.Parent)
			if err != nil {
				return actor.Value{}, err
			}
			data, err := json.Marshal(digest)
			return actor.Value{JSON: data}, err
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
