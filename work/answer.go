package work

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

// An Answer ends a job. It has exactly one of Result (of a tool: any JSON), Response (of a model) and Error. Usage is
// what a model's step cost that came to nothing, beside its Error.
type Answer struct {
	V        int             `json:"v"`
	ID       string          `json:"id"`
	Result   json.RawMessage `json:"result,omitempty"`
	Response *Response       `json:"response,omitempty"`
	Error    *Failure        `json:"error,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"`
}

// A Failure says why a job came to nothing: a tool's is its result, a model's ends the session. Retryable is for whoever
// reads the answer; who wants the job tried again gives it back to the queue instead of answering.
//
// Code is the class of the failure, a Kind such as too_large; any that is not known is runtime_error.
type Failure struct {
	Message   string     `json:"message"`
	Retryable bool       `json:"retryable,omitempty"`
	Code      actor.Kind `json:"code,omitempty"`
}

// Kind is the class of the failure as those who read the answer may know it.
func (f *Failure) Kind() actor.Kind {
	switch f.Code {
	case actor.TooLarge, actor.SchemaViolation, actor.NotFound, actor.Unauthorized, actor.Timeout:
		return f.Code
	}
	return actor.RuntimeError
}

// A Response is the outcome of a model's step. Fail ends the session as failed, whatever else there is. Done ends it
// with Result, an object (any other value becomes {"output": …}). Otherwise the calls are made and the next step
// comes after Sleep.
type Response struct {
	Text   string          `json:"text,omitempty"`
	Calls  []Call          `json:"calls,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Done   bool            `json:"done,omitempty"`
	Fail   string          `json:"fail,omitempty"`
	Sleep  int64           `json:"sleep_ms,omitempty"`
	Usage  *Usage          `json:"usage,omitempty"`
}

// A Call asks for a tool.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object
}

// A Usage is what a step cost, in tokens and in dollars.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`

	USD float64 `json:"usd,omitempty"`
}

// MaxSleep is the longest that a step may have the thread sleep, in milliseconds: a year.
const MaxSleep = 365 * 24 * 60 * 60 * 1000

// DecodeAnswer reads an answer, which may come from anybody. When the id can be read it is in the Answer, also beside
// an error: then the job is known that was answered badly. The error is a parse_error or a schema_violation.
func DecodeAnswer(data []byte) (*Answer, error) {
	const op = "work.DecodeAnswer"
	var a Answer
	if !utf8.Valid(data) {
		return &a, &actor.Error{Op: op, Kind: actor.ParseError, Err: errNotUTF8}
	}
	if err := json.Unmarshal(data, &a); err != nil {
		var head struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(data, &head) == nil {
			a = Answer{ID: head.ID}
		}
		return &a, &actor.Error{Op: op, Kind: actor.ParseError, Err: err}
	}
	if _, _, err := ParseID(a.ID); err != nil {
		return &Answer{}, err
	}
	return &a, a.check(op)
}

func (a *Answer) check(op string) error {
	n := 0
	for _, is := range []bool{a.Result != nil, a.Response != nil, a.Error != nil} {
		if is {
			n++
		}
	}
	switch {
	case a.V != Version:
		return bad(op, "v", "version %d, want %d", a.V, Version)
	case n != 1:
		return bad(op, "result", "an answer has one of result, response and error; it has %d", n)
	case a.Error != nil && a.Error.Message == "":
		return bad(op, "error.message", "it is required")
	case a.Usage != nil && (a.Error == nil || a.Usage.negative()):
		return bad(op, "usage", "it stands beside an error, with no number below zero")
	case a.Response != nil:
		return a.Response.check(op)
	}
	return nil
}

func (u *Usage) negative() bool {
	return min(u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens) < 0 || u.USD < 0
}

func (r *Response) check(op string) error {
	if r.Sleep < 0 || r.Sleep > MaxSleep {
		return bad(op, "response.sleep_ms", "%d is not between 0 and %d", r.Sleep, MaxSleep)
	}
	if r.Usage != nil && r.Usage.negative() {
		return bad(op, "response.usage", "a number is below zero")
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		switch args := bytes.TrimSpace(c.Arguments); {
		case c.ID == "" || c.Name == "":
			return bad(op, "response.calls", "a call has an id and a name")
		case len(args) > 0 && args[0] != '{' && !bytes.Equal(args, []byte("null")):
			return bad(op, "response.calls", "the arguments of %.100q are not an object", c.Name)
		}
	}
	return nil
}

// A Progress is what a worker publishes to tell how a job is going. It is told to watchers and kept nowhere.
type Progress struct {
	Progress string `json:"progress"`
}
