package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// changed is the content of the event status_changed.
type changed struct {
	Status     a2e.Status `json:"status"`
	Session    uint64     `json:"session"`
	StopReason StopReason `json:"stopReason,omitempty"`
	Error      string     `json:"error,omitempty"`
	Step       int        `json:"step"`
	MaxSteps   int        `json:"maxSteps"`
}

func (x *turn) statusChanged() {
	h := &x.head
	x.dirty = true
	x.event("status_changed", changed{h.status(), h.Session, h.Reason, h.Error, h.Step, x.birth.Config.MaxSteps})
}

// open begins a session. The host already counts a thread that never had one as live; of any other
// it has to hear before the opener gets an answer.
func (x *turn) open(opener Opener, task bool) {
	h := &x.head
	x.tell(1 << 30) // what is left of the session before
	known := h.Session == 0 && h.Reason == ""
	h.Session++
	h.Open, h.Task, h.Opener = true, task, opener
	h.Reason, h.Error, h.Result, h.Partial, h.Progress = "", "", actor.Value{}, actor.Value{}, ""
	h.Step, h.Used = 0, Usage{}
	h.Calls, h.Opened, h.SleepUntil = nil, nil, 0
	h.SessionAt = x.now
	x.setDeadline()
	if c := h.Composed; c != nil {
		c.Turns, c.Over, c.Steps, c.Ask, c.Notify, c.Stopping, c.Brought, c.Note = 0, false, [2]int{}, nil, notify{}, nil, nil, ""
	}
	if !known {
		x.notice(true)
	}
	x.statusChanged()
}

func (x *turn) notice(open bool) {
	n := Notice{Lineage: x.head.Lineage, Session: x.head.Session, Open: open}
	if !open {
		n.Loose, x.head.Loose = x.head.Loose, nil
		n.Late, x.overtimed = x.overtimed, false
		if a := x.head.Allowance; a != nil {
			n.Settled = a.settle()
		}
	}
	x.effect(actor.Effect{Kind: actor.EffectNotice, To: x.hostOf(), Lane: actor.LaneHost, Name: KindNotice, Body: Pack(&n)})
}

// advance starts the next step when nothing is under way. An idle thread with messages that it has
// not seen opens a session for them.
func (x *turn) advance() {
	h := &x.head
	if x.def != nil {
		x.alternate()
		return
	}
	if h.Ending {
		return // there is more to tell first
	}
	if !h.Open && h.Unseen > 0 && !h.Terminated {
		x.open(Opener{}, false)
	}
	if !h.Open || h.Job != 0 || h.SleepUntil > 0 {
		return
	}
	if !h.callsDone() {
		return
	}
	if h.Step >= x.birth.Config.MaxSteps {
		x.end(StopMaxSteps, actor.Value{}, fmt.Sprintf("not done after %d steps, the most it may take", h.Step))
		x.advance() // a message that came meanwhile opens the next session
		return
	}
	if !x.allowed() {
		return
	}
	h.Calls = nil
	h.Step++
	h.Steps++
	h.Unseen, x.backlog = 0, 0
	h.Job, h.Tries = x.newJob(JobModel, nil), 0
	if h.Step > 1 {
		x.dirty = true
	}
	x.event("step", stepped{h.Session, h.Step, x.birth.Config.MaxSteps})
}

// stepped is the content of the event step.
type stepped struct {
	Session  uint64 `json:"session"`
	Step     int    `json:"step"`
	MaxSteps int    `json:"maxSteps"`
}

// MaxTries is how many processes may go while one step of a thread is under way. A step that ends every process
// that takes it must not go from one to the next for ever.
const MaxTries = 8

// resumed counts the process that has gone.
func (x *turn) resumed() {
	h := &x.head
	x.alive() // what was under way begins again
	if h.Job == 0 {
		return
	}
	if h.Tries++; h.Tries >= MaxTries {
		x.end(StopError, actor.Value{}, fmt.Sprintf("%d processes ended while step %d was under way", h.Tries, h.Step))
	}
}

func (x *turn) newJob(kind string, body []byte) uint64 {
	x.head.Jobs++
	x.out.Jobs = append(x.out.Jobs, actor.Job{N: x.head.Jobs, Kind: kind, Body: body})
	return x.head.Jobs
}

// job takes the outcome of a job. One that is no longer waited for changes nothing.
func (x *turn) job(a *JobAnswer) {
	h := &x.head
	if a.N == 0 || x.afterwards(a) {
		return
	}
	if a.N == h.Job && h.Open {
		h.Job = 0
		x.alive()
		x.stepDone(a)
		return
	}
	if c := h.Composed; c != nil && c.Stopping != nil && c.Stopping.Job == a.N && h.Open {
		x.brought(c.Stopping, a)
		return
	}
	for c := range h.eachCall {
		if c.Job == a.N && !c.Done {
			x.alive()
			if c.Create != nil {
				x.lifecycle(c, func() error { return x.instanceJob(c, a) })
				return
			}
			if c.Kind == JobSnapshot && a.Err == "" {
				if err := x.spawnWith(c, a.Content.JSON); err != nil {
					x.callFailed(c, err)
				}
				return
			}
			if a.Err != "" && a.Content.IsZero() {
				x.callFailed(c, &actor.Error{Kind: actor.RuntimeError, Err: errors.New(a.Err)})
			} else {
				x.callDone(c, a.Content, a.Err != "")
			}
			return
		}
	}
}

// stepDone takes the outcome of a model's step.
func (x *turn) stepDone(a *JobAnswer) {
	h, s := &x.head, &a.Step
	s.Used = s.Used.bounded()
	h.used(s.Used)
	h.spend(&s.Used)
	if s.Progress != "" {
		h.Progress = s.Progress
		x.dirty = true
	}
	if json.Valid(s.Said.JSON) {
		h.Partial = s.Said
		x.entry(actor.Entry{Kind: actor.EntrySay, Shown: h.Steps, Side: x.said(), From: h.Lineage.ID, Content: s.Said})
		if x.def != nil {
			x.event("said", saidContent{h.Composed.Turn, h.Session, s.Said.JSON})
		}
	}
	switch {
	case a.Err != "" && len(s.Commands) > 0 && x.def != nil: // of messages before the one that failed
		x.commands(s.Commands)
		x.head.Composed.Stopping = &stopping{Reason: StopError, Error: a.Err}
	case a.Err != "":
		x.end(StopError, actor.Value{}, a.Err)
	case len(s.Calls) > MaxCalls:
		x.end(StopError, actor.Value{}, fmt.Sprintf("the model made %d tool calls in one step, more than the %d it may", len(s.Calls), MaxCalls))
	case s.Fail != "":
		x.end(StopFail, actor.Value{}, s.Fail)
	case len(s.Commands) > 0 && x.def != nil:
		x.responded(s)
		x.commands(s.Commands)
	case x.def != nil && len(s.Calls) == 0:
		x.responded(s)
		x.sleep(s)
	case s.Done:
		if _, err := a2e.Encode(&a2e.AwaitResp{Result: s.Result.JSON}); err != nil {
			x.end(StopError, actor.Value{}, "the model's result can't be told: "+err.Error())
			return
		}
		x.end(StopDone, s.Result, "")
	default:
		x.sleep(s)
		x.calls(s.Calls)
	}
}

func (x *turn) sleep(s *Step) {
	h := &x.head
	if s.Sleep > 0 {
		h.SleepUntil = x.now + s.Sleep
		x.arm(timerSleep, h.SleepUntil)
	}
}

// saidContent is the content of the event said.
type saidContent struct {
	Side    actor.Lane      `json:"side"`
	Session uint64          `json:"session"`
	Content json.RawMessage `json:"content"`
}

// said is the side that what is said now prompts: the other one's.
func (x *turn) said() actor.Lane {
	if x.def == nil {
		return ""
	}
	return opposite(x.head.Composed.Turn)
}

// end closes the session. It tells, in this order of stages: the registry and the host; whoever
// waits and the owner; the watchers.
func (x *turn) end(reason StopReason, result actor.Value, why string) {
	h := &x.head
	for _, t := range h.timers() {
		x.out.Disarm = append(x.out.Disarm, t.Name)
	}
	if h.Job != 0 {
		x.out.Abort = append(x.out.Abort, h.Job)
		x.breakOff()
	}
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Job != 0 && !c.Done {
			x.out.Abort = append(x.out.Abort, c.Job)
		}
		if c.Gives != "" && !c.Done {
			h.Loose = append(h.Loose, c.Gives)
		}
		x.spill(c)
	}
	h.Open, h.Reason, h.Error, h.Result = false, reason, why, result
	h.Job, h.Calls, h.SleepUntil = 0, nil, 0
	h.Deadline, h.IdleAt, h.Spared, h.Alive, h.BudgetAt = 0, 0, 0, 0, 0
	if reason == StopCancelled || reason == StopTerminated {
		x.unseeAll()
	}
	if c := h.Composed; c != nil {
		if c.Stopping != nil && c.Stopping.Job != 0 {
			x.out.Abort = append(x.out.Abort, c.Stopping.Job)
		}
		c.Ask, c.Stopping = nil, nil
	}
	x.entry(actor.Entry{Kind: actor.EntryEnd, Shown: max(h.Steps, 1), From: h.Lineage.ID, Name: string(reason), IsError: why != "", Content: result})
	x.notice(false)
	if reason == StopTimeout {
		x.event("timeout", changed{h.status(), h.Session, reason, why, h.Step, x.birth.Config.MaxSteps})
	}
	x.statusChanged()
	h.Ending, h.Told = true, false
	x.tell(maxTold)
}

// unseeAll has the messages that came and were not shown open no session: they stay in the history. Whoever
// waits for the session that takes one waits for this end.
func (x *turn) unseeAll() {
	h := &x.head
	h.Unseen = 0
	if h.Composed != nil {
		h.Composed.Unseen = [2]int{}
	}
	h.Waiters, h.Claims = append(h.Waiters, h.Claims...), nil
}

// maxTold is how many bytes of answers go out in one turn. Whoever is not told then is told in the next,
// which follows at once: a large result may have many who wait for it, and a record has a limit.
const maxTold = 160 << 10

// tell tells everyone who waits, then the owner, how the session ended, as far as there is room.
func (x *turn) tell(room int) {
	h := &x.head
	fits := func(n int) bool {
		if x.told > 0 && x.told+n > room {
			x.out.More = true
			return false
		}
		x.told += n
		return true
	}
	for h.Ending && len(h.Waiters) > 0 {
		w := h.Waiters[0]
		resp := h.outcome()
		resp.Envelope = Around(w.Asker, timeOf(x.now))
		if !fits(len(resp.Result) + len(resp.Error)) {
			return
		}
		h.Waiters = h.Waiters[1:]
		parent := w.Asker.Call != "" && w.From == h.Lineage.Parent()
		if parent && h.Composed != nil { // its tool's result tells why
			resp.StopReason = string(h.Reason)
		}
		if parent && h.tells() && !slices.ContainsFunc(h.Waiters, func(o waiter) bool { return o.Asker.Call != "" && o.From == w.From }) {
			x.answerParent(w, &resp)
		} else {
			x.replyWaiter(w, &resp)
		}
		h.Told = h.Told || parent
	}
	if !h.Ending || h.tells() && !fits(len(h.Result.JSON)+len(h.Error)) {
		return
	}
	h.Ending, h.Waiters = false, nil
	if h.tells() {
		x.complete(h.Told)
	}
}

// answerParent is the answer to the last await of the parent thread, in place of a completion.
func (x *turn) answerParent(w waiter, resp *a2e.AwaitResp) {
	data, err := a2e.Encode(resp)
	if err != nil {
		panic("agent: encode outcome: " + err.Error())
	}
	answer := Answer{Call: w.Asker.Call, Content: actor.Value{JSON: data}, Ended: x.ended()}
	x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: w.From}, Lane: actor.LaneCtl, Name: KindAnswer, Body: Pack(&answer)})
}

// tells reports whether the owner is told of the session's end.
func (h *head) tells() bool { return h.Reason != StopCancelled && h.Reason != StopTerminated }

func (x *turn) ended() Ended {
	return Ended{Session: x.head.Session, Reason: x.head.Reason, Name: x.birth.Config.Name, Usage: x.head.usage()}
}

// complete delivers the outcome to the owner: into the mail of an agent outside, or into the inbox of a
// thread, unless that thread waited for it and has it as its tool's result.
func (x *turn) complete(told bool) {
	l := x.head.Lineage
	if len(l.Ancestors) == 0 || told && !l.ParentOutside() || !x.notifies() {
		return
	}
	resp, end := x.head.outcome(), x.ended()
	data, err := end.around(l.ID, &resp)
	if c := x.head.Composed; err == nil && c != nil {
		data = c.dress(data)
	}
	if err != nil {
		panic("agent: encode completion: " + err.Error())
	}
	if l.ParentOutside() {
		x.effect(actor.Effect{Kind: actor.EffectMail, To: actor.Address{ID: l.Parent()}, Name: fmt.Sprint(x.head.Session), Body: data})
		return
	}
	x.send(actor.Address{ID: l.Parent()}, actor.LaneQueue, KindCompletion, "", end.completion(data))
}

// around encodes resp, by which id told its end, as an owner gets it.
func (e *Ended) around(id actor.ID, resp *a2e.AwaitResp) ([]byte, error) {
	resp.Envelope = a2e.Envelope{}
	resp.Reference, resp.Session, resp.StopReason, resp.Usage = Reference(id), e.Session, string(e.Reason), e.Usage
	return a2e.Encode(resp)
}

// completion is what around gave as an envelope's body.
func (e *Ended) completion(data []byte) *Completion {
	return &Completion{Session: e.Session, Failed: e.Reason != StopDone, Name: e.Name, Content: actor.Value{JSON: data}}
}

// WithText adds to a completion, as its entry in a history holds it, the text of S1 §6.2 that a model
// reads. It is not sent with the completion, for it says the result again.
func WithText(completion json.RawMessage, failed bool) json.RawMessage {
	var c struct {
		Reference string          `json:"reference"`
		Result    json.RawMessage `json:"result"`
		Error     string          `json:"error"`
		Text      string          `json:"text"`
	}
	if json.Unmarshal(completion, &c) != nil || len(completion) < 2 {
		return completion
	}
	if c.Text != "" {
		return completion
	}
	text := "Subagent (reference: " + c.Reference + ") has returned the following result:\n\n" + plain(c.Result)
	if failed {
		text = "Subagent (reference: " + c.Reference + ") has failed with the following error:\n\n" + c.Error
	}
	return withText(completion, text)
}

// plain is a result for a reader: the text alone, where there is nothing else to it.
func plain(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(result, &fields) == nil && len(fields) == 1 && json.Unmarshal(fields["output"], &text) == nil {
		return text
	}
	return string(result)
}

func withText(completion json.RawMessage, text string) json.RawMessage {
	out := append([]byte(`{"text":`), quote(text)...)
	return append(append(out, ','), completion[1:]...)
}

// notifies reports whether the parent hears of the session's end by itself: by what the tool or handler that
// ended it said, else as the relationship has it (S1 §6.2, §6.4).
func (x *turn) notifies() bool {
	c := x.head.Composed
	if c == nil {
		return true
	}
	if c.Notify.Set {
		return c.Notify.On
	}
	return x.rel == nil || x.rel.ParentCommunication != Explicit
}

// outcome is how the last session ended, or READY, RUNNING and WAITING before that.
func (h *head) outcome() a2e.AwaitResp {
	resp := a2e.AwaitResp{SubagentID: h.Lineage.ID, Status: h.status()}
	if h.Open || h.Session == 0 {
		return resp
	}
	resp.Result, resp.Error = h.Result.JSON, h.Error
	if h.Error != "" {
		resp.Result = failure(h.Error, h.Partial.JSON)
	}
	return resp
}

// failure is the result of a session that failed: the error, and what there is of a result.
func failure(why string, partial []byte) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"error":`)
	b.Write(quote(why))
	if len(partial) > 0 {
		b.WriteString(`,"partial":`)
		b.Write(partial)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

// quote is s as a JSON string.
func quote(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic("agent: quote: " + err.Error())
	}
	return data
}
