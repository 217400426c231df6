package actor

import "strconv"

// An ID names an actor. Generated ids are "sub_" and 8 lower-case hex digits; the id of an agent
// outside (a program, a person) is any non-empty UTF-8 text.
type ID string

// MaxIDBytes is the longest id that is accepted. A byte may take three in a subject, a subject holds
// up to two ids, and a NATS protocol line ends at 4,096 bytes.
const MaxIDBytes = 256

// An Address is where an envelope goes: a thread, or the host actor of the tree that ID is the root
// of. A thread and the host of its own tree share an id, not a journal.
type Address struct {
	ID   ID
	Host bool
}

// String is the id, with "/host" behind it for a host actor.
func (a Address) String() string {
	if a.Host {
		return string(a.ID) + "/host"
	}
	return string(a.ID)
}

// A Lane is one of the queues of an inbox. Envelopes of one lane are decided in order.
type Lane string

const (
	LaneA     Lane = "a"     // from outside, addressed to side A, which it prompts
	LaneB     Lane = "b"     // from outside, addressed to side B
	LaneQueue Lane = "queue" // the runtime's own, decided in order with a and b
	LaneHost  Lane = "host"  // the runtime's own, to the host actor of the tree
	LaneCtl   Lane = "ctl"   // the runtime's own, decided ahead of queued work
	LaneJob   Lane = "job"   // from workers: answers to jobs, decided with ctl
)

// Ahead reports whether the envelopes of the lane are decided on receipt, ahead of queued work. All that are
// form one queue, in the order of the inbox: that is why one cursor rules them.
func (l Lane) Ahead() bool { return l == LaneCtl || l == LaneJob }

// An EnvelopeID says which record sent an envelope and which of its effects that was. J is the
// stream sequence of the record: there is one journal stream, so J is a logical clock. The zero
// EnvelopeID belongs to a message from outside, which is new by its place in the inbox.
type EnvelopeID struct {
	J uint64
	N uint32
}

// IsZero reports whether the envelope came from outside.
func (e EnvelopeID) IsZero() bool { return e.J == 0 }

// String is J and N with a dot between.
func (e EnvelopeID) String() string {
	return strconv.FormatUint(e.J, 10) + "." + strconv.FormatUint(uint64(e.N), 10)
}
