package agent

import (
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// MaxWaiters is how many requests may await one thread at a time.
const MaxWaiters = 1000

// A Birth is what a thread is born with and keeps for its life.
type Birth struct {
	Lineage   actor.Lineage
	Order     uint64 // counts the births in the tree
	CreatedAt int64  // microseconds since 1970
	Config    a2e.SubagentConfig

	Composition *Composition // nil: what Config says is all
	Snapshot    string       // that its memory space begins as
	Budgets     []actor.ID   // the threads with a budget that it stands under, the root first, itself last
}

// A Thread is the state machine of one subagent. It implements [actor.Machine].
type Thread struct {
	birth Birth
	head  head
	def   *Definition   // of a composed thread
	rel   *Relationship // that it is an instance of; nil: of none

	// What follows is forgotten with the thread's place in memory, and no record holds it: with it in the head, every program
	// that does not know of it would have to refuse the thread.
	broken  []broken // steps that were broken off under no budget
	backlog int      // messages taken since the last step began
}

// manyQueued is how many messages a record tells of: fewer are not worth it.
const manyQueued = 1024

// head is the small current state, written whole into every record.
type head struct {
	Lineage    actor.Lineage
	Birth      uint64 // the sequence of the birth; 0 in the birth itself
	Session    uint64 // sessions opened so far
	Open       bool
	Terminated bool
	Reason     StopReason // of the last session's end
	Error      string
	Result     actor.Value
	Partial    actor.Value // the last that the model said in the session
	Task       bool        // a task opened the session
	Opener     Opener
	Step       int    // of the session
	Steps      uint64 // of all sessions
	Input      int64  // of the first version's, as is the next; Used counts tokens now
	Output     int64
	SessionAt  int64 // microseconds, as are the next three
	UpdatedAt  int64
	Deadline   int64
	SleepUntil int64
	Jobs       uint64 // how many were asked for
	Job        uint64 // the step under way
	Calls      []call // of the step before
	Waiters    []waiter
	Floors     []Opener
	Opened     []actor.ID // threads that were given work in the session
	Unseen     int        // messages not yet shown, of those that open a session
	Progress   string
	Tries      int        // processes that had the step under way and went
	Own        []byte     // the birth again, if it is small: then activation reads one record
	Loose      []actor.ID // for the notice of the end
	Ending     bool       // the session ended, and not everyone has been told
	Told       bool       // the parent thread was told, as one who waited
	Composed   *composed  // of a composed thread
	Claims     []waiter   // who waits for the session that takes a message that is not taken yet
	Used       Usage      // of the session; its steps are Step
	Life       Usage      // of the thread's life; its steps are Steps
	Alive      int64      // the last progress, while there is a limit on how long there may be none; microseconds, as are the next three
	IdleAt     int64      // when the idle timer fires
	BudgetAt   int64      // when the time that the thread's own budget gives the session is over
	Spared     int64      // the session does not end before for want of progress
	Allowance  *allowance // of a thread under budgets
	Broken     []broken   // steps under budgets that were broken off, of which it may yet be told what they cost
	Queued     int        // messages taken since the last step began, if they are many
}

// A call is a tool call under way.
type call struct {
	ID    string // as the model named it
	Key   string // unique in the life of the thread: answers name it
	Name  string
	Job   uint64     // the job that carries it out, or 0
	Kind  string     // of that job
	Gives actor.ID   // the thread that it gives work to, or ""
	Body  []byte     // what that job is given
	Waits []actor.ID // threads whose end it waits for
	Need  int        // how many of them have to complete
	Mode  a2e.Mode
	Until int64    // microseconds; 0: without limit
	Got   [][]byte // their AWAIT_RESP, as JSON
	Ends  []Ended  // for each of these, the completion that it stands for
	Done  bool
	Code  bool // a handler asked for it, not a model

	Booted bool        // it was asked for from outside any step
	Asker  actor.Asker // who waits for it then, and under which key the answer is kept
	Keyed  actor.Key

	Create *creation // of a lifecycle tool
}

// A waiter is a request that waits for the session to end.
type waiter struct {
	From    actor.ID
	Session uint64
	Asker   actor.Asker
	Until   int64
}

// Born gives the first record of a thread.
func Born(b Birth, now int64) (actor.Record, error) {
	h := head{Lineage: b.Lineage, UpdatedAt: now}
	return actor.Record{V: actor.RecordVersion, At: now, Head: Pack(&h), Delta: Pack(&b)}, nil
}

// maxOwn is how large a birth may be that stands in every record.
const maxOwn = 1024

// Load restores a thread from its last record, which has sequence seq, and from the birth, which is
// nil when the last record is the birth.
func Load(last *actor.Record, seq uint64, birth *actor.Record) (*Thread, error) {
	var t Thread
	if err := Unpack(last.Head, &t.head); err != nil {
		return nil, err
	}
	data := t.head.Own
	if t.head.Birth == 0 {
		t.head.Birth, birth = seq, last
	}
	if data == nil {
		data = birth.Delta
	}
	if err := Unpack(data, &t.birth); err != nil {
		return nil, err
	}
	if len(data) <= maxOwn {
		t.head.Own = data
	}
	t.backlog = t.head.Queued
	return &t, t.compose()
}

// BirthSeq reads from a record where the thread's birth stands that Load needs; 0 if it needs none.
func BirthSeq(last *actor.Record) (uint64, error) {
	var h head
	if err := Unpack(last.Head, &h); err != nil || h.Own != nil {
		return 0, err
	}
	return h.Birth, nil
}

// Head encodes the current state.
func (t *Thread) Head() ([]byte, error) {
	t.head.Queued = 0
	if t.backlog >= manyQueued {
		t.head.Queued = t.backlog
	}
	return Pack(&t.head), nil
}

// Needs is nothing: a thread decides from what it has.
func (t *Thread) Needs([]actor.Envelope) actor.Needs { return actor.Needs{} }

// Lineage is the thread's place in its tree.
func (t *Thread) Lineage() actor.Lineage { return t.head.Lineage }

// Config is the thread's configuration.
func (t *Thread) Config() a2e.SubagentConfig { return t.birth.Config }

// Status is A2E's status of the thread.
func (t *Thread) Status() a2e.Status { return t.head.status() }

// BirthAt is the journal sequence of the birth.
func (t *Thread) BirthAt() uint64 { return t.head.Birth }

// At tells in which session and step the thread is: the step of the session, the step counted over
// the thread's life, and whether a task opened the session.
func (t *Thread) At() (session uint64, step int, steps uint64, task bool) {
	return t.head.Session, t.head.Step, t.head.Steps, t.head.Task
}

// Deadline is when the session that is open times out; the zero time: never.
func (t *Thread) Deadline() time.Time {
	if t.head.Deadline == 0 {
		return time.Time{}
	}
	return timeOf(t.head.Deadline)
}

// Outcome is how the last session ended, as an AWAIT_RESP.
func (t *Thread) Outcome() a2e.AwaitResp { return t.head.outcome() }

// Outstanding lists the jobs and timers that the thread waits for.
func (t *Thread) Outstanding() ([]actor.Job, []actor.Timer) {
	h := &t.head
	var jobs []actor.Job
	if h.Job != 0 {
		jobs = append(jobs, actor.Job{N: h.Job, Kind: JobModel})
	}
	if c := h.Composed; c != nil && c.Stopping != nil && c.Stopping.Job != 0 {
		jobs = append(jobs, actor.Job{N: c.Stopping.Job, Kind: JobDeliver, Body: h.bringing(c.Stopping)})
	}
	for c := range h.eachCall {
		if c.Job != 0 && !c.Done {
			jobs = append(jobs, actor.Job{N: c.Job, Kind: c.Kind, Body: c.Body})
		}
	}
	return jobs, h.timers()
}

func (h *head) timers() []actor.Timer {
	var timers []actor.Timer
	if !h.Open {
		return nil
	}
	add := func(name string, at int64) {
		if at != 0 {
			timers = append(timers, actor.Timer{Name: name, At: at, Session: h.Session})
		}
	}
	add(timerTimeout, h.Deadline)
	add(timerIdle, h.IdleAt)
	add(timerBudget, h.BudgetAt)
	add(timerSleep, h.SleepUntil)
	for i := range h.Calls {
		if c := &h.Calls[i]; !c.Done {
			add(timerCall+c.Key, c.Until)
		}
	}
	return timers
}

func (h *head) status() a2e.Status {
	return status(h.Terminated, h.Open, h.parked(), h.Session, h.Reason)
}

func (h *head) registryStatus() string {
	switch {
	case h.Terminated:
		return StatusTerminated
	case h.Open && h.Composed != nil && h.Composed.Ask != nil:
		return StatusAwaitingHuman
	case h.Open:
		return StatusRunning
	case h.Session == 0 || h.Reason == StopDone || h.Reason == StopCancelled:
		return StatusIdle
	}
	return StatusFailed
}

// parked reports whether the session waits for another thread, or for a person.
func (h *head) parked() bool {
	if !h.Open {
		return false
	}
	if h.Composed != nil && h.Composed.Ask != nil {
		return true
	}
	for i := range h.Calls {
		if c := &h.Calls[i]; !c.Done && len(c.Waits) > 0 {
			return true
		}
	}
	return false
}

// Terminated reports whether the thread is terminated.
func (t *Thread) Terminated() bool { return t.head.Terminated }

// Result is what the last session completed with.
func (t *Thread) Result() actor.Value { return t.head.Result }

// Session counts the sessions opened so far.
func (t *Thread) Session() uint64 { return t.head.Session }

// Snapshot is what the thread's memory space begins as, or "".
func (t *Thread) Snapshot() string { return t.birth.Snapshot }

// ToolNames lists the tools that the prompts of a composed thread name.
func (t *Thread) ToolNames() (names []string) {
	for _, side := range []*Side{t.def.SideA, t.def.SideB} {
		if side != nil && side.Prompt != nil {
			names = append(names, side.Prompt.Tools...)
		}
	}
	return names
}
