package tool

import (
	"context"
	"encoding/json"

	"github.com/troupehq/troupe/actor"
)

// A Tool is something that a model can call. It is called from many goroutines at once.
//
// An error of Call is told to the model as the call's result: its Kind and its text, which must hold no
// secrets. A tool ends soon after its context does.
type Tool interface {
	Describe() Description
	Call(ctx context.Context, c Call) (Result, error)
}

// A Description is what a model is told of a tool. Schema is the JSON Schema of the arguments, whose type is
// object.
type Description struct {
	Name        string // [a-zA-Z0-9_-]{1,64}
	Description string
	Schema      json.RawMessage
}

// A Call is made by a session of a thread. Its ID is unique, and the same when the call is made again because
// a crash lost its result. Arguments is a JSON object, or empty for {}.
type Call struct {
	Thread    actor.ID
	Session   uint64
	ID        string
	Arguments json.RawMessage
}

// A Result is what the model sees of a call: any JSON, and whether it tells of a failure.
//
// Files are binary values that do not stand in the content: where one belongs, the content has an object
// with {"$file": name}. Whoever keeps them may rename them there.
type Result struct {
	Content json.RawMessage
	IsError bool
	Files   []File
}

// A File is a binary value of a result. Its Name is unique among the result's.
type File struct {
	Name string
	MIME string
	Data []byte
}

// size is what a result counts for.
func (r *Result) size() int {
	n := len(r.Content)
	for _, f := range r.Files {
		n += len(f.Data)
	}
	return n
}

type callKey struct{}

// CallOf gives the call that a Go function's context belongs to: for its ID, to do nothing twice.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}
