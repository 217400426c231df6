package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A Requester asks over NATS: *bus.Conn is one. A refusal of the service is an error that has below it one
// with the method Service() (code, description string, data []byte).
type Requester interface {
	RequestWith(ctx context.Context, subject string, header map[string][]string, data []byte) ([]byte, error)
}

// An Endpoint is a NATS micro endpoint, or anything else that answers requests on a subject. The request is the
// arguments, with the headers Troupe-Call, Troupe-Thread (both as tokens of subjects are encoded) and
// Troupe-Session. The response is the result: JSON, or else text. One with the header
// Nats-Service-Error-Code is an error.
type Endpoint struct {
	Name        string
	Description string
	Subject     string
	Schema      json.RawMessage // of the arguments; empty: any object
	Timeout     time.Duration   // of a call; 0 is DefaultTimeout
}

func (e *Endpoint) validate() error {
	if err := subjects.ValidSubject(e.Subject); err != nil {
		return refuse("tool.New", actor.SchemaViolation, e.Name+".subject", "%w", errors.Unwrap(err))
	}
	return validTimeout(e.Name+".timeout", e.Timeout)
}

type endpoint struct {
	Endpoint
	conn Requester
}

// Describe implements [Tool].
func (e *endpoint) Describe() Description {
	return Description{Name: e.Name, Description: e.Endpoint.Description, Schema: e.Schema}
}

// Call implements [Tool].
func (e *endpoint) Call(ctx context.Context, c Call) (Result, error) {
	limit := orDefault(e.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	header := map[string][]string{
		"Troupe-Call":    {subjects.EncodeToken(c.ID)},
		"Troupe-Thread":  {subjects.EncodeToken(string(c.Thread))},
		"Troupe-Session": {strconv.FormatUint(c.Session, 10)},
	}
	data, err := e.conn.RequestWith(ctx, e.Subject, header, c.Arguments)
	var refused interface {
		Service() (code, description string, data []byte)
	}
	switch {
	case errors.As(err, &refused):
		return serviceError(refused.Service())
	case err != nil && ctx.Err() != nil:
		return Result{}, over(ctx, "tool.Call", "the service on "+e.Subject)
	case err != nil:
		return Result{}, err
	}
	content, err := asJSON(data)
	return Result{Content: content}, err
}

// serviceError is a refusal as a result: the service's own body stands in it.
func serviceError(code, description string, data []byte) (Result, error) {
	told := struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail,omitempty"`
	}{Code: code, Message: description}
	if len(data) > 0 {
		var err error
		if told.Detail, err = asJSON(data); err != nil {
			told.Detail = nil // its code and description tell enough
		}
	}
	content, err := json.Marshal(told)
	return Result{Content: content, IsError: true}, err
}

// asJSON is an answer as JSON: itself, or a string of it, or null for nothing.
func asJSON(data []byte) (json.RawMessage, error) {
	switch {
	case len(data) == 0:
		return json.RawMessage("null"), nil
	case json.Valid(data):
		return data, nil
	case !utf8.Valid(data):
		return nil, refuse("tool.Call", actor.RuntimeError, "", "the answer has %d bytes that are neither JSON nor text", len(data))
	}
	return json.Marshal(string(data))
}
