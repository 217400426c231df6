package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// maxSleepMS is the longest sleep a script may ask for: one day.
const maxSleepMS = 86_400_000

// A scriptStep is one step of a script: its verb, and the verb's value before substitution. The
// calls of "call" and "calls" stand in calls instead.
type scriptStep struct {
	verb  string
	value json.RawMessage
	calls []scriptCall
}

// A scriptCall is a tool to call. Name and arguments may still be references.
type scriptCall struct {
	name      json.RawMessage
	arguments json.RawMessage
}

// verbs tells how the value of each verb is checked. Every step has exactly one of them.
var verbs = map[string]func(v json.RawMessage) error{
	"say":      wantText,
	"result":   func(json.RawMessage) error { return nil },
	"fail":     wantText,
	"sleep_ms": wantSleep,
	"progress": wantText,
	"panic":    wantText,
	"call":     nil, // parseCall and parseCalls check these
	"calls":    nil,
}

// ValidateScript checks a script for builtin/script without playing it. What is wrong is a
// schema_violation whose Field starts at "script" and names the index: "script[2].sleep_ms". What
// only shows when references are replaced ("$last" where a number is wanted) is found when the
// step is played.
func ValidateScript(raw json.RawMessage) error {
	_, err := parseScript("script", raw)
	return err
}

// parseScript reads a whole script; field is where it stands.
func parseScript(field string, raw json.RawMessage) ([]scriptStep, error) {
	raw = orNull(raw)
	var list []json.RawMessage
	if raw[0] != '[' {
		return nil, badScript(field, fmt.Errorf("a script is a list of steps, not %s", brief(raw)))
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, badScript(field, err)
	}
	steps := make([]scriptStep, len(list))
	for i, item := range list {
		var err error
		if steps[i], err = parseStep(fmt.Sprintf("%s[%d]", field, i), item); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// parseStep reads one step: an object with one verb and, beside "call", its arguments.
func parseStep(field string, raw json.RawMessage) (scriptStep, error) {
	keys, err := object(raw)
	if err != nil {
		return scriptStep{}, badScript(field, fmt.Errorf("a step is an object: %w", err))
	}
	var s scriptStep
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if _, ok := verbs[k]; !ok && k != "arguments" {
			return s, badScript(field, fmt.Errorf("unknown step %q", k))
		} else if ok && s.verb != "" {
			return s, badScript(field, fmt.Errorf("two verbs in one step, %q and %q", s.verb, k))
		} else if ok {
			s.verb, s.value = k, keys[k]
		}
	}
	if s.verb == "" {
		return s, badScript(field, errors.New("a step needs a verb"))
	}
	if _, ok := keys["arguments"]; ok && s.verb != "call" {
		return s, badScript(field+".arguments", fmt.Errorf("goes with \"call\", not with %q", s.verb))
	}
	switch s.verb {
	case "call":
		var c scriptCall
		c, err = parseCall(field, keys)
		s.calls = []scriptCall{c}
	case "calls":
		s.calls, err = parseCalls(field+".calls", s.value)
	default:
		if err = verbs[s.verb](s.value); err != nil {
			err = badScript(field+"."+s.verb, err)
		}
	}
	return s, err
}

// parseCalls reads the value of "calls": at least one {"call", "arguments"}.
func parseCalls(field string, raw json.RawMessage) ([]scriptCall, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(orNull(raw), &list); err != nil || len(list) == 0 {
		return nil, badScript(field, fmt.Errorf("%s is not a list of calls", brief(raw)))
	}
	calls := make([]scriptCall, len(list))
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		keys, err := object(item)
		if err != nil {
			return nil, badScript(at, fmt.Errorf("a call is an object: %w", err))
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if k != "call" && k != "arguments" {
				return nil, badScript(at, fmt.Errorf("unknown key %q", k))
			}
		}
		if calls[i], err = parseCall(at, keys); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// parseCall reads "call" and "arguments" out of keys. No arguments are {}.
func parseCall(field string, keys map[string]json.RawMessage) (scriptCall, error) {
	c := scriptCall{name: keys["call"], arguments: keys["arguments"]}
	if name, ok := stringOf(c.name); !ok || name == "" {
		return c, badScript(field+".call", fmt.Errorf("%s is not the name of a tool", brief(orNull(c.name))))
	}
	if isNull(c.arguments) {
		c.arguments = json.RawMessage("{}")
	}
	if orNull(c.arguments)[0] != '{' && !isReference(c.arguments) {
		return c, badScript(field+".arguments", fmt.Errorf("%s is not an object", brief(c.arguments)))
	}
	return c, nil
}

// object reads a JSON object.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if raw = orNull(raw); raw[0] != '{' {
		return nil, fmt.Errorf("%s is not one", brief(raw))
	}
	var keys map[string]json.RawMessage
	err := json.Unmarshal(raw, &keys)
	return keys, err
}

func wantText(v json.RawMessage) error {
	if _, ok := stringOf(v); !ok {
		return fmt.Errorf("%s is not a text", brief(orNull(v)))
	}
	return nil
}

func wantSleep(v json.RawMessage) error {
	if isReference(v) {
		return nil
	}
	_, err := integerOf(v, 0, maxSleepMS)
	return err
}

func badScript(field string, err error) error {
	return &actor.Error{Op: "model.Script", Kind: actor.SchemaViolation, Field: field, Err: err}
}

// scriptOf finds the script and tells where it stands: the task's, else the subagent's own. One
// that is null counts as none.
func scriptOf(r *Request) (field string, raw json.RawMessage, ok bool) {
	if r.Task != nil && !isNull(r.Task.Metadata["script"]) {
		return "task.metadata.script", r.Task.Metadata["script"], true
	}
	raw = r.Config.Metadata["script"]
	return "agent.metadata.script", raw, !isNull(raw)
}

// reference splits "$last.a.0" into its root, "last", and the path inside it. It reports false
// for all that is no reference: another text, an unknown root, an escaped "$$…".
func reference(s string) (root string, path []string, ok bool) {
	rest, ok := strings.CutPrefix(s, "$")
	if !ok {
		return "", nil, false
	}
	root, inside, deep := strings.Cut(rest, ".")
	switch root {
	case "last", "results", "inbox", "instruction", "task":
	default:
		return "", nil, false
	}
	if deep {
		path = strings.Split(inside, ".")
	}
	return root, path, true
}

// isReference reports whether v is a JSON string that a reference fills.
func isReference(v json.RawMessage) bool {
	if !bytes.ContainsAny(v, `$\`) {
		return false
	}
	s, ok := stringOf(v)
	if !ok {
		return false
	}
	_, _, ok = reference(s)
	return ok
}
