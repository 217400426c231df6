package a2e

import (
	"time"

	"github.com/troupehq/troupe/actor"
)

// Version is the protocol's version, told to a request that names none.
const Version = "1.0"

// An Envelope is what surrounds a message. All of it is optional on requests, which may call the
// version "a2e"; then both fields hold it. Answers have an envelope only if the request had an id.
type Envelope struct {
	ID      string  `json:"id,omitempty"`
	ReqID   string  `json:"req_id,omitempty"` // on answers: the id of the request
	Version string  `json:"version,omitempty"`
	A2E     string  `json:"a2e,omitempty"` // the version again, as other implementations call it
	TS      float64 `json:"ts,omitempty"`  // seconds since 1970
}

// Env is the envelope itself, for the messages that embed it.
func (e *Envelope) Env() Envelope { return *e }

// Answer gives the envelope of the answer to req: "r-" and the request's id, the request's version
// or ours, and the time, exact to the microsecond. It is empty if the request had no id.
func Answer(req Envelope, now time.Time) Envelope {
	if req.ID == "" {
		return Envelope{}
	}
	version := req.Version
	if version == "" {
		version = Version
	}
	return Envelope{
		ID:      "r-" + req.ID,
		ReqID:   req.ID,
		Version: version,
		A2E:     version,
		TS:      float64(now.UnixMicro()) / 1e6,
	}
}

// DecodeEnvelope recovers what can be had of a request's envelope when [Decode] refuses it, also
// from one that is cut off or broken behind it. Fields that are not valid are left empty.
func DecodeEnvelope(data []byte) Envelope {
	var e Envelope
	var o object
	o.split(trim(data))
	e.ID, _ = o.label("id", actor.MaxIDBytes)
	e.Version, _ = o.label("version", actor.MaxIDBytes)
	e.A2E, _ = o.label("a2e", actor.MaxIDBytes)
	if e.Version == "" {
		e.Version = e.A2E
	}
	e.TS = o.timestamp()
	return e
}

// envelope reads the envelope of a message that is valid JSON. No text in it may exceed maxID bytes.
func (o *object) envelope(maxID int) Envelope {
	var e Envelope
	for _, f := range []struct {
		key string
		to  *string
	}{{"id", &e.ID}, {"req_id", &e.ReqID}, {"version", &e.Version}, {"a2e", &e.A2E}} {
		v, why := o.label(f.key, maxID)
		if why != "" {
			o.fail(f.key, why)
		}
		*f.to = v
	}
	if e.Version == "" {
		e.Version = e.A2E
	}
	e.TS = o.timestamp()
	return e
}
