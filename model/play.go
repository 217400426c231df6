package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actor"
)

// script plays the list of steps in task.metadata.script, else the one in the subagent's own
// metadata, one step of the list for each step of the session. A step is one of these:
//
//	{"say": text}                       says it and goes on; as the last step it ends with {"output": text}
//	{"result": any}                     ends with it
//	{"fail": text}                      gives up
//	{"sleep_ms": n}                     sleeps, durably, for 0 to 86,400,000 ms
//	{"progress": text}                  tells watchers
//	{"call": tool, "arguments": {…}}    calls a tool, under the id c<step>
//	{"calls": [{"call": …}, …]}         calls several at once, under c<step>_1, c<step>_2, …
//	{"panic": text}                     panics with the text
//
// A step past the end ends with the last tool result of this session, or null. A script that is not
// valid fails at the first step, naming the index. Without a script the session ends with the text
// of its newest message or completion, else the instruction.
//
// A string that is, as a whole, a reference is replaced wherever it stands in the value of a step,
// once: what takes its place is not searched again. Keys are left alone, and so is any other text.
// What is not there is null.
//
//	$last                    the last tool result of this session
//	$results                 all of them, oldest first
//	$inbox                   [{"from", "type", "content"}, …]: the messages and completions first shown
//	                         at this step
//	$task, $instruction      the task, and its instruction
//	$last.a.0.b              inside any of them, by keys and indices
//	$$x                      the text "$x"
type script struct{}

func (script) Step(ctx context.Context, r *Request) (*Response, error) {
	if err := interrupted(ctx, "model.Script", r.Thread); err != nil {
		return nil, err
	}
	if r.Step < 1 {
		return nil, &actor.Error{Op: "model.Script", ID: r.Thread, Kind: actor.SchemaViolation, Field: "step",
			Err: fmt.Errorf("steps count from 1, not %d", r.Step)}
	}
	field, raw, ok := scriptOf(r)
	if !ok {
		return unscripted(r)
	}
	steps, err := parseScript(field, raw)
	if err != nil {
		return failed(err)
	}
	sc := newScope(r)
	if r.Step > len(steps) {
		return &Response{Done: true, Result: Object(sc.last())}, nil
	}
	p := play{scope: sc, r: r, field: fmt.Sprintf("%s[%d]", field, r.Step-1), last: r.Step == len(steps)}
	return p.step(ctx, steps[r.Step-1])
}

// unscripted ends a session that no script was given for.
func unscripted(r *Request) (*Response, error) {
	if content, ok := newest(r); ok {
		return output(textOf(content))
	}
	return output(told(r))
}

// failed makes a mistake in the script the model's own failure, which no retry would mend. Any
// other error, such as an interruption, stays an error.
func failed(err error) (*Response, error) {
	var e *actor.Error
	if !errors.As(err, &e) || e.Kind != actor.SchemaViolation {
		return nil, err
	}
	return &Response{Fail: fmt.Sprintf("%s: %v", e.Field, e.Err)}, nil
}

// A play is one step being played.
type play struct {
	scope *scope
	r     *Request
	field string // where the step stands, for messages
	last  bool   // it is the script's last step
}

func (p *play) step(ctx context.Context, s scriptStep) (*Response, error) {
	if s.calls != nil {
		return p.call(ctx, s)
	}
	v, err := p.scope.substitute(ctx, p.field+"."+s.verb, s.value)
	if err != nil {
		return failed(err)
	}
	switch s.verb {
	case "say":
		return p.say(textOf(v))
	case "result":
		return &Response{Done: true, Result: Object(v)}, nil
	case "fail":
		return p.fail(textOf(v))
	case "sleep_ms":
		return p.sleep(v)
	case "progress":
		p.r.Progress(textOf(v))
		return &Response{}, nil
	case "panic":
		panic(textOf(v))
	}
	panic("model: verb " + s.verb + " is checked but not played")
}

func (p *play) say(text string) (*Response, error) {
	if !p.last {
		return &Response{Text: text}, nil
	}
	resp, err := output(text)
	if err != nil {
		return nil, err
	}
	resp.Text = text
	return resp, nil
}

func (p *play) fail(text string) (*Response, error) {
	if text == "" {
		text = p.field + ": failed without a reason"
	}
	return &Response{Fail: text}, nil
}

func (p *play) sleep(v json.RawMessage) (*Response, error) {
	ms, err := integerOf(v, 0, maxSleepMS)
	if err != nil {
		return failed(badScript(p.field+".sleep_ms", err))
	}
	return &Response{Sleep: time.Duration(ms) * time.Millisecond}, nil
}

func (p *play) call(ctx context.Context, s scriptStep) (*Response, error) {
	resp := &Response{Calls: make([]Call, len(s.calls))}
	for i, c := range s.calls {
		id, field := fmt.Sprintf("c%d", p.r.Step), p.field
		if s.verb == "calls" {
			id, field = fmt.Sprintf("%s_%d", id, i+1), fmt.Sprintf("%s.calls[%d]", field, i)
		}
		name, err := p.scope.substitute(ctx, field+".call", c.name)
		if err != nil {
			return failed(err)
		}
		tool, ok := stringOf(name)
		if !ok || tool == "" {
			return failed(badScript(field+".call", fmt.Errorf("%s is not the name of a tool", brief(name))))
		}
		args, err := p.scope.substitute(ctx, field+".arguments", c.arguments)
		if err != nil {
			return failed(err)
		}
		if args[0] != '{' {
			return failed(badScript(field+".arguments", fmt.Errorf("%s is not an object", brief(args))))
		}
		resp.Calls[i] = Call{ID: id, Name: tool, Arguments: args}
	}
	return resp, nil
}
