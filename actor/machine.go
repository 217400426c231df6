package actor

import "time"

// A Machine is the state of an actor and the rules by which it moves. It does no I/O, reads no
// clock and draws no random number: all that comes in through Input. Decide changes the machine in
// place; a caller whose record is refused throws the machine away and loads it again.
type Machine interface {
	// Needs says what Decide wants to know before it can take batch.
	Needs(batch []Envelope) Needs
	// Decide takes the envelopes in order.
	Decide(in Input) Turn
	// Fail ends what is going on, because an envelope can't be decided.
	Fail(in Input, reason string) Turn
	// Head encodes the current state.
	Head() ([]byte, error)
	// Outstanding lists the jobs and timers that wait for their answers, to be started
	// again after a takeover.
	Outstanding() ([]Job, []Timer)
	// Wake is when the machine wants a turn though nothing comes; the zero time: never.
	Wake() time.Time
	// RegistryEntry encodes the registry entry as of journal sequence j, and says whose it is;
	// nil when the actor has none.
	RegistryEntry(j uint64) ([]byte, Lineage)
}

// Needs lists what has to be looked up for a batch.
type Needs struct {
	IDs     int  // fresh ids
	Threads []ID // threads whose lineage and status matter
	Tree    bool // every thread of the tree
}

// Input is everything that a decision depends on besides the state.
type Input struct {
	Now     time.Time
	Resumed bool      // another process had the actor, and may have died of what was under way
	Alive   time.Time // when a job of the actor that runs in this process last gave a sign of life; or zero
	Queued  int       // messages that a thread may have queued; 0: without limit
	Batch   []Envelope
	IDs     []ID
	Threads map[ID]Known
	Tree    []Known
}

// A Lineage is a thread's place in its tree. It never changes.
type Lineage struct {
	ID        ID
	Ancestors []ID // the root first, the parent last; empty for a root thread
	Outside   bool // the root is an agent outside, not a thread
}

// Root is the root of the thread's tree.
func (l Lineage) Root() ID {
	if len(l.Ancestors) == 0 {
		return l.ID
	}
	return l.Ancestors[0]
}

// Parent is the thread's parent, "" for a root thread.
func (l Lineage) Parent() ID {
	if len(l.Ancestors) == 0 {
		return ""
	}
	return l.Ancestors[len(l.Ancestors)-1]
}

// Depth is 0 for a root.
func (l Lineage) Depth() int { return len(l.Ancestors) }

// Under reports whether id is the thread itself or one of its ancestors.
func (l Lineage) Under(id ID) bool {
	if l.ID == id {
		return true
	}
	for _, a := range l.Ancestors {
		if a == id {
			return true
		}
	}
	return false
}

// ParentOutside reports whether the parent is an agent outside.
func (l Lineage) ParentOutside() bool { return l.Outside && len(l.Ancestors) == 1 }

// Known is what a lookup found of a thread.
type Known struct {
	Lineage
	Found      bool
	Terminated bool
}

// A Turn is a decision: what to record and send.
type Turn struct {
	Entries []Entry
	Effects []Effect
	Jobs    []Job    // to start once the turn is recorded; also in the state, as outstanding
	Timers  []Timer  // to arm; also in the state
	Abort   []uint64 // jobs that no longer matter
	Disarm  []string // timers that no longer matter
	Delta   []byte   // for Record.Delta
	Full    bool     // Delta (with those that follow) starts a new full table
	Rebase  bool     // the table begun at the last Full is complete: it becomes the base
	More    bool     // decide again, with or without envelopes
	Refused int      // messages that found the inbox full
}

// A Job is work whose answer comes back as an envelope of kind "job".
type Job struct {
	N    uint64 // unique in the life of the actor
	Kind string
	Body []byte
}

// A Timer is an envelope of kind "timer" at a time.
type Timer struct {
	Name    string
	At      int64  // microseconds since 1970
	Session uint64 // the session it is about
}
