package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
)

// A view is what a step sees of its thread, as of now.
type view struct {
	c        *cell
	lineage  actor.Lineage
	config   a2e.SubagentConfig
	session  uint64
	step     int
	steps    uint64
	task     bool
	shown    *surface
	entries  []actor.Entry
	complete bool // nothing is missing of them
	from, to uint64
}

func (c *cell) view(t *agent.Thread) *view {
	s := &view{
		c: c, lineage: t.Lineage(), config: t.Config(), shown: surfaceOf(t), entries: c.history.entries, complete: c.history.complete,
		from: t.BirthAt(), to: c.seq,
	}
	s.session, s.step, s.steps, s.task = t.At()
	return s
}

// request is what the model is asked. room is how many bytes of large values it gets in full.
func (s *view) request(ctx context.Context, room int64) (*model.Request, error) {
	h := s.c.p.h
	if !s.complete {
		err := h.steadily(ctx, "a history", func() (err error) {
			s.entries, err = h.entries(ctx, s.c.addr, s.from, s.to)
			return err
		})
		if err != nil {
			return nil, err
		}
		s.complete = true
	}
	r := &model.Request{Thread: s.lineage.ID, Session: s.session, Step: s.step, Config: s.config}
	err := h.steadily(ctx, "a step", func() error { return h.fill(ctx, r, s, room) })
	return r, err
}

// step gives one step of the thread's model.
func (c *cell) step(t *agent.Thread) func(context.Context) agent.JobAnswer {
	s, h, sent := c.view(t), c.p.h, c.sent
	return func(ctx context.Context) agent.JobAnswer {
		r, err := s.request(ctx, maxFilled)
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		var said string
		r.Progress = func(text string) {
			said = text
			c.alive.Store(time.Now().UnixMicro())
			if after(ctx, sent) {
				h.progress(s.lineage, s.session, s.step, text)
			}
		}
		if s.shown != nil && s.shown.side.Handler != "" {
			step, err := h.handle(ctx, s.shown.side.Handler, s.lineage, s.shown.raw, r)
			if err != nil {
				return agent.JobAnswer{Err: err.Error(), Step: step} // what was done before the failure stands
			}
			return agent.JobAnswer{Step: step}
		}
		m, err := h.Models.Lookup(r.Config.Model)
		if err != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		resp, err := ask(ctx, m, r)
		if err != nil {
			return agent.JobAnswer{Err: err.Error(), Step: agent.Step{Used: costs(resp)}}
		}
		var step agent.Step
		err = h.steadily(ctx, "what a step gave", func() (err error) {
			step, err = h.stepOf(ctx, resp)
			return err
		})
		if err != nil {
			return agent.JobAnswer{Err: err.Error(), Step: agent.Step{Used: costs(resp)}}
		}
		step.Progress = clip(said, maxProgress)
		return agent.JobAnswer{Step: step}
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
func (h *Host) fill(ctx context.Context, r *model.Request, s *view, room int64) error {
	shown, entries, steps := s.shown, s.entries, s.steps
	r.Tools, r.History = nil, make([]model.Entry, 0, len(entries))
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
	references := beyond(entries, steps, room)
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
		if e.Kind == actor.EntryCompletion && !references[i] {
			content = agent.WithText(content, e.IsError)
		}
		m := model.Entry{
			Kind: model.EntryKind(e.Kind), Role: shown.role(e), From: e.From, Type: e.Type, Call: e.Call, Name: e.Name,
			Content: content, Metadata: e.Meta, IsError: e.IsError, At: time.UnixMicro(e.At),
		}
		m.Session, m.Step = count.of(e)
		if m.Kind == model.EntryTask && s.task && e.Session == r.Session {
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

// beyond says which large values of a history stay references when there is room for so many bytes of them.
func beyond(entries []actor.Entry, steps uint64, room int64) map[int]bool {
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
	s.Used = costs(resp)
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
		c := agent.Call{ID: call.ID, Name: call.Name, Arguments: keep(call.Arguments)}
		c.Invalid = invalid(&call)
		s.Calls = append(s.Calls, c)
	}
	return s, err
}
