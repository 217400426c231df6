package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 4
	exitInterrupted = 130
)

// An exit ends the program with a code of its own. Without an error there is nothing more to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage marks an error as one of how the program was called.
func usage(err error) error { return &exit{exitUsage, err} }

// failed is the error of something that ended, but not well.
func failed(format string, args ...any) error { return &exit{exitFailed, fmt.Errorf(format, args...)} }

// codeOf gives the exit code: 0 done, 1 failed, 2 used wrongly, 3 nobody answered, 4 no such
// subagent or agent, 130 interrupted.
func codeOf(ctx context.Context, err error) int {
	var own *exit
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &own):
		return own.code
	}
	switch actor.KindOf(err) {
	case actor.Unavailable:
		return exitUnreachable
	case actor.NotFound:
		return exitNotFound
	}
	return exitFailed
}

// explain words an error for a person, in one line: the actor concerned, what is wrong, and the kind.
func explain(err error) string {
	if err == nil {
		return ""
	}
	text := strings.TrimSpace(err.Error())
	var e *actor.Error
	if errors.As(err, &e) {
		text = explainActor(e)
		if outer, _, ok := strings.Cut(err.Error(), e.Error()); ok {
			text = outer + text // what was put in front of it
		}
	}
	return oneLine(text)
}

func explainActor(e *actor.Error) string {
	kind, id, field := e.Kind, e.ID, e.Field
	for {
		cause, ok := e.Err.(*actor.Error)
		if !ok {
			break
		}
		e = cause
		if id == "" {
			id = e.ID
		}
		if field == "" {
			field = e.Field
		}
	}
	text := strings.ReplaceAll(string(kind), "_", " ")
	if e.Err != nil {
		text = e.Err.Error()
	}
	if field != "" {
		text = field + ": " + text
	}
	if id != "" && !strings.Contains(text, string(id)) {
		text = string(id) + ": " + text
	}
	return text + " (" + string(kind) + ")"
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return clean(strings.Join(lines, "; "))
}
