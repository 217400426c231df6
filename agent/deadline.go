package agent

import (
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// setDeadline sets how long the session that is opened now may take.
func (x *turn) setDeadline() {
	h := &x.head
	if x.birth.Config.TimeoutSeconds > 0 {
		h.Deadline = x.now + int64(x.birth.Config.TimeoutSeconds)*1e6
		x.arm(timerTimeout, h.Deadline)
	}
	if b := x.birth.Config.Budget; b != nil && b.Seconds > 0 {
		h.BudgetAt = x.now + max(1, int64(b.Seconds*1e6))
		x.arm(timerBudget, h.BudgetAt)
	}
}

func (x *turn) arm(name string, at int64) {
	x.out.Timers = append(x.out.Timers, actor.Timer{Name: name, At: at, Session: x.head.Session})
}

// idle is how long the session may go without progress, in microseconds; 0: without limit.
func (x *turn) idle() int64 {
	seconds := x.birth.Config.IdleTimeoutSeconds
	if x.def != nil {
		if side := x.def.side(x.head.Composed.Turn); side != nil && side.IdleTimeoutSeconds > 0 {
			seconds = side.IdleTimeoutSeconds
		}
	}
	return int64(seconds) * 1e6
}

// ticks reports whether the idle clock runs: a step or a tool is under way. While the session waits for another
// thread, a person, a time or a budget the clock stands.
func (h *head) ticks() bool {
	return h.Open && !h.parked() && (h.Job != 0 || !h.callsDone() || h.Composed != nil && h.Composed.Stopping != nil)
}

// alive notes that the session made progress.
func (x *turn) alive() {
	if x.head.Open && x.idle() > 0 {
		x.head.Alive = x.now
	}
}

// watchIdle sets the idle timer if the clock runs and none is set, or one that is too late for the side that acts
// now. Progress does not set it anew, for every turn would have a timer to write then: when it fires, it looks how
// long ago the last progress was.
func (x *turn) watchIdle(ticked bool) {
	h := &x.head
	idle := x.idle()
	if idle == 0 || !h.ticks() {
		return
	}
	if !ticked {
		h.Alive = x.now // the clock stood
	}
	if due := max(h.Alive+idle, h.Spared); h.IdleAt == 0 || h.IdleAt > due {
		h.IdleAt = due
		x.arm(timerIdle, due)
	}
}

// idleOver takes the idle timer. It is told by its time, as all timers are.
func (x *turn) idleOver(at int64) {
	h := &x.head
	h.IdleAt = 0
	idle := x.idle()
	if idle == 0 || !h.ticks() {
		return
	}
	h.Alive = max(h.Alive, min(x.sign, x.now))
	if due := max(h.Alive+idle, h.Spared); due > at {
		h.IdleAt = due
		x.arm(timerIdle, due)
		return
	}
	x.end(StopTimeout, actor.Value{}, "no progress for "+duration(idle))
}

func duration(us int64) string { return (time.Duration(us) * time.Microsecond).String() }

// An Extend gives the session that is open more time.
type Extend struct {
	By int64 // microseconds, above 0
}

// extended is the content of the event extended. Times are microseconds since 1970.
type extended struct {
	Session  uint64 `json:"session"`
	Deadline int64  `json:"deadline,omitempty"`
	Idle     int64  `json:"idleDeadline,omitempty"` // when it ends if there is no progress before
}

// extend moves the deadlines of the open session.
func (x *turn) extend(e *Extend) {
	h := &x.head
	idle := x.idle()
	switch {
	case !h.Lineage.Under(x.env.From):
		x.fail(actor.NotFound, "not a subagent of %s", x.env.From)
		return
	case !h.Open:
		x.fail(actor.Conflict, "it is %s, and has nothing under way", h.status())
		return
	case h.Deadline == 0 && idle == 0:
		x.fail(actor.Conflict, "it has no deadline")
		return
	}
	told := extended{Session: h.Session}
	if h.Deadline != 0 {
		h.Deadline = later(h.Deadline, e.By)
		x.out.Disarm = append(x.out.Disarm, timerTimeout)
		x.arm(timerTimeout, h.Deadline)
		told.Deadline = h.Deadline
	}
	if idle != 0 {
		from := h.Alive
		if !h.ticks() {
			from = x.now // the clock stands; what is added counts from now at the least
		}
		h.Spared = later(max(from+idle, h.Spared), e.By)
		told.Idle = h.Spared
	}
	x.dirty = true
	x.tellExtended(told)
}

// maxDeadline is the latest deadline there may be: the year 2200.
const maxDeadline = 7_258_118_400_000_000

func later(at, by int64) int64 { return min(at+by, maxDeadline) }

// tellExtended answers whoever asked, and tells the watchers.
func (x *turn) tellExtended(told extended) {
	x.event("extended", told)
	content := x.out.Effects[len(x.out.Effects)-1].Body
	x.reply(&a2e.Event{Envelope: x.around(), SubagentID: x.head.Lineage.ID, Event: "extended", Content: content}, true)
}
