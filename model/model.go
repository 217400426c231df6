package model

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A Model takes one step of a thread. Implementations keep no state between steps: everything is
// in the Request. Step is called from many goroutines at once, and may be called again for a step
// whose response was lost. A Response beside an error counts for its Usage only: what the step cost that
// came to nothing.
type Model interface {
	Step(ctx context.Context, r *Request) (*Response, error)
}

// A Request is all that a model may know when it takes a step. The model does not change it and
// does not keep it.
type Request struct {
	Thread  actor.ID
	Session uint64
	Step    int // 1-based within the session
	Config  a2e.SubagentConfig
	Task    *a2e.TaskDefinition // nil when a message opened the session

	// History is what happened so far, oldest first: this session's entries, and before them those
	// of earlier sessions.
	History []Entry

	// System is the prompt of the side that acts, filled in; "" for a subagent without a definition, of
	// which Config.Role tells.
	System string
	Tools  []Tool          // what the model may call
	Schema json.RawMessage // the JSON Schema that the result has to meet; or nothing

	// Progress tells watchers how the step is going. It is never nil, may be called from the step's
	// own goroutine only, and promises no delivery.
	Progress func(text string)
}

// A Tool is described to the model. Schema is the JSON Schema of its arguments, an object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// A Role is how an entry reads to the side that acts: what prompts it is the user's, what it said itself is
// the assistant's.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// An EntryKind says what an Entry of the history is.
type EntryKind string

const (
	EntryTask       EntryKind = "task"       // the task that opened the session; Content is the task
	EntryMessage    EntryKind = "message"    // somebody sent it; From, Type, Content
	EntryCompletion EntryKind = "completion" // a child of this thread ended a session; From, Type, Content
	EntrySay        EntryKind = "say"        // the model said it; Content is a string
	EntryCall       EntryKind = "call"       // the model called a tool; Call, Name, Content is the arguments
	EntryResult     EntryKind = "result"     // the tool answered; Call, Name, Content, IsError
	EntryEnd        EntryKind = "end"        // the session ended; Content is its result
)

// An Entry is one thing that happened in a session. Step is the step that brought it about; for
// a message or a completion it is the step before which the model is first shown it.
type Entry struct {
	Kind     EntryKind
	Role     Role
	Session  uint64
	Step     int
	From     actor.ID        // the sender, of a message or completion
	Type     string          // the sender's word for what kind of message it is
	Call     string          // the id of the call, of a call or result
	Name     string          // the tool, of a call or result
	Content  json.RawMessage // valid JSON; empty means null
	Metadata json.RawMessage // of a message, an object: its "source" says where it came from; or nothing
	IsError  bool            // the tool failed, and Content tells how
	At       time.Time
}

// A Call asks for a tool. Its ID is unique within the session and comes back in the result's
// Entry.Call. Arguments is a JSON object; what a model wrote instead of one stands in it under the key
// [InvalidArguments].
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// InvalidArguments is the only key of the Arguments of a Call whose model wrote something else than a JSON
// object. Its value is what the model wrote, as a string. Whoever makes the call answers it with an error
// that says so, and calls nothing: the model reads the error and tries again.
const InvalidArguments = "$invalid"

// Invalid gives what the model wrote instead of arguments, and reports whether it did.
func Invalid(arguments json.RawMessage) (text string, ok bool) {
	keys, err := object(orNull(arguments))
	if err != nil || len(keys) != 1 {
		return "", false
	}
	return stringOf(keys[InvalidArguments])
}

// A Response is the outcome of a step.
//
// Fail ends the session as failed, whatever else is set. Done ends it with Result. Otherwise it
// goes on: the calls are made, at the same time, then the thread sleeps for Sleep, then comes the
// next step. A response with none of these goes on to the next step as well.
type Response struct {
	Text   string          // what the model said, for the history and for watchers
	Calls  []Call          // tools to call before the next step
	Result json.RawMessage // a JSON object; set when Done is
	Fail   string          // why the model gives up; never empty when it does
	Done   bool
	Sleep  time.Duration // durable: it outlives the host
	Usage  *Usage        // nil when the model does not count
}

// A Usage is what a step cost, in tokens and US dollars. The cached tokens are part of InputTokens. USD is
// 0 when the model has no price.
type Usage struct {
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64   `json:"cache_write_tokens,omitempty"`
	USD              float64 `json:"usd,omitempty"`
}

// Add adds what another try or step cost.
func (u *Usage) Add(v Usage) {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.USD += v.USD
}

// interrupted turns the context's error, if it has one, into an error of op.
func interrupted(ctx context.Context, op string, id actor.ID) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	kind := actor.RuntimeError
	if errors.Is(err, context.DeadlineExceeded) {
		kind = actor.Timeout
	}
	return &actor.Error{Op: op, ID: id, Kind: kind, Err: err}
}
