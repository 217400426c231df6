package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// anything is the schema of a tool that was given none.
var anything = json.RawMessage(`{"type":"object"}`)

// maxFaults is how many faults of its arguments a model is told at once.
const maxFaults = 8

// compile reads a schema, which must be that of an object.
func compile(text json.RawMessage) (*agent.Schema, error) {
	var head struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if head.Type != "object" {
		return nil, errors.New(`its "type" is not "object"`)
	}
	return agent.CompileSchema(text)
}

// check refuses arguments that do not fit, in words that a model can act on. Without a schema any object fits.
func check(s *agent.Schema, arguments json.RawMessage) error {
	const op, field = "tool.Call", "arguments"
	var object map[string]json.RawMessage
	switch {
	case !json.Valid(arguments):
		return refuse(op, actor.SchemaViolation, field, "the arguments are not JSON")
	case json.Unmarshal(arguments, &object) != nil || object == nil:
		return refuse(op, actor.SchemaViolation, field, "the arguments are not a JSON object")
	}
	if s == nil {
		return nil
	}
	faults := s.Faults(arguments)
	if len(faults) == 0 {
		return nil
	}
	texts := make([]string, 0, maxFaults)
	for i, f := range faults {
		if i == maxFaults {
			texts = append(texts, fmt.Sprintf("and %d more", len(faults)-i))
			break
		}
		texts = append(texts, f.At+": "+clip(f.Why, 512))
	}
	return refuse(op, actor.SchemaViolation, faults[0].At, "the arguments do not fit the tool's schema: %s", strings.Join(texts, "; "))
}
