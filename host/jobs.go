package host

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// timerHold is how long a timer is kept in memory before it is written: most sessions are over by then.
const timerHold = time.Second

// start begins the jobs and arms the timers of a turn, and ends those that no longer matter. An actor
// with any of them in this process is busy: a new owner of the partition has to start them again.
func (c *cell) start(turn *actor.Turn, first uint64) {
	if first == 0 {
		c.owe() // before the job or timer that led to it is gone
	}
	for _, n := range turn.Abort {
		c.jobOver(n)
	}
	for _, name := range turn.Disarm {
		c.disarm(name)
	}
	mark := c.p.watermark()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	if c.pin == 0 {
		if c.pin = first; first == 0 {
			c.pin = mark + 1
		}
	}
	for _, job := range turn.Jobs {
		if c.jobs[job.N] != nil {
			continue // a turn that is taken again: it runs
		}
		c.begin(job)
	}
	for _, t := range turn.Timers {
		c.arm(t)
	}
	c.alarm(c.machine.Wake())
}

func (c *cell) owe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = true
}

// begin starts a job in a goroutine of its own. While the partition is handed over it only notes it: the next owner starts
// it. The caller holds c.mu.
func (c *cell) begin(job actor.Job) {
	ctx, cancel := context.WithCancel(c.p.work)
	t := &task{actor: c.addr, n: job.N, kind: job.Kind, cancel: cancel, over: ctx.Done()}
	c.jobs[job.N] = t
	if c.p.handing.Load() {
		return
	}
	if from, ok := c.p.lentTo(c.addr, job.N); ok {
		t.lent = from
	}
	work, root, model := c.work(job), c.root(), c.thinksWith(job)
	t.remote = c.remotes[job.N] != nil
	c.p.h.background.Go(func() { c.do(ctx, t, root, model, work) })
}

// do runs a job when there is room for it, and brings the answer to the actor. One that another process still carries
// out is only run when no answer is to be expected from there any more.
func (c *cell) do(ctx context.Context, t *task, root actor.ID, model string, work func(context.Context) deed) {
	c.lining.Add(1)
	if t.lent != nil && !c.expect(ctx, t) {
		c.lining.Add(-1)
		return
	}
	leave, err := c.p.h.slots.enter(ctx, root, model)
	if err != nil {
		c.lining.Add(-1)
		return // nobody waits for the answer any more
	}
	c.p.h.tasks.add(t)
	c.alive.Store(time.Now().UnixMicro()) // it begins
	c.working.Add(1)
	c.lining.Add(-1)
	out := deed{JobAnswer: agent.JobAnswer{Err: "the job ended its own goroutine"}} // as a test's FailNow does
	defer func() {
		leave()
		defer c.p.h.tasks.remove(t, c.p.h.Log)
		c.working.Add(-1)
		switch {
		case ctx.Err() != nil:
			if out.Step.Used != (agent.Usage{}) && c.p.ctx.Err() == nil { // it was broken off; what it cost counts
				c.push([]actor.Envelope{answerTo(t, agent.JobAnswer{Err: "broken off", Step: agent.Step{Used: out.Step.Used}})})
			}
		case out.queued:
			c.watch(ctx, t)
		default:
			c.answer(ctx, t, out.JobAnswer)
		}
	}()
	began := time.Now()
	out = c.guarded(ctx, work)
	if t.kind == agent.JobModel && !out.queued {
		c.p.h.counters.stepped(model, endOf(ctx, out.Err), max(time.Since(began), 1))
	}
}

// answer brings the answer to a job to the actor: to its cell, or when that is another process's by now, into its inbox.
func (c *cell) answer(ctx context.Context, t *task, answer agent.JobAnswer) {
	env := answerTo(t, answer)
	if t.pushed.Store(true); !c.p.handing.Load() && c.push([]actor.Envelope{env}) {
		return
	}
	t.pushed.Store(false)
	c.bring(ctx, t, env)
}

func answerTo(t *task, answer agent.JobAnswer) actor.Envelope {
	answer.N, answer.Err = t.n, words(answer.Err)
	return actor.Envelope{Kind: agent.KindJob, Session: t.n, Lane: actor.LaneCtl, Body: agent.Pack(&answer)}
}

// guarded runs work; a panic in it is its error.
func (c *cell) guarded(ctx context.Context, work func(context.Context) deed) (out deed) {
	defer func() {
		if r := recover(); r != nil {
			c.p.h.Log.Error().Str("actor", c.addr.String()).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a job panicked")
			out = deed{JobAnswer: agent.JobAnswer{Err: fmt.Sprintf("panic: %v", r)}}
		}
	}()
	return work(ctx)
}

// work gives what a job does. It looks at the actor now; the job itself runs beside later turns. The caller holds c.mu.
func (c *cell) work(job actor.Job) func(context.Context) deed {
	h := c.p.h
	m, ok := c.machine.(*agent.Thread)
	if !ok {
		return here(func(ctx context.Context) agent.JobAnswer { return h.mergeJob(ctx, job.N, job.Body) })
	}
	caller := m.Lineage()
	at := callAt{caller, m.Session(), m.Config(), m.Composition() != nil}
	r := h.remoteOf(m, job)
	switch {
	case job.Kind == agent.JobModel && r != nil:
		return c.dispatch(r, c.stepFor(m))
	case job.Kind == agent.JobModel:
		return here(c.step(m))
	case job.Kind == agent.JobList:
		return here(func(ctx context.Context) agent.JobAnswer { return h.listJob(ctx, caller, job.Body) })
	case r != nil:
		return c.toolFor(m, at, job, r)
	}
	return here(func(ctx context.Context) agent.JobAnswer { return h.composedJob(ctx, at, job) })
}

// here does a job in this process.
func here(work func(context.Context) agent.JobAnswer) func(context.Context) deed {
	return func(ctx context.Context) deed { return deed{JobAnswer: work(ctx)} }
}

// arm starts a timer. One that is far off is written to the bus after a while, unless it was disarmed
// before, and is then no longer this process's. The caller holds c.mu.
func (c *cell) arm(t actor.Timer) {
	c.halt(t.Name)
	body := agent.Timer{Session: t.Session, At: t.At}
	until := time.Until(time.UnixMicro(t.At))
	if until > timerHold {
		c.timers[t.Name] = armed{t.At, time.AfterFunc(timerHold, func() { c.persist(t.Name, t.At, body) })}
		return
	}
	c.timers[t.Name] = armed{t.At, time.AfterFunc(max(until, 0), func() { c.local(actor.ID(t.Name), agent.KindTimer, &body) })}
}

// An armed timer lives in this process.
type armed struct {
	at    int64
	timer *time.Timer
}

// halt stops a timer of this process, if there is one. The caller holds c.mu.
func (c *cell) halt(name string) {
	if t, ok := c.timers[name]; ok {
		t.timer.Stop()
		delete(c.timers, name)
	}
}

// persist writes a timer to the bus.
func (c *cell) persist(name string, at int64, body agent.Timer) {
	env := actor.Envelope{Kind: agent.KindTimer, From: actor.ID(name), Body: agent.Pack(&body)}
	for again := (pace{}); c.p.ctx.Err() == nil; {
		_, err := c.p.h.timers.SetTimer(c.addr.ID, durableName(name, at), time.UnixMicro(at), seal([]actor.Envelope{env})).Wait(c.p.ctx)
		if err == nil {
			break
		}
		again.failed(c.p.ctx, c.report(&again, err, "a timer"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timers[name].at == at {
		delete(c.timers, name)
	}
	c.durable[name] = at
	c.relax()
}

// durableName is a timer's name on the bus. Its time is part of it: a process that was held up, and does not
// own the actor any more, must not replace a timer that the new owner has set.
func durableName(name string, at int64) string { return name + "-" + strconv.FormatInt(at, 10) }

// disarm ends a timer, also one that was written to the bus. One that fires all the same changes nothing.
func (c *cell) disarm(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halt(name)
	if at, ok := c.durable[name]; ok {
		delete(c.durable, name)
		c.clear(durableName(name, at))
	}
}

// clear takes a timer from the bus.
func (c *cell) clear(name string) {
	c.p.h.background.Go(func() {
		if _, err := c.p.h.timers.ClearTimer(c.addr.ID, name).Wait(c.p.ctx); err != nil && c.p.ctx.Err() == nil {
			c.p.h.Log.Debug().Err(err).Msg("a timer was not cleared")
		}
	})
}

// jobOver ends a job, or notes that its answer was taken.
func (c *cell) jobOver(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.jobs[n]; t != nil {
		t.cancel()
		delete(c.jobs, n)
	}
	c.remoteOver(n)
}

// alarm asks for a turn at a time. The caller holds c.mu.
func (c *cell) alarm(at time.Time) {
	if c.wake != nil {
		c.wake.Stop()
		c.wake = nil
	}
	if !at.IsZero() {
		c.wake = time.AfterFunc(max(time.Until(at), 0), func() { c.push([]actor.Envelope{{Kind: agent.KindWake, Lane: actor.LaneCtl}}) })
	}
}
