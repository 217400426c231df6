package host

import (
	"context"
	"strconv"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// watch keeps the actor busy until the timer that looks after a queued job is stored, or the job is over.
func (c *cell) watch(ctx context.Context, t *task) {
	n := t.n
	c.mu.Lock()
	r := c.remotes[n]
	if r == nil {
		c.mu.Unlock()
		return
	}
	first := c.p.h.checkAfter()
	if r.Wait = min(2*r.Wait, workCheckUp*first.Microseconds()); r.Wait == 0 {
		r.Wait = first.Microseconds()
	}
	now := time.Now()
	at := now.Add(time.Duration(r.Wait) * time.Microsecond)
	hold := min(workHold, at.Sub(now))
	if r.Deadline > 0 {
		until := time.UnixMicro(r.Deadline)
		if until.Before(at) {
			at = until
		}
		hold = min(hold, until.Sub(now))
	}
	late := failedAs(r.service, r.late())
	dead, body := r.Deadline, r.check
	c.mu.Unlock()
	if !sleep(ctx, max(hold, 0)) {
		return
	}
	if dead > 0 && time.Now().UnixMicro() >= dead {
		c.answer(ctx, t, late.JobAnswer)
		return
	}
	name := timerWork + strconv.FormatUint(n, 10)
	env := actor.Envelope{Kind: kindCheck, From: actor.ID(name), Body: agent.Pack(&body)}
	for again := (pace{}); ; {
		// One name for each job: whoever sets the timer anew, also a process that does not own the actor any more, replaces
		// it by one that does the same.
		_, err := c.p.h.timers.SetTimer(c.addr.ID, name, at, seal([]actor.Envelope{env})).Wait(ctx)
		if err == nil {
			break
		}
		if !again.failed(ctx, c.report(&again, err, "the timer of a job")) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.remotes[n]; r != nil {
		r.timed = true
	}
	if !c.gone {
		delete(c.jobs, n)
		c.relax()
	}
}

// checked takes a timer that has fired for a remote job. It asks for nothing to be recorded: what it starts makes the actor
// busy before the timer's message is settled.
func (c *cell) checked(e *actor.Envelope) {
	var k check
	if agent.Unpack(e.Body, &k) != nil {
		return
	}
	job, ok := c.outstanding(k.N)
	if !ok {
		return
	}
	c.mu.Lock()
	if r := c.remotes[k.N]; r != nil && c.jobs[k.N] == nil {
		r.check = k
	}
	c.mu.Unlock()
	c.start(&actor.Turn{Jobs: []actor.Job{job}}, e.Seq)
}

// remoteOver ends what there is of a remote job outside this process. The caller holds c.mu.
func (c *cell) remoteOver(n uint64) {
	r := c.remotes[n]
	if r == nil {
		return
	}
	delete(c.remotes, n)
	c.withdraw(r.subject)
	if r.timed {
		c.clear(timerWork + strconv.FormatUint(n, 10))
	}
}

// withdraw takes a job out of the queue, once it is recorded that it is over, and tells the worker that has it. If
// this process dies first a worker may carry it out for nothing.
func (c *cell) withdraw(subject string) {
	h := c.p.h
	h.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.p.ctx), withdrawFor)
		defer cancel()
		for again := (pace{}); ; {
			err := h.Conn.Jobs(h.Names).Withdraw(ctx, subject)
			if err == nil || !again.failed(ctx, c.report(&again, err, "the withdrawal of a job")) || h.Conn.Closed() {
				return
			}
		}
	})
}

// checkAfter is when a remote job is first looked for.
func (h *Host) checkAfter() time.Duration {
	if h.WorkCheck > 0 {
		return h.WorkCheck
	}
	return workCheck
}
