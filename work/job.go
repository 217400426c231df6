package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// Version is the protocol's. A worker refuses a job of another.
const Version = 1

// MaxJob is the largest job, in bytes. A larger request travels as a blob.
const MaxJob = 512 << 10

// The kinds of service.
const (
	Model = "model" // a step of a thread's model
	Tool  = "tool"  // a tool call
)

const maxName = 128 // bytes

// A Service is what workers serve.
type Service struct {
	Kind string
	Name string
}

// String is the kind, a slash and the name.
func (s Service) String() string { return s.Kind + "/" + s.Name }

// ParseService is the inverse of String. A name has 1 to 128 bytes of UTF-8. The error is a schema_violation.
func ParseService(text string) (Service, error) {
	kind, name, _ := strings.Cut(text, "/")
	var why string
	switch {
	case kind != Model && kind != Tool:
		why = "it does not begin with model/ or tool/"
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		why = fmt.Sprintf("a name has 1 to %d bytes of UTF-8", maxName)
	default:
		return Service{kind, name}, nil
	}
	return Service{}, &actor.Error{Op: "work.ParseService", Kind: actor.SchemaViolation, Field: "service", Err: fmt.Errorf("%q: %s", text, why)}
}

// modelPrefix begins the names of models that workers serve.
const modelPrefix = "worker/"

// ModelService is the service that a model's name stands for: worker/local is model/local. ok is false for a name that stands
// for none.
func ModelService(model string) (s Service, ok bool) {
	name, ok := strings.CutPrefix(model, modelPrefix)
	if !ok {
		return s, false
	}
	s, err := ParseService(Model + "/" + name)
	return s, err == nil
}

// ID is the id of a thread's n-th job.
func ID(thread actor.ID, n uint64) string { return string(thread) + "." + strconv.FormatUint(n, 10) }

// ParseID is the inverse of ID.
func ParseID(id string) (thread actor.ID, n uint64, err error) {
	at := strings.LastIndexByte(id, '.')
	if at > 0 {
		n, err = strconv.ParseUint(id[at+1:], 10, 64)
	}
	if at <= 0 || err != nil || n == 0 || ID(actor.ID(id[:at]), n) != id {
		return "", 0, bad("work.ParseID", "id", "%.300q is not the id of a job", id)
	}
	return actor.ID(id[:at]), n, nil
}

// A Job is what a worker gets. Arguments is that of a tool call, a JSON object. Request is a [Request], of a model's
// step; one that is too large stands in a blob: {"$blob": {…}}.
type Job struct {
	V         int             `json:"v"`
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Thread    actor.ID        `json:"thread"`
	Session   uint64          `json:"session"`
	Step      int             `json:"step,omitempty"`
	Call      string          `json:"call,omitempty"` // the id of the tool call, the same at each try
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Request   json.RawMessage `json:"request,omitempty"`
	Reply     string          `json:"reply"`              // the subject of the answer
	Deadline  *time.Time      `json:"deadline,omitempty"` // after which nobody waits any more
}

// Service is whose the job is.
func (j *Job) Service() Service { return Service{j.Kind, j.Name} }

// DecodeJob reads a job. The error is a parse_error or a schema_violation.
func DecodeJob(data []byte) (*Job, error) {
	const op = "work.DecodeJob"
	var j Job
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, &actor.Error{Op: op, Kind: actor.ParseError, Err: err}
	}
	thread, _, err := ParseID(j.ID)
	switch {
	case j.V != Version:
		return nil, bad(op, "v", "version %d; this worker knows %d", j.V, Version)
	case err != nil:
		return nil, err
	case thread != j.Thread:
		return nil, bad(op, "thread", "it is not that of the id")
	case j.Reply == "":
		return nil, bad(op, "reply", "it is required")
	}
	_, err = ParseService(j.Service().String())
	return &j, err
}

// A Request is all that a model may know when it takes a step: the history, oldest first, and what it may call.
// System is "" for a subagent without a definition, of which the configuration tells.
type Request struct {
	System  string              `json:"system,omitempty"`
	Tools   []ToolInfo          `json:"tools,omitempty"`
	History []Entry             `json:"history"`
	Task    *a2e.TaskDefinition `json:"task,omitempty"`
	Config  a2e.SubagentConfig  `json:"config"`
	Schema  json.RawMessage     `json:"schema,omitempty"` // JSON Schema of the result
}

// A ToolInfo describes a tool to a model. Schema is the JSON Schema of its arguments.
type ToolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// An Entry is one item of a history.
type Entry struct {
	Kind     string          `json:"kind"` // task, message, completion, say, call, result or end
	Role     string          `json:"role"` // user or assistant
	Session  uint64          `json:"session"`
	Step     int             `json:"step"`
	From     actor.ID        `json:"from,omitempty"`
	Type     string          `json:"type,omitempty"`
	Call     string          `json:"call,omitempty"`
	Name     string          `json:"name,omitempty"`
	Content  json.RawMessage `json:"content"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	IsError  bool            `json:"is_error,omitempty"`
	At       time.Time       `json:"at"`
}

func bad(op, field, format string, args ...any) error {
	return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: field, Err: fmt.Errorf(format, args...)}
}

var errNotUTF8 = errors.New("it is not UTF-8")
