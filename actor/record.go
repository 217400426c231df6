package actor

import "strconv"

// RecordVersion is written into every record; a reader refuses a newer one. It stays what it is while records only get
// new fields, which the rules beside agent.Pack are for; it grows with a change that an older program must not read.
const RecordVersion = 1

// A Record is one message in an actor's journal: the whole small current state, what was added to
// the history, and what has to be sent. Appending it with the expected last sequence is the commit
// of a turn and its fence.
type Record struct {
	V       uint8
	At      int64  // microseconds since 1970
	By      string // the process that wrote it, for people who read journals
	Cursor  Cursor // how far the inbox has been decided
	Rev     uint64 // the registry revision known at this commit
	Base    uint64 // the record from which deltas are read; 0: the head is everything
	Head    []byte // the machine's state
	Delta   []byte // what changed in the part of the state that is too large for a head
	Took    []Taken
	Entries []Entry
	Effects []Effect
	Answers []Answered // the latest answers to requests with an idempotency key
	Spilled bool       // there were more, which are stored elsewhere
	Unsent  []uint64   // earlier records that were not sent when this one was made; they go first
}

// An Answered is the answer to a request with an idempotency key.
type Answered struct {
	Key  string
	At   int64 // microseconds since 1970
	Body []byte
}

// A Cursor is the last inbox sequence decided, for the lanes ctl and job and for the others: the former
// are decided on receipt, ahead of queued work.
type Cursor struct {
	Ctl   uint64
	Queue uint64
}

// Of gives the cursor that rules lane.
func (c *Cursor) Of(lane Lane) *uint64 {
	if lane.Ahead() {
		return &c.Ctl
	}
	return &c.Queue
}

// EntryKind says what an entry of a history is.
type EntryKind string

const (
	EntryTask       EntryKind = "task"       // a delegated task: Content is the TaskDefinition
	EntryMessage    EntryKind = "message"    // a message to the thread
	EntryCompletion EntryKind = "completion" // a child's end
	EntrySay        EntryKind = "say"        // what the model said
	EntryCall       EntryKind = "call"       // a tool call: Content is its arguments
	EntryResult     EntryKind = "result"     // a tool's result
	EntryEnd        EntryKind = "end"        // the end of a session: Name is the stop reason
)

// An Entry is one item of a thread's history.
type Entry struct {
	Kind    EntryKind
	At      int64 // microseconds since 1970
	Session uint64
	Shown   uint64 // the step, counted over the thread's life, before which it is shown or in which it arose
	Side    Lane   // the side it prompts: a or b
	From    ID
	Type    string // of a message
	Call    string // of a call or result: its id
	Name    string // of a tool, task or child
	IsError bool
	Content Value
	Meta    []byte // of a message: a JSON object, or nothing
}

// EffectKind says what an effect does.
type EffectKind uint8

const (
	EffectBirth    EffectKind = iota + 1 // writes the first record of To; Body is the birth
	EffectRegistry                       // puts the actor's registry entry
	EffectNotice                         // tells the host To of a session's opening or end
	EffectAnswer                         // stores Body as the answer to the key Name; to an asker it goes as a reply, too
	EffectSend                           // sends an envelope of kind Name to To
	EffectMail                           // puts Body into the mail of To, as message Name
	EffectReply                          // publishes Body to the subject Name
	EffectEvent                          // publishes Body as event Name of To
	EffectDead                           // puts Body into the dead letters of To, for the reason Name
)

// An Effect is something that a recorded turn has to bring about. Effects of one record go out in
// three stages; all of a stage are acknowledged before the next begins.
type Effect struct {
	Kind    EffectKind
	To      Address
	Lane    Lane
	Name    string
	Session uint64 // of an envelope: the sender's session
	Asker   Asker  // of an envelope, or of an answer that is kept
	Body    []byte
}

// String is the kind in a word, for people.
func (k EffectKind) String() string {
	names := [...]string{"none", "birth", "registry", "notice", "answer", "send", "mail", "reply", "event", "dead"}
	if int(k) < len(names) {
		return names[k]
	}
	return "effect " + strconv.Itoa(int(k))
}

// Stage is 1, 2 or 3.
func (k EffectKind) Stage() int {
	switch k {
	case EffectBirth, EffectRegistry, EffectNotice, EffectAnswer:
		return 1
	case EffectEvent:
		return 3
	}
	return 2
}
