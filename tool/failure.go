package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// maxWords is how much of an error's text a model is told.
const maxWords = 4 << 10

// failed is the result that tells of an error.
func failed(err error) Result {
	told := struct {
		Code    actor.Kind `json:"code"`
		Message string     `json:"message"`
		Field   string     `json:"field,omitempty"`
	}{Code: actor.KindOf(err)}
	text := err
	for {
		e, ok := text.(*actor.Error)
		if !ok {
			break
		}
		if told.Field == "" {
			told.Field = e.Field
		}
		if text = e.Err; text == nil {
			text = errors.New(strings.ReplaceAll(string(told.Code), "_", " "))
		}
	}
	told.Message = clip(strings.ToValidUTF8(text.Error(), "�"), maxWords)
	content, err := json.Marshal(told)
	if err != nil { // it can't: three strings
		content = json.RawMessage(`{"code":"runtime_error","message":"the error can't be told"}`)
	}
	return Result{Content: content, IsError: true}
}

// clip cuts text to at most n bytes, between characters, and shows that it did.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}

// refuse makes an error of a kind that is known.
func refuse(op string, kind actor.Kind, field, format string, args ...any) error {
	return &actor.Error{Op: op, Kind: kind, Field: field, Err: fmt.Errorf(format, args...)}
}

// over is the error of a call whose context ended.
func over(ctx context.Context, op, what string) error {
	kind := actor.RuntimeError
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = actor.Timeout
	}
	return &actor.Error{Op: op, Kind: kind, Err: fmt.Errorf("%s: %w", what, context.Cause(ctx))}
}

// oneLine joins the lines of a text.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
