package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// delegate accepts a task when no session is open (S0: Delegate).
func (x *turn) delegate(d *Delegate) {
	h := &x.head
	if !h.Lineage.Under(x.env.From) {
		x.fail(actor.NotFound, "not a subagent of %s", x.env.From)
		return
	}
	if h.Terminated || h.Open || x.floored() {
		x.reply(&a2e.DelegateResp{Envelope: x.around(), Status: h.status()}, true) // another try must not be taken later
		return
	}
	x.open(Opener{ID: x.env.From, Session: x.env.Session}, true)
	if x.def != nil {
		x.give(actor.LaneA)
		x.asks(actor.LaneA, instruction(d))
	}
	x.entry(actor.Entry{Kind: actor.EntryTask, From: x.env.From, Name: d.Name, Content: d.Task})
	x.reply(&a2e.DelegateResp{Envelope: x.around(), Accepted: true, Status: h.status()}, true)
	x.event("delegated", delegated{d.Name, h.Session, x.env.From})
}

// instruction is what a task says, for a person.
func instruction(d *Delegate) []byte {
	var task struct {
		Instruction string `json:"instruction"`
	}
	if d.Task.Blob || json.Unmarshal(d.Task.JSON, &task) != nil || task.Instruction == "" {
		return quote(d.Name)
	}
	return quote(task.Instruction)
}

// delegated is the content of the event delegated.
type delegated struct {
	Task    string   `json:"task"`
	Session uint64   `json:"session"`
	By      actor.ID `json:"by"`
}

// floored reports whether the envelope was sent by a session that was stopped since. One without a session
// came from outside, in the thread's name.
func (x *turn) floored() bool {
	for _, f := range x.head.Floors {
		if f.ID == x.env.From && x.env.Session != 0 && x.env.Session <= f.Session {
			return true
		}
	}
	return false
}

// message queues a message (S0: Message; S1 §8). One that was published to the inbox itself opens a
// session when the thread is idle; a SUBAGENT_MESSAGE_REQ does not.
func (x *turn) message(m *Message) {
	h := &x.head
	if m.Root != "" && m.Root != h.Lineage.Root() {
		x.fail(actor.NotFound, "not in the tree of %s", m.Root)
		return
	}
	if request := m.answers(); request != "" {
		x.personAnswers(m, request)
		return
	}
	if h.Terminated {
		if x.env.Asker.IsZero() {
			x.effect(DeadEffect(x.self(), string(actor.ThreadTerminated), x.env))
		}
		x.reply(&a2e.MessageResp{Envelope: x.around()}, false)
		return
	}
	side := x.env.Lane
	if side != actor.LaneB {
		side = actor.LaneA
	}
	if x.answersCall(m) {
		x.took(m)
		return
	}
	if x.most > 0 && x.backlog >= x.most {
		x.overfull()
		return
	}
	x.backlog++
	x.entry(actor.Entry{Kind: actor.EntryMessage, Side: side, From: x.env.From, Type: m.Type, Content: m.Content, Meta: m.Meta})
	if opens := !x.floored(); x.def != nil && (opens && m.Opens || h.Open) {
		x.prompt(side, m.Content.JSON)
	} else if m.Opens && opens {
		h.Unseen++
	}
	x.took(m)
}

// overfull refuses a message because too many wait for the thread's next step. One that nobody waits for an answer to
// can't be refused, and is a dead letter.
func (x *turn) overfull() {
	x.out.Refused++
	why := &actor.Error{ID: x.self().ID, Kind: actor.InboxFull, Field: "to_subagent_id",
		Err: fmt.Errorf("%d messages wait for its next step, the most that may", x.backlog)}
	if x.env.Asker.IsZero() {
		x.effect(DeadEffect(x.self(), why.Error(), x.env))
		x.event("dead_letter", deadLetter{why.Error()})
		return
	}
	x.reply(a2e.NewError(RequestOf(x.env.Asker), timeOf(x.now), why), true)
}

// deadLetter is the content of the event dead_letter.
type deadLetter struct {
	Reason string `json:"reason"`
}

// took answers a message that was taken: at once, or when the session that shows it ends.
func (x *turn) took(m *Message) {
	x.alive()
	switch {
	case m.Awaits && x.floored():
		x.fail(actor.Conflict, "the session that asked was stopped")
		return
	case m.Awaits:
		x.head.Claims = append(x.head.Claims, waiter{From: x.env.From, Session: x.env.Session, Asker: x.env.Asker})
		x.event("message_received", received{x.env.From, m.Type})
		return
	}
	x.reply(&a2e.MessageResp{Envelope: x.around(), Delivered: true}, true)
	x.event("message_received", received{x.env.From, m.Type})
}

// received is the content of the event message_received.
type received struct {
	From actor.ID `json:"from"`
	Type string   `json:"type,omitempty"`
}

func (x *turn) completion(c *Completion) { x.childEnded(x.env.From, c) }

// childEnded puts a child's end into the history. A session that is open sees it before its next step.
func (x *turn) childEnded(id actor.ID, c *Completion) {
	if x.head.Terminated {
		x.event("message_received", dropped{id, "completion", "thread_terminated"})
		return
	}
	x.alive()
	side := x.ownerOf(id)
	e := actor.Entry{Kind: actor.EntryCompletion, Side: side, From: id, Type: "completion", Name: c.Name, IsError: c.Failed, Content: c.Content}
	if x.def != nil {
		e.Meta = ofChild(id)
	}
	if x.def != nil && x.wakes() {
		x.prompt(side, c.Content.JSON)
	}
	x.entry(e)
	x.event("message_received", received{id, "completion"})
}

// wakes reports whether what a child tells may open a session. It does not in a thread that was cancelled: it may have
// been on its way when all of them were.
func (x *turn) wakes() bool { return x.head.Open || x.head.Reason != StopCancelled }

// dropped is the content of the event that tells of a message that nobody will read.
type dropped struct {
	From    actor.ID `json:"from"`
	Type    string   `json:"type"`
	Dropped string   `json:"dropped"`
}

// await answers at once when no session is open, else when it ends (S0: Await).
func (x *turn) await(a *Await) {
	h := &x.head
	switch {
	case x.env.From == h.Lineage.ID:
		x.fail(actor.AwaitCycle, "it would wait for itself")
	case !h.Lineage.Under(x.env.From):
		x.fail(actor.NotFound, "not a subagent of %s", x.env.From)
	case !h.Open:
		resp := h.outcome()
		resp.Envelope = x.around()
		x.reply(&resp, false)
	case len(h.Waiters) >= MaxWaiters:
		x.fail(actor.QuotaExceeded, "%d requests wait for it already", len(h.Waiters))
	default:
		h.Waiters = append(h.Waiters, waiter{From: x.env.From, Session: x.env.Session, Asker: x.env.Asker, Until: a.Until})
	}
}

// stop carries out the thread's part of a cascade. The first terminal word wins: a session that has
// ended is not cancelled, a terminated thread stays terminated.
func (x *turn) stop(s *Stop) {
	h := &x.head
	if x.env.From != h.Lineage.Root() { // somebody gave the id of a thread of another tree work
		x.send(actor.Address{ID: x.env.From, Host: true}, actor.LaneHost, KindStopped, "", &Stopped{Cascade: s.Cascade, Status: h.status()})
		return
	}
	for _, f := range s.Floors {
		h.floor(f)
	}
	meant := len(s.Openers) == 0 || h.openedBy(s.Openers)
	stopped := Stopped{Cascade: s.Cascade, Session: h.Session}
	if meant {
		stopped.Opened = h.Opened
	}
	switch {
	case s.Terminate:
		stopped.Changed = x.terminate()
	case !meant:
	case h.Open:
		x.end(StopCancelled, actor.Value{}, "")
		x.event("cancelled", ended{h.Session})
		stopped.Changed = true
	case h.Session == 0 && h.Reason == "":
		h.Reason = StopCancelled
		x.unseeAll()
		x.notice(false)
		x.statusChanged()
		x.event("cancelled", ended{h.Session})
		stopped.Changed = true
	}
	stopped.Status = h.status()
	x.send(x.hostOf(), actor.LaneHost, KindStopped, "", &stopped)
}

// ended is the content of the events cancelled and terminated.
type ended struct {
	Session uint64 `json:"session"`
}

func (x *turn) terminate() bool {
	h := &x.head
	if h.Terminated {
		return false
	}
	x.tell(1 << 30) // how it ended, before it was terminated
	h.Terminated = true
	if h.Open {
		x.end(StopTerminated, actor.Value{}, "the subagent was terminated")
	} else {
		h.Reason = StopTerminated
		x.unseeAll()
		x.notice(false)
		x.statusChanged()
		h.Ending = h.Ending || len(h.Waiters) > 0
		x.dropPending()
		x.tell(maxTold)
	}
	if p := h.Lineage.Parent(); x.birth.Composition != nil && !h.Lineage.ParentOutside() && p != "" {
		x.send(actor.Address{ID: p}, actor.LaneCtl, KindGone, "", &Gone{})
	}
	x.event("terminated", ended{h.Session})
	return true
}

// floor remembers that a session of an opener was stopped.
func (h *head) floor(f Opener) {
	for i := range h.Floors {
		if h.Floors[i].ID == f.ID {
			h.Floors[i].Session = max(h.Floors[i].Session, f.Session)
			return
		}
	}
	h.Floors = append(h.Floors, f)
}

// openedBy reports whether one of the openers opened the last session.
func (h *head) openedBy(openers []Opener) bool {
	for _, o := range openers {
		if h.Opener.ID == o.ID && h.Opener.Session <= o.Session {
			return true
		}
	}
	return false
}

// timer takes a timer that has fired. It is told by its session and time, not by the clock, which may
// jump: a timer that is not waited for any more changes nothing.
func (x *turn) timer(t *Timer) {
	h := &x.head
	if !h.Open || t.Session != h.Session {
		return
	}
	name := string(x.env.From)
	switch {
	case name == timerTimeout && t.At == h.Deadline:
		x.end(StopTimeout, actor.Value{}, "not done within "+timeOf(h.Deadline).Sub(timeOf(h.SessionAt)).String())
	case name == timerIdle && t.At == h.IdleAt:
		x.idleOver(t.At)
	case name == timerBudget && t.At == h.BudgetAt:
		x.overtime()
	case name == timerSleep && t.At == h.SleepUntil:
		h.SleepUntil = 0
	case strings.HasPrefix(name, timerCall):
		x.callTimeout(strings.TrimPrefix(name, timerCall), t.At)
	}
}
