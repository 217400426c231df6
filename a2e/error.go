package a2e

import (
	"errors"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
)

// Error is the answer to a request that failed.
type Error struct {
	Envelope
	Code      actor.Kind `json:"code"`
	Message   string     `json:"message"`
	Detail    Detail     `json:"detail"`
	Retryable bool       `json:"retryable"` // the same request may succeed later
}

// Detail says what an Error is about; empty fields are left out.
type Detail struct {
	Field string   `json:"field,omitempty"` // the offending field, as a path: "agent.max_steps"
	ID    actor.ID `json:"id,omitempty"`    // the actor concerned
}

// NewError builds the answer to a request that failed with err. Code and Retryable come from err's
// Kind, Detail from the outermost [actor.Error] in its chain. Message is "field: cause", or the
// cause alone; it does not repeat the code, and does not tell the operation inside the host.
func NewError(req Envelope, now time.Time, err error) *Error {
	m := &Error{Envelope: Answer(req, now), Code: actor.RuntimeError}
	if err != nil {
		m.Code, m.Message = actor.KindOf(err), err.Error()
	}
	m.Retryable = m.Code.Retryable()
	var e *actor.Error
	if !errors.As(err, &e) {
		return m
	}
	m.Detail = Detail{Field: e.Field, ID: e.ID}
	m.Message = strings.ReplaceAll(string(e.Kind), "_", " ")
	if e.Err != nil {
		m.Message = e.Err.Error()
	}
	if e.Field != "" {
		m.Message = e.Field + ": " + m.Message
	}
	return m
}

// Err gives the failure back as an *[actor.Error], the inverse of [NewError]. Its Op is empty.
func (m *Error) Err() error {
	e := &actor.Error{ID: m.Detail.ID, Kind: m.Code, Field: m.Detail.Field}
	text := m.Message
	if e.Field != "" {
		text = strings.TrimPrefix(text, e.Field+": ")
	}
	if text != "" {
		e.Err = errors.New(text)
	}
	return e
}
