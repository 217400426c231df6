package host

import (
	"context"
	"encoding/json"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/work"
)

// serveWorkers takes, for all hosts together, what is told of the jobs that workers elsewhere have: how they are
// going, and that one is given up. That a job is going every host hears, for any may have to know. It runs until ctx
// ends.
func (h *Host) serveWorkers(ctx context.Context) error {
	shared, err := h.hearing(ctx, func() (func(), error) {
		return h.Conn.Share(h.Names.JobsProgress(), "hosts", func(subject string, data []byte) { h.passOn(ctx, subject, data) })
	})
	if shared == nil {
		return err
	}
	defer shared()
	heard, err := h.hearing(ctx, func() (func(), error) { return h.Conn.Subscribe(h.Names.JobsProgress(), h.noteSign) })
	if heard == nil {
		return err
	}
	defer heard()
	for again := (pace{}); ; {
		err := h.Conn.Jobs(h.Names).ServeExhausted(ctx, h.exhausted)
		if err == nil || !again.failed(ctx, h.Log.WithLevel(again.level()).Err(err).Str("what", "jobs that are given up")) {
			return nil
		}
	}
}

// hearing subscribes to something, however long the server is away. stop is nil when ctx ended first, or with the error.
func (h *Host) hearing(ctx context.Context, subscribe func() (stop func(), err error)) (stop func(), err error) {
	err = h.patiently(ctx, "what processes tell each other", func() (err error) {
		stop, err = subscribe()
		return err
	})
	return stop, err
}

// exhausted tells the actor of a job that workers were given as often as it may be. It is told once it has the
// message, whoever owns it, and once only matters: a job that is over takes no answer.
func (h *Host) exhausted(ctx context.Context, subject string) error {
	kind, name, thread, n, err := h.Names.ParseWork(subject)
	if err != nil {
		return nil // somebody put something else into the stream
	}
	s := work.Service{Kind: kind, Name: name}
	answer := failedAs(s, errExhausted).JobAnswer
	answer.N = n
	h.Log.Warn().Str("actor", string(thread)).Uint64("job", n).Str("service", s.String()).Msg("workers were given a job as often as it may be")
	env := actor.Envelope{Kind: agent.KindJob, From: actor.ID(s.String()), Session: n, Body: agent.Pack(&answer)}
	_, err = h.Conn.Send(h.Names.Inbox(thread, actor.LaneCtl, env.From), seal([]actor.Envelope{env})).Wait(ctx)
	return err
}

// passOn tells watchers how a job is going, if its thread waits for it.
func (h *Host) passOn(ctx context.Context, subject string, data []byte) {
	id, n, _, err := h.Names.ParseJob(subject)
	var said work.Progress
	if err != nil || json.Unmarshal(data, &said) != nil || said.Progress == "" {
		return
	}
	t, _, err := h.thread(ctx, id)
	if err != nil {
		return
	}
	jobs, _ := t.Outstanding()
	for _, job := range jobs {
		if job.N == n {
			session, step, _, _ := t.At()
			h.progress(t.Lineage(), session, step, clip(said.Progress, toldAtMost))
		}
	}
}
