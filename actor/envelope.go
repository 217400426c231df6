package actor

import "time"

// An Envelope is one message to an actor. What Body holds is a matter of its Kind.
type Envelope struct {
	ID      EnvelopeID
	From    ID
	Session uint64 // the sender's session when it was sent; 0 from outside
	Kind    string
	Key     Key
	Asker   Asker
	Body    []byte

	// Set on delivery, never carried.
	Seq  uint64    `msgpack:"-"` // its place in the inbox stream; 0: an answer from this process
	Lane Lane      `msgpack:"-"`
	At   time.Time `msgpack:"-"` // when the inbox stored it
	Size int       `msgpack:"-"` // bytes that it was weighed as in a mailbox
}

// An Asker says where the answer to an envelope goes: to the reply subject of a request, or to a tool
// call of the thread that sent it. With neither, nobody waits for one.
type Asker struct {
	Reply   string // the subject to answer on
	Request string // the A2E id of the request
	Version string // the version that the request named
	Call    string // the tool call
}

// IsZero reports whether nobody waits for an answer.
func (a Asker) IsZero() bool { return a.Reply == "" && a.Call == "" }

// A Key makes a request safe to repeat: the answer to the first is the answer to all.
type Key struct {
	ID     string // of caller, message type and request id; "" means none
	Digest string // of the request's body: the same ID with another Digest is a Conflict
}

// Taken names an envelope that a record consumed. The sender is part of it, so that nobody can
// use up another's envelope ids.
type Taken struct {
	From ID
	ID   EnvelopeID
}

// A Value is JSON that may be large: inline, or the reference of a stored blob.
type Value struct {
	JSON []byte // the value, or {"$blob":{…}} when Blob is true
	Blob bool
}

// IsZero reports whether there is no value at all. JSON null is a value.
func (v Value) IsZero() bool { return len(v.JSON) == 0 }

// MaxInline is the largest value, in bytes of JSON, that travels inline.
const MaxInline = 128 << 10

// MaxRecord is the largest record, in bytes.
const MaxRecord = 512 << 10
