package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/troupehq/troupe/actor"
)

// anything is the schema of a tool that was given none.
var anything = json.RawMessage(`{"type":"object"}`)

// maxFaults is how many faults of its arguments a model is told at once.
const maxFaults = 8

// A schema checks arguments.
type schema struct{ compiled *jsonschema.Schema }

// offline refuses to fetch what a schema refers to: a schema may come from anywhere, and must not make us
// read files or ask the network.
type offline struct{}

func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema can't refer to another document", url)
}

// compile reads a schema, which must be that of an object.
func compile(text json.RawMessage) (*schema, error) {
	var head struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if head.Type != "object" {
		return nil, errors.New(`its "type" is not "object"`)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const here = "mem:///schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(offline{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, errors.New(oneLine(strings.ReplaceAll(err.Error(), here, "")))
	}
	return &schema{compiled}, nil
}

// check refuses arguments that do not fit, in words that a model can act on.
func (s *schema) check(arguments json.RawMessage) error {
	const op, field = "tool.Call", "arguments"
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return refuse(op, actor.SchemaViolation, field, "the arguments are not JSON: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return refuse(op, actor.SchemaViolation, field, "the arguments are not a JSON object")
	}
	if s == nil {
		return nil
	}
	err = s.compiled.Validate(value)
	var bad *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return refuse(op, actor.SchemaViolation, field, "%w", err)
	}
	var faults []fault
	collect(bad, &faults)
	texts := make([]string, 0, maxFaults)
	for i, f := range faults {
		if i == maxFaults {
			texts = append(texts, fmt.Sprintf("and %d more", len(faults)-i))
			break
		}
		texts = append(texts, f.at+": "+f.why)
	}
	return refuse(op, actor.SchemaViolation, faults[0].at, "the arguments do not fit the tool's schema: %s", strings.Join(texts, "; "))
}

// A fault is one place of the arguments, as "arguments.a[0]", and what is wrong with it.
type fault struct{ at, why string }

// collect gives the innermost faults, in the order of the schema.
func collect(e *jsonschema.ValidationError, all *[]fault) {
	for _, cause := range e.Causes {
		collect(cause, all)
	}
	if len(e.Causes) > 0 {
		return
	}
	at := "arguments"
	for _, step := range e.InstanceLocation {
		if _, err := strconv.Atoi(step); err == nil {
			at += "[" + step + "]"
		} else {
			at += "." + step
		}
	}
	*all = append(*all, fault{at, clip(e.ErrorKind.LocalizedString(message.NewPrinter(language.English)), 512)})
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
