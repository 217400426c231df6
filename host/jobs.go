package host

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
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
		ctx, cancel := context.WithCancel(c.p.ctx)
		c.jobs[job.N] = cancel
		work := c.work(job)
		c.p.h.background.Go(func() { c.do(ctx, job, work) })
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

// do runs a job when there is room for it, and brings the answer to the actor.
func (c *cell) do(ctx context.Context, job actor.Job, work func(context.Context) agent.JobAnswer) {
	select {
	case c.p.h.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	answer := agent.JobAnswer{Err: "the job ended its own goroutine"} // as a test's FailNow does
	defer func() {
		<-c.p.h.slots
		if ctx.Err() != nil {
			return
		}
		answer.N, answer.Err = job.N, words(answer.Err)
		c.push([]actor.Envelope{{Kind: agent.KindJob, Session: job.N, Lane: actor.LaneCtl, Body: agent.Pack(&answer)}})
	}()
	answer = c.guarded(ctx, work)
}

// guarded runs work; a panic in it is its error.
func (c *cell) guarded(ctx context.Context, work func(context.Context) agent.JobAnswer) (answer agent.JobAnswer) {
	defer func() {
		if r := recover(); r != nil {
			c.p.h.Log.Error().Str("actor", c.addr.String()).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a job panicked")
			answer = agent.JobAnswer{Err: fmt.Sprintf("panic: %v", r)}
		}
	}()
	return work(ctx)
}

// work gives what a job does. It looks at the actor now; the job itself runs beside later turns.
func (c *cell) work(job actor.Job) func(context.Context) agent.JobAnswer {
	switch m := c.machine.(type) {
	case *agent.Thread:
		if job.Kind == agent.JobModel {
			return c.step(m)
		}
		caller := m.Lineage()
		if job.Kind == agent.JobList {
			return func(ctx context.Context) agent.JobAnswer { return c.p.h.listJob(ctx, caller, job.Body) }
		}
		at := callAt{caller, m.Session(), m.Config(), m.Composition() != nil}
		return func(ctx context.Context) agent.JobAnswer { return c.p.h.composedJob(ctx, at, job) }
	default:
		return func(ctx context.Context) agent.JobAnswer { return c.p.h.mergeJob(ctx, c.addr.ID, job.Body) }
	}
}

// step gives one step of the thread's model.
func (c *cell) step(t *agent.Thread) func(context.Context) agent.JobAnswer {
	lineage, config := t.Lineage(), t.Config()
	session, step, steps, task := t.At()
	entries, complete, shown := c.history.entries, c.history.complete, surfaceOf(t)
	from, to := t.BirthAt(), c.seq
	h, sent := c.p.h, c.sent
	return func(ctx context.Context) agent.JobAnswer {
		if !complete {
			err := h.steadily(ctx, "a history", func() (err error) {
				entries, err = h.entries(ctx, c.addr, from, to)
				return err
			})
			if err != nil {
				return agent.JobAnswer{Err: err.Error()}
			}
		}
		var said string
		r := &model.Request{
			Thread: lineage.ID, Session: session, Step: step, Config: config,
			Progress: func(text string) {
				said = text
				if after(ctx, sent) {
					h.progress(lineage, session, step, text)
				}
			},
		}
		err := h.steadily(ctx, "a step", func() error { return h.fill(ctx, r, shown, entries, steps, task) })
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		if shown != nil && shown.side.Handler != "" {
			s, err := h.handle(ctx, shown.side.Handler, lineage, shown.raw, r)
			if err != nil {
				return agent.JobAnswer{Err: err.Error(), Step: s} // what was done before the failure stands
			}
			return agent.JobAnswer{Step: s}
		}
		m, err := h.Models.Lookup(r.Config.Model)
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		resp, err := m.Step(ctx, r)
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		var s agent.Step
		err = h.steadily(ctx, "what a step gave", func() (err error) {
			s, err = h.stepOf(ctx, resp)
			return err
		})
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		s.Progress = clip(said, maxProgress)
		return agent.JobAnswer{Step: s}
	}
}

// after waits for what was begun with a turn to be sent: a step may tell of its progress while the events
// that say that it began are still under way. It reports false when ctx ended first.
func after(ctx context.Context, sent chan struct{}) bool {
	if sent == nil {
		return true // a takeover sends first and starts the jobs then
	}
	select {
	case <-sent:
		return true
	case <-ctx.Done():
		return false
	}
}

// progress tells watchers at once; the registry hears of the last one when the step is done.
func (h *Host) progress(l actor.Lineage, session uint64, step int, text string) {
	content, err := json.Marshal(struct {
		Text    string `json:"text"`
		Session uint64 `json:"session"`
		Step    int    `json:"step"`
	}{text, session, step})
	if err == nil {
		h.event(l.Root(), l.ID, "progress", actor.EnvelopeID{}, content)
	}
}

// entries reads a thread's history from its journal.
func (h *Host) entries(ctx context.Context, a actor.Address, from, to uint64) ([]actor.Entry, error) {
	var entries []actor.Entry
	err := h.Store.Journal.Range(ctx, a, from, to, func(m store.Message) error {
		r, err := decodeRecord(m)
		if err == nil {
			entries = append(entries, r.Entries...)
		}
		return err
	})
	return entries, err
}

// fill gives the model the task and the history, with large values in full, and what it may call. What came since
// the step before is told by the step that it is shown before.
func (h *Host) fill(ctx context.Context, r *model.Request, shown *surface, entries []actor.Entry, steps uint64, task bool) error {
	r.History = make([]model.Entry, 0, len(entries))
	count := counting{session: r.Session, step: r.Step, steps: steps}
	if shown != nil {
		if err := shown.show(ctx, h, r); err != nil {
			return err
		}
		count.side, count.before = shown.step, shown.before
	} else if len(r.Config.Capabilities) > 0 {
		tools, err := h.offered(ctx, r.Thread, &r.Config)
		if err != nil {
			return err
		}
		r.Tools = tools
	}
	references := beyond(entries, steps)
	for i := range entries {
		e := &entries[i]
		if e.Shown > steps || shown != nil && !shown.sees(e) {
			continue // for the next step, or the other side's
		}
		content := json.RawMessage(e.Content.JSON)
		if !references[i] {
			var err error
			if content, err = h.full(ctx, e.Content); err != nil {
				return err
			}
		}
		if e.Kind == actor.EntryCompletion {
			content = agent.WithText(content, e.IsError)
		}
		m := model.Entry{
			Kind: model.EntryKind(e.Kind), Role: shown.role(e), From: e.From, Type: e.Type, Call: e.Call, Name: e.Name,
			Content: content, Metadata: e.Meta, IsError: e.IsError, At: time.UnixMicro(e.At),
		}
		m.Session, m.Step = count.of(e)
		if m.Kind == model.EntryTask && task && e.Session == r.Session {
			r.Task = new(a2e.TaskDefinition)
			if err := json.Unmarshal(content, r.Task); err != nil {
				return fmt.Errorf("task: %w", err)
			}
		}
		r.History = append(r.History, m)
	}
	return nil
}

// A counting tells of entries in which session and step they are shown. The steps of a composed thread are counted
// by side.
type counting struct {
	session uint64
	step    int    // of the session
	steps   uint64 // of the thread's life
	side    int    // the step of the session, of the side's own; 0 when there are no sides
	before  uint64 // the side's step before, of the thread's life
}

func (c *counting) of(e *actor.Entry) (session uint64, step int) {
	session = e.Session
	// A message may have come in an earlier session than the one whose step shows it.
	if step = c.step - int(c.steps-e.Shown); step > 0 {
		session = c.session
	}
	if c.side > 0 && step > 0 {
		if step = min(step, c.side-1); e.Shown > c.before { // new to this side
			step = c.side
		}
	}
	return session, step
}

// maxWords is how much of an error's text is kept.
const maxWords = 16 << 10

// words bounds the text of an error, and says so where it is cut.
func words(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return fmt.Sprintf("%s (%d bytes in all)", clip(text, maxWords), len(text))
}

// maxProgress is how much of the last progress stands in the registry. Its event has all of it.
const maxProgress = 1024

// clip cuts text to at most n bytes, between characters, and shows that it did.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}

// maxFilled is how many bytes of large values one step gets in full, the newest first. The others are given
// as the references that they are.
const maxFilled = 8 << 20

// beyond says which large values of a history stay references.
func beyond(entries []actor.Entry, steps uint64) map[int]bool {
	room := int64(maxFilled)
	stay := map[int]bool{}
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		if !e.Content.Blob || e.Shown > steps {
			continue
		}
		if ref, err := refOf(e.Content); err == nil {
			room -= int64(ref.Size)
		}
		stay[i] = room < 0 && e.Kind != actor.EntryTask
	}
	return stay
}

// stepOf turns a model's response into what the thread takes. Together the values of a step that stay inline
// are no more than one value may be.
func (h *Host) stepOf(ctx context.Context, resp *model.Response) (s agent.Step, err error) {
	s = agent.Step{Fail: words(resp.Fail), Done: resp.Done, Sleep: resp.Sleep.Microseconds()}
	if resp.Usage != nil {
		s.Input, s.Output = resp.Usage.InputTokens, resp.Usage.OutputTokens
	}
	room := actor.MaxInline
	keep := func(data []byte) (v actor.Value) {
		if err == nil {
			v, err = h.shrinkTo(ctx, actor.Value{JSON: data}, max(room, 1024))
			room -= len(v.JSON)
		}
		return v
	}
	if resp.Text != "" {
		text, err := json.Marshal(resp.Text)
		if err != nil {
			return s, err
		}
		s.Said = keep(text)
	}
	if resp.Done {
		s.Result = keep(model.Object(resp.Result))
	}
	for _, call := range resp.Calls {
		s.Calls = append(s.Calls, agent.Call{ID: call.ID, Name: call.Name, Arguments: keep(call.Arguments)})
	}
	return s, err
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
		name = durableName(name, at)
		c.p.h.background.Go(func() {
			if _, err := c.p.h.timers.ClearTimer(c.addr.ID, name).Wait(c.p.ctx); err != nil && c.p.ctx.Err() == nil {
				c.p.h.Log.Debug().Err(err).Msg("a timer was not cleared")
			}
		})
	}
}

// jobOver ends a job, or notes that its answer was taken.
func (c *cell) jobOver(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.jobs[n]; cancel != nil {
		cancel()
		delete(c.jobs, n)
	}
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
