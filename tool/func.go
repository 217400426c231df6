package tool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/troupehq/troupe/actor"
)

// Func makes a tool of a Go function. In is a struct, or a map with string keys; the schema is derived from it
// unless d has one: fields without omitempty are required, those of a struct are the only ones, and
// a field's tag jsonschema is its description. Out is anything that marshals to JSON; a [Result] is taken as
// it is.
//
// A schema_violation means that In has no schema of an object. d is completed by New, which refuses bad names.
func Func[In, Out any](d Description, do func(ctx context.Context, in In) (Out, error)) (Tool, error) {
	const op = "tool.Func"
	if do == nil {
		return nil, refuse(op, actor.SchemaViolation, d.Name, "no function is given")
	}
	if len(d.Schema) == 0 {
		derived, err := jsonschema.For[In](nil)
		if err == nil && derived.Type != "object" {
			err = errors.New("it is not an object")
		}
		if err == nil {
			d.Schema, err = json.Marshal(derived)
		}
		if err != nil {
			return nil, refuse(op, actor.SchemaViolation, d.Name, "derive a schema from %T: %w", *new(In), err)
		}
	}
	return &function[In, Out]{d, do}, nil
}

type function[In, Out any] struct {
	description Description
	do          func(context.Context, In) (Out, error)
}

// Describe implements [Tool].
func (f *function[In, Out]) Describe() Description { return f.description }

// Call implements [Tool].
func (f *function[In, Out]) Call(ctx context.Context, c Call) (Result, error) {
	var in In
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("tool.Call", actor.SchemaViolation, "arguments", "%w", err)
	}
	out, err := f.do(context.WithValue(ctx, callKey{}, c), in)
	if err != nil {
		return Result{}, err
	}
	if r, ok := any(out).(Result); ok {
		return r, nil
	}
	content, err := json.Marshal(out)
	if err != nil {
		return Result{}, refuse("tool.Call", actor.RuntimeError, "", "the result is not JSON: %w", err)
	}
	return Result{Content: content}, nil
}
