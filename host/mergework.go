package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/work"
)

// A merge may need what workers elsewhere serve: its caller's model, or a function by the name of a tool. Their jobs bear
// the id of a thread, the caller or the first source, with a number that no job of its own ever has. So the answer goes
// into an inbox where nobody waits for it, and is heard on its way there: whoever merges listens before it asks. A merge
// that another process takes over asks again under the same numbers, and finds in the queue what is still there.

// mergeJobs is above the numbers of all jobs that threads ask for. Each merge has mergeAsks numbers from there on.
const (
	mergeJobs = 1 << 48
	mergeAsks = 1 << 16
)

// A combiner carries out one merge.
type combiner struct {
	h     *Host
	n     uint64 // the merge's job
	m     *agent.Merge
	asked uint64      // of workers so far
	used  agent.Usage // by models
}

// step has a model take a step, here or at a worker, and counts what it cost.
func (c *combiner) step(ctx context.Context, r *model.Request) (*model.Response, error) {
	var resp *model.Response
	s, elsewhere := work.ModelService(r.Config.Model)
	if !elsewhere {
		m, err := c.h.Models.Lookup(r.Config.Model)
		if err != nil {
			return nil, err
		}
		resp, err = ask(ctx, m, r)
		c.used.Add(costs(resp))
		return resp, err
	}
	a, err := c.ask(ctx, s, r.Thread, 0, func(j *work.Job) (err error) {
		j.Step = 1
		j.Request, err = requestOf(r)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case a.Error != nil:
		if a.Usage != nil {
			c.used.Add(usageOf(usageFrom(a.Usage)))
		}
		return nil, &actor.Error{Kind: a.Error.Kind(), Err: errors.New(words(a.Error.Message))}
	case a.Response == nil:
		return nil, &actor.Error{Kind: actor.RuntimeError, Err: errors.New("the worker answered with neither response nor error")}
	}
	resp = &model.Response{Text: a.Response.Text, Result: a.Response.Result, Fail: a.Response.Fail, Done: a.Response.Done}
	if a.Response.Usage != nil {
		resp.Usage = usageFrom(a.Response.Usage)
	}
	c.used.Add(costs(resp))
	if isReference(resp.Result) {
		v, err := c.h.value(ctx, resp.Result)
		if err == nil {
			resp.Result, err = c.h.full(ctx, v)
		}
		return resp, err
	}
	return resp, nil
}

// function finds what combines results under a name: a function of this process, else a tool that workers serve, if
// the caller may use it.
func (c *combiner) function(ctx context.Context, name string) (MergeFunc, error) {
	if f := c.h.merger(name); f != nil {
		return f, nil
	}
	none := &actor.Error{Kind: actor.SchemaViolation, Field: "strategy", Err: fmt.Errorf("no merge function for %q is registered, and no tool of that name is a worker's that the caller may use", c.m.Strategy)}
	remote, _ := c.h.Tools.Remote(name, nil)
	if remote == nil {
		return nil, none
	}
	s, err := c.h.scopeOf(ctx, c.m.Caller)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(s.tools, func(pattern string) bool { return matches(pattern, name) }) {
		return nil, none
	}
	if IsThread(c.m.Caller) {
		t, _, err := c.h.thread(ctx, c.m.Caller)
		if err != nil {
			return nil, err
		}
		if t.Composition() == nil && !slices.Contains(t.Config().Capabilities, agent.CapabilityTools) {
			return nil, none
		}
	}
	return func(ctx context.Context, sources []Source) (json.RawMessage, error) {
		return c.call(ctx, name, remote.Timeout, sources)
	}, nil
}

// call has a worker's tool combine results: its arguments are {"sources": [{"subagent_id", "name", "result"}]}, with
// results as references where all would be more than a job's arguments may have.
func (c *combiner) call(ctx context.Context, name string, timeout time.Duration, sources []Source) (json.RawMessage, error) {
	arguments, err := c.arguments(ctx, sources)
	if err != nil {
		return nil, err
	}
	if _, refused := c.h.Tools.Remote(name, arguments); refused != nil {
		return nil, &actor.Error{Kind: actor.SchemaViolation, Field: "strategy", Err: fmt.Errorf("the tool %s does not take results to merge: %.300s", name, refused.Content)}
	}
	a, err := c.ask(ctx, work.Service{Kind: work.Tool, Name: name}, sources[0].SubagentID, timeout, func(j *work.Job) error {
		j.Call, j.Arguments = fmt.Sprintf("merge-%d", c.n), arguments
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case a.Error != nil:
		return nil, &actor.Error{Kind: a.Error.Kind(), Err: errors.New(words(a.Error.Message))}
	case a.Result == nil:
		return nil, &actor.Error{Kind: actor.RuntimeError, Err: errors.New("the worker answered with neither result nor error")}
	}
	v, err := c.h.value(ctx, a.Result)
	if err != nil {
		return nil, err
	}
	return c.h.full(ctx, v)
}

func (c *combiner) arguments(ctx context.Context, sources []Source) (json.RawMessage, error) {
	type source struct {
		Source
		Result json.RawMessage `json:"result"`
	}
	for _, limit := range []int{actor.MaxInline, 256} {
		list := make([]source, len(sources))
		for i, s := range sources {
			v, err := c.h.shrinkTo(ctx, actor.Value{JSON: s.Result}, limit)
			if err != nil {
				return nil, err
			}
			list[i] = source{s, v.JSON}
		}
		data, err := marshal(map[string]any{"sources": list})
		if err != nil || len(data) <= actor.MaxInline {
			return data, err
		}
	}
	return nil, &actor.Error{Kind: actor.TooLarge, Field: "subagent_ids", Err: fmt.Errorf("%d results are more than a worker's job may have", len(sources))}
}

// ask puts a job into the queue of a service and waits for the answer, for no longer than timeout if there is one.
func (c *combiner) ask(ctx context.Context, s work.Service, thread actor.ID, timeout time.Duration, fill func(*work.Job) error) (*work.Answer, error) {
	h, n := c.h, mergeJobs+c.n*mergeAsks+c.asked
	c.asked++
	job := work.Job{V: work.Version, ID: work.ID(thread, n), Kind: s.Kind, Name: s.Name, Thread: thread, Session: 1, Reply: h.Names.Inbox(thread, actor.LaneJob, actor.ID(s.String()))}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no worker answered within %v", timeout))
		defer cancel()
	}
	if at, ok := ctx.Deadline(); ok {
		at = at.UTC()
		job.Deadline = &at
	}
	if err := fill(&job); err != nil {
		return nil, err
	}
	data, err := h.jobData(ctx, &job)
	if err != nil {
		return nil, err
	}
	answers := make(chan *work.Answer, 1)
	stop, err := h.Conn.Subscribe(job.Reply, func(_ string, data []byte) {
		if a, err := work.DecodeAnswer(data); err == nil && a.ID == job.ID {
			select {
			case answers <- a:
			default: // it comes twice
			}
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	return c.await(ctx, h.Names.Work(s.Kind, s.Name, thread, n), data, answers)
}

// await queues a job, again if it is gone without an answer, until there is one or ctx ends. Then it is taken out.
func (c *combiner) await(ctx context.Context, subject string, data []byte, answers <-chan *work.Answer) (*work.Answer, error) {
	h := c.h
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawFor)
		defer cancel()
		if err := h.Conn.Jobs(h.Names).Withdraw(last, subject); err != nil {
			h.Log.Warn().Err(err).Msg("a merge's job was not taken out of the queue")
		}
	}()
	look := time.NewTicker(h.checkAfter())
	defer look.Stop()
	for sent := 0; ; {
		standing := bus.JobAbsent
		err := h.steadily(ctx, "the queue of jobs", func() (err error) {
			if sent > 0 {
				standing, err = h.Conn.Jobs(h.Names).Standing(ctx, subject)
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case standing == bus.JobExhausted, standing == bus.JobAbsent && sent >= maxQueued:
			return nil, errExhausted
		case standing == bus.JobAbsent:
			sent++
			err := h.steadily(ctx, "a job for workers", func() error {
				_, err := h.Conn.Jobs(h.Names).Queue(subject, data).Wait(ctx)
				return err
			})
			if err != nil && !errors.Is(err, actor.Conflict) { // it is there
				return nil, err
			}
		}
		select {
		case a := <-answers:
			return a, nil
		case <-look.C:
		case <-ctx.Done():
			return nil, &actor.Error{Kind: actor.Timeout, Err: context.Cause(ctx)}
		}
	}
}

// spent tells the caller of a merge what its models cost, which counts as the caller's own.
func (x *treeTurn) spent(m *merging, used agent.Usage) {
	if used != (agent.Usage{}) && IsThread(m.From) {
		x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: m.From}, Lane: actor.LaneCtl, Name: agent.KindSpent, Body: agent.Pack(&agent.Spent{Used: used})})
	}
}

// broke refuses a merge by a model for a thread whose budget is used up.
func (x *treeTurn) broke(strategy a2e.Strategy) *actor.Error {
	m := x.members[x.env.From]
	if m == nil || strategy != a2e.HierarchicalSummary {
		return nil
	}
	return x.budgeted(m.Lineage)
}
