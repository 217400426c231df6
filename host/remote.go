package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/work"
)

// Queueing a job for workers elsewhere is a job of this process: until the queue has it, and the timer that looks after it is
// stored, the actor is busy, so that whoever takes the partition over queues it again. That finds it in the queue, by its
// subject, or else it was answered. From then on nobody here need know of it: the actor may leave memory, the partition may
// move, and the answer comes into the inbox.
//
// The timer is for what goes wrong elsewhere: a worker that acknowledges a job and never answers, a notice of an
// exhausted job that was lost. The job is looked for, queued again if it is gone, and looked for later, ever less often.
const (
	workHold    = timerHold       // before the timer is written: most jobs are over by then
	workCheck   = time.Minute     // after which a job is first looked for, if not configured
	workCheckUp = 16              // times that, at most, between two looks
	maxQueued   = 3               // times that one job is queued
	withdrawFor = 5 * time.Second // a withdrawal is tried
	kindCheck   = "check"         // an envelope of a timer: [check]
	timerWork   = "work-"         // the timer of job n is work-<n>
	kindWorker  = "worker"        // an envelope of lane job: the answer as it came; its Session is the job
	toldAtMost  = 16 << 10        // bytes of one progress
)

// A remote is a job that workers elsewhere carry out, as its owner knows it. The cell's lock guards it.
type remote struct {
	service work.Service
	subject string
	timeout time.Duration // of a tool's call; 0: none
	timed   bool          // there may be a timer
	check
}

// A check is what the timer of a job knows of it.
type check struct {
	N        uint64
	Sent     int   // times that it was queued
	Deadline int64 // microseconds since 1970, after which it is given up; 0: never
	Wait     int64 // microseconds to the next look
}

// A deed is what came of doing a job: an answer, unless a worker will bring that.
type deed struct {
	agent.JobAnswer
	queued bool
}

// remoteOf says for whom a job of the thread is; nil if it is done in this process.
func (h *Host) remoteOf(t *agent.Thread, job actor.Job) *remote {
	r := &remote{check: check{N: job.N}}
	switch job.Kind {
	case agent.JobModel:
		name := t.Config().Model
		if side, _ := t.Acting(); side != nil {
			if side.Prompt == nil {
				return nil
			}
			name = side.Prompt.Model
		}
		s, ok := work.ModelService(name)
		if !ok {
			return nil
		}
		r.service = s
	case agent.JobTool:
		var call agent.ToolCall
		if agent.Unpack(job.Body, &call) != nil || builtin[call.Name] != nil {
			return nil
		}
		declared, _ := h.Tools.Remote(call.Name, call.Arguments)
		if declared == nil {
			return nil
		}
		r.service, r.timeout = work.Service{Kind: work.Tool, Name: declared.Name}, declared.Timeout
	default:
		return nil
	}
	r.subject = h.Names.Work(r.service.Kind, r.service.Name, t.Lineage().ID, job.N)
	return r
}

// remember knows of the remote jobs that an actor waits for, and ends those that it does not wait for any more: a
// record of ours that was believed lost may have said so.
func (c *cell) remember() {
	t, ok := c.machine.(*agent.Thread)
	if !ok {
		return
	}
	jobs, _ := t.Outstanding()
	c.mu.Lock()
	if len(jobs)+len(c.remotes) == 0 {
		c.mu.Unlock()
		return
	}
	waits := map[uint64]bool{}
	for _, job := range jobs {
		waits[job.N] = true
		if c.remotes[job.N] == nil {
			if r := c.p.h.remoteOf(t, job); r != nil {
				r.timed = true
				c.know(r)
			}
		}
	}
	var over []uint64
	for n := range c.remotes {
		if !waits[n] {
			over = append(over, n)
		}
	}
	c.mu.Unlock()
	for _, n := range over {
		c.jobOver(n)
	}
}

// know keeps a remote job in mind. The caller holds c.mu.
func (c *cell) know(r *remote) {
	if c.remotes == nil {
		c.remotes = map[uint64]*remote{}
	}
	c.remotes[r.N] = r
}

// outstanding finds a job that the actor waits for.
func (c *cell) outstanding(n uint64) (job actor.Job, ok bool) {
	if c.machine == nil {
		return job, false
	}
	jobs, _ := c.machine.Outstanding()
	for _, job := range jobs {
		if job.N == n {
			return job, true
		}
	}
	return job, false
}

// dispatch gives what queues a job; what is queued comes from build. The caller holds c.mu.
func (c *cell) dispatch(r *remote, build func(context.Context, *work.Job) error) func(context.Context) deed {
	if c.remotes[r.N] == nil {
		c.know(r)
	}
	r = c.remotes[r.N]
	if r.timeout > 0 && r.Deadline == 0 {
		r.Deadline = time.Now().Add(r.timeout).UnixMicro()
	}
	known, sent := *r, c.sent
	return func(ctx context.Context) deed {
		if known.Sent > 0 {
			if out, over := c.lookFor(ctx, &known); over {
				return out
			}
		}
		data, err := c.jobFor(ctx, &known, build)
		if err != nil {
			return failedAs(known.service, err)
		}
		if !after(ctx, sent) { // what was recorded with the job goes first
			return deed{}
		}
		err = c.p.h.steadily(ctx, "a job for workers", func() error { return c.enqueue(ctx, known.N, known.subject, data) })
		if err != nil {
			return failedAs(known.service, err)
		}
		return deed{queued: true}
	}
}

// enqueue puts a job into the queue, where it may be already. One that is over by then is taken out again: its
// withdrawal may have come before it. That is why the outcome is waited for also when ctx has ended.
func (c *cell) enqueue(ctx context.Context, n uint64, subject string, data []byte) error {
	ack := c.p.h.Conn.Jobs(c.p.h.Names).Queue(subject, data)
	_, err := ack.Wait(ctx)
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawFor)
		defer cancel()
		_, err = ack.Wait(last)
	}
	if errors.Is(err, actor.Conflict) {
		err = nil // it is there
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := c.remotes[n]; {
	case r == nil:
		c.withdraw(subject)
	case err == nil:
		r.Sent++
	}
	return err
}

// lookFor looks for a job that was queued before. over says that there is no need to queue it.
func (c *cell) lookFor(ctx context.Context, r *remote) (out deed, over bool) {
	if r.Deadline > 0 && time.Now().UnixMicro() >= r.Deadline {
		return failedAs(r.service, r.late()), true
	}
	var standing bus.Standing
	err := c.p.h.steadily(ctx, "the queue of jobs", func() (err error) {
		standing, err = c.p.h.Conn.Jobs(c.p.h.Names).Standing(ctx, r.subject)
		return err
	})
	switch {
	case err != nil:
		return failedAs(r.service, err), true
	case standing == bus.JobQueued:
		return deed{queued: true}, true
	case standing == bus.JobExhausted:
		return failedAs(r.service, errExhausted), true
	case r.Sent >= maxQueued:
		return failedAs(r.service, &actor.Error{Kind: actor.RuntimeError, Err: fmt.Errorf("workers took the job %d times and never answered", r.Sent)}), true
	}
	c.p.h.Log.Warn().Str("actor", c.addr.String()).Uint64("job", r.N).Str("service", r.service.String()).Msg("a worker took a job and did not answer: it is queued again")
	return deed{}, false
}

var errExhausted = &actor.Error{Kind: actor.RuntimeError, Err: errors.New("workers were given the job as often as it may be, and none of them answered")}

func (r *remote) late() error {
	return &actor.Error{Kind: actor.Timeout, Err: fmt.Errorf("no worker answered within %v", r.timeout)}
}

// jobFor makes the message that workers get.
func (c *cell) jobFor(ctx context.Context, r *remote, build func(context.Context, *work.Job) error) ([]byte, error) {
	h := c.p.h
	job := work.Job{
		V: work.Version, ID: work.ID(c.addr.ID, r.N), Kind: r.service.Kind, Name: r.service.Name, Thread: c.addr.ID,
		Reply: h.Names.Inbox(c.addr.ID, actor.LaneJob, actor.ID(r.service.String())),
	}
	if r.Deadline > 0 {
		at := time.UnixMicro(r.Deadline).UTC()
		job.Deadline = &at
	}
	var data []byte
	err := h.steadily(ctx, "a job for workers", func() error {
		err := build(ctx, &job)
		if err == nil {
			data, err = h.jobData(ctx, &job)
		}
		return err
	})
	return data, err
}

// jobData encodes a job, with a request that is too large for it in a blob.
func (h *Host) jobData(ctx context.Context, job *work.Job) ([]byte, error) {
	data, err := json.Marshal(job)
	if err != nil || len(data) <= work.MaxJob {
		return data, err
	}
	large, err := h.shrinkTo(ctx, actor.Value{JSON: job.Request}, 0)
	if err != nil {
		return nil, err
	}
	job.Request = large.JSON
	return json.Marshal(job)
}

// failedAs is a job that failed, as the thread takes it: a tool's error is its result, a model's ends the session.
func failedAs(s work.Service, err error) deed {
	if s.Kind == work.Tool {
		if data, encodeErr := a2e.Encode(a2e.NewError(a2e.Envelope{}, time.Now(), err)); encodeErr == nil {
			return deed{JobAnswer: agent.JobAnswer{Content: actor.Value{JSON: data}, Err: "tool"}}
		}
	}
	return deed{JobAnswer: agent.JobAnswer{Err: words(err.Error())}}
}

// requestOf is a model's request as workers get it.
func requestOf(r *model.Request) (json.RawMessage, error) {
	w := work.Request{System: r.System, Task: r.Task, Config: r.Config, Schema: r.Schema, History: make([]work.Entry, len(r.History))}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, work.ToolInfo{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	for i := range r.History {
		e := &r.History[i]
		w.History[i] = work.Entry{
			Kind: string(e.Kind), Role: string(e.Role), Session: e.Session, Step: e.Step, From: e.From, Type: e.Type, Call: e.Call,
			Name: e.Name, Content: e.Content, Metadata: e.Metadata, IsError: e.IsError, At: e.At.UTC(),
		}
	}
	return json.Marshal(&w)
}

// stepFor fills a job in with a step of the thread's model. Large values stay references.
func (c *cell) stepFor(t *agent.Thread) func(context.Context, *work.Job) error {
	s, deadline := c.view(t), t.Deadline()
	return func(ctx context.Context, job *work.Job) error {
		r, err := s.request(ctx, 0)
		if err != nil {
			return err
		}
		job.Session, job.Step, job.Deadline = r.Session, r.Step, sooner(job.Deadline, deadline)
		job.Request, err = requestOf(r)
		return err
	}
}

// toolFor queues a tool's call, if the thread may make it; else it is told why not, as it is of any other tool.
func (c *cell) toolFor(t *agent.Thread, at callAt, job actor.Job, r *remote) func(context.Context) deed {
	_, step, _, _ := t.At()
	deadline, h := t.Deadline(), c.p.h
	var call agent.ToolCall
	if err := agent.Unpack(job.Body, &call); err != nil {
		return here(func(context.Context) agent.JobAnswer { return agent.JobAnswer{Err: err.Error()} })
	}
	if _, refused := h.Tools.Remote(call.Name, call.Arguments); refused != nil {
		return here(func(ctx context.Context) agent.JobAnswer { return h.toolJob(ctx, at, job.Body) })
	}
	queue := c.dispatch(r, func(_ context.Context, job *work.Job) error {
		job.Session, job.Step, job.Call, job.Deadline = at.session, step, call.ID, sooner(job.Deadline, deadline)
		if job.Arguments = call.Arguments; len(job.Arguments) == 0 {
			job.Arguments = json.RawMessage("{}")
		}
		return nil
	})
	return func(ctx context.Context) deed {
		err := h.steadily(ctx, "a tool", func() error { return h.permits(ctx, at, call.Name) })
		if err != nil {
			return failedAs(r.service, err)
		}
		return queue(ctx)
	}
}

// sooner is the earlier of two times, of which either may be none.
func sooner(a *time.Time, b time.Time) *time.Time {
	if b.IsZero() || a != nil && a.Before(b) {
		return a
	}
	return &b
}
