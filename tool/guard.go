package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// A guarded tool can be called with anything and crashes nothing: see Results in the package's
// documentation. Its Call fails only when ctx has ended.
type guarded struct {
	tool        Tool
	description Description
	schema      *agent.Schema // nil: the tool checks its arguments itself
	limit       int
	log         zerolog.Logger
}

// Describe implements [Tool].
func (g *guarded) Describe() Description { return g.description }

// Call implements [Tool].
func (g *guarded) Call(ctx context.Context, c Call) (Result, error) {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	r, err := g.safely(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, over(ctx, "tool.Call", g.description.Name)
	case err != nil:
		return failed(err), nil
	}
	if len(r.Content) == 0 {
		r.Content = json.RawMessage("null")
	}
	if n := r.size(); n > g.limit {
		return failed(refuse("tool.Call", actor.TooLarge, "", "the result has %d bytes, at most %d are allowed: ask for less", n, g.limit)), nil
	}
	if !json.Valid(r.Content) {
		return failed(refuse("tool.Call", actor.RuntimeError, "", "the tool's result is not JSON")), nil
	}
	return r, nil
}

// safely checks the arguments and makes the call; a panic in it is its error.
func (g *guarded) safely(ctx context.Context, c Call) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error().Str("tool", g.description.Name).Str("call", c.ID).Bytes("stack", debug.Stack()).Msg("a tool panicked")
			r, err = Result{}, refuse("tool.Call", actor.RuntimeError, "", "the tool panicked: %s", clip(fmt.Sprint(p), maxWords))
		}
	}()
	if err := check(g.schema, c.Arguments); err != nil {
		return Result{}, err
	}
	return g.tool.Call(ctx, c)
}
