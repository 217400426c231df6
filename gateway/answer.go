package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A problem is the body of an answer that is not 2xx: the error message of A2E, and what is missing.
type problem struct {
	Type      string     `json:"type"`
	Code      actor.Kind `json:"code"`
	Message   string     `json:"message"`
	Detail    a2e.Detail `json:"detail"`
	Retryable bool       `json:"retryable"`
	Missing   []string   `json:"missing,omitempty"`
}

// refuse answers with an error, and with the names of what is missing.
func refuse(w http.ResponseWriter, status int, err error, missing []string) {
	m := a2e.NewError(a2e.Envelope{}, time.Time{}, err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	answer(w, status, problem{a2e.TypeError, m.Code, m.Message, m.Detail, m.Retryable, missing})
}

// answer writes a body of strings and numbers, which has to be JSON in the end.
func answer(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil {
		panic(err) // which is answered with 500
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever has gone does not read it
}

// statusOf is the HTTP status for what the runtime refused.
func statusOf(kind actor.Kind) int {
	switch kind {
	case actor.ParseError, actor.SchemaViolation, actor.InvalidMessage:
		return http.StatusBadRequest
	case actor.NotFound:
		return http.StatusNotFound
	case actor.Gone, actor.ThreadTerminated:
		return http.StatusGone
	case actor.AtCapacity, actor.QuotaExceeded, actor.DepthExceeded, actor.Conflict,
		actor.SubagentArgumentsRequired, actor.SubagentArgumentsInvalid, actor.SubagentUnknownAgent:
		return http.StatusConflict
	case actor.EnvRequired:
		return http.StatusUnprocessableEntity
	case actor.TooLarge:
		return http.StatusRequestEntityTooLarge
	case actor.Unavailable, actor.InboxFull:
		return http.StatusServiceUnavailable
	case actor.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError // unauthorized, too: it is the host that lacks a key, not who asks
}
