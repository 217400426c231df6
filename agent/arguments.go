package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/troupehq/troupe/actor"
)

const (
	maxExponent = 400  // of a number in a schema or in arguments
	maxDigits   = 1000 // the same
)

// A Schema checks the arguments that an agent takes. It does not change and is safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema } // nil: any object

// CompileSchema reads the requiredSchema of a prompt: a JSON Schema whose type is object, of draft 2020-12
// unless it says otherwise. It has to stand alone: a reference to another document is not followed. No
// schema lets any object through. What is wrong with it is a schema_violation.
func CompileSchema(schema json.RawMessage) (*Schema, error) {
	const op = "agent.CompileSchema"
	if isNothing(schema) {
		return &Schema{}, nil
	}
	bad := func(err error) error { return &actor.Error{Op: op, Kind: actor.SchemaViolation, Err: err} }
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, bad(err)
	}
	if object, _ := doc.(map[string]any); object["type"] != "object" {
		return nil, bad(errors.New(`arguments are an object: the schema needs "type": "object"`))
	}
	if where := hugeNumber("", doc); where != "" {
		return nil, bad(fmt.Errorf("%s: the number is too large", strings.TrimPrefix(where, ".")))
	}
	const url = "urn:troupe:requiredSchema"
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, bad(err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, bad(errors.New(firstFault(err)))
	}
	return &Schema{compiled}, nil
}

// nowhere is where a schema may load other documents from.
type nowhere struct{}

// Load implements jsonschema.URLLoader.
func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to another document, %s, and a schema has to stand alone", url)
}

// A MissingError lists the required arguments that are not there, in alphabetical order; one inside another
// argument as a path: "address.city".
type MissingError struct{ Missing []string }

// Error names them.
func (m *MissingError) Error() string {
	return "missing " + strings.Join(m.Missing, ", ")
}

// ValidateArguments checks arguments against the schema that [CompileSchema] takes. No arguments are the
// empty object. When required ones are missing, whatever else is wrong, the error has the Kind
// subagent_arguments_required and wraps a [*MissingError]. Otherwise its Kind is subagent_arguments_invalid
// and its Field the path to what is wrong: "arguments.sizes[2]".
func ValidateArguments(schema, args json.RawMessage) error {
	s, err := CompileSchema(schema)
	if err != nil {
		return err
	}
	return s.Check(args)
}

// Check does what [ValidateArguments] does, for a schema that was compiled before.
func (s *Schema) Check(args json.RawMessage) error {
	const op = "agent.ValidateArguments"
	invalid := func(field string, err error) error {
		return &actor.Error{Op: op, Kind: actor.SubagentArgumentsInvalid, Field: field, Err: err}
	}
	value, v, f := s.validate(args)
	switch {
	case f != nil:
		return invalid(f.At, errors.New(f.Why))
	case v == nil:
		return nil
	}
	if missing := missingIn(v); missing != nil {
		return &actor.Error{Op: op, Kind: actor.SubagentArgumentsRequired, Field: "arguments", Err: &MissingError{missing}}
	}
	first := deepest(v)
	return invalid("arguments"+pathIn(value, first.InstanceLocation), errors.New(first.ErrorKind.LocalizedString(english())))
}

// A Fault is one place of arguments, as "arguments.sizes[2]", and what is wrong with it.
type Fault struct{ At, Why string }

// Faults gives all that is wrong with arguments, the innermost places in the order of the schema; none when they fit.
func (s *Schema) Faults(args json.RawMessage) (all []Fault) {
	value, v, f := s.validate(args)
	switch {
	case f != nil:
		return []Fault{*f}
	case v == nil:
		return nil
	}
	var walk func(v *jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		for _, cause := range v.Causes {
			walk(cause)
		}
		if len(v.Causes) == 0 {
			all = append(all, Fault{"arguments" + pathIn(value, v.InstanceLocation), v.ErrorKind.LocalizedString(english())})
		}
	}
	walk(v)
	return all
}

// validate reads arguments and asks the library. A fault is what it is not asked about.
func (s *Schema) validate(args json.RawMessage) (value any, v *jsonschema.ValidationError, f *Fault) {
	if isNothing(args) {
		args = json.RawMessage("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return nil, nil, &Fault{"arguments", err.Error()}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, nil, &Fault{"arguments", "they are not an object"}
	}
	if where := hugeNumber("arguments", object); where != "" {
		return nil, nil, &Fault{where, "the number is too large"}
	}
	if s.compiled == nil {
		return value, nil, nil
	}
	if err := s.compiled.Validate(value); err != nil && !errors.As(err, &v) {
		return nil, nil, &Fault{"arguments", err.Error()}
	}
	return value, v, nil
}

// missingIn collects the required properties that are not there. What is missing from one of several
// alternatives is not: another alternative may do without it.
func missingIn(v *jsonschema.ValidationError) []string {
	var missing []string
	var walk func(v *jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		switch k := v.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains:
			return
		case *kind.Required:
			for _, name := range k.Missing {
				missing = append(missing, strings.Join(append(slices.Clone(v.InstanceLocation), name), "."))
			}
		}
		for _, c := range v.Causes {
			walk(c)
		}
	}
	walk(v)
	slices.Sort(missing)
	return slices.Compact(missing)
}

// deepest follows the first cause of a fault to where it says something.
func deepest(v *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(v.Causes) > 0 {
		switch v.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			return v
		}
		v = slices.MinFunc(v.Causes, func(a, b *jsonschema.ValidationError) int {
			return slices.Compare(a.InstanceLocation, b.InstanceLocation)
		})
	}
	return v
}

// firstFault words what is wrong with a schema in one line.
func firstFault(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return strings.ReplaceAll(err.Error(), "urn:troupe:requiredSchema", "the schema")
	}
	v = deepest(v)
	return "/" + strings.Join(v.InstanceLocation, "/") + ": " + v.ErrorKind.LocalizedString(english())
}

// pathIn spells a location inside a value: ".sizes[2]".
func pathIn(value any, location []string) string {
	var b strings.Builder
	for _, token := range location {
		switch v := value.(type) {
		case []any:
			b.WriteString("[" + token + "]")
			if i, err := strconv.Atoi(token); err == nil && i < len(v) {
				value = v[i]
			}
		default:
			b.WriteString("." + token)
			object, _ := value.(map[string]any)
			value = object[token]
		}
	}
	return b.String()
}

// hugeNumber finds a number that would cost the arithmetic of a validation dearly, and gives the path to it,
// or "". What a float64 can hold is none.
func hugeNumber(path string, value any) string {
	switch v := value.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		e, err := strconv.Atoi(cmp.Or(exponent, "0"))
		if err != nil || e < -maxExponent || e > maxExponent || len(v) > maxDigits {
			return path
		}
	case []any:
		for i, item := range v {
			if where := hugeNumber(fmt.Sprintf("%s[%d]", path, i), item); where != "" {
				return where
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if where := hugeNumber(path+"."+name, v[name]); where != "" {
				return where
			}
		}
	}
	return ""
}

// english words the faults that the library finds.
func english() *message.Printer { return message.NewPrinter(language.English) }

// isNothing reports whether raw is no value at all, or null.
func isNothing(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
