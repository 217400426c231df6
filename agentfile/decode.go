package agentfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

const (
	maxDepth = 100     // of values inside each other
	maxNodes = 100_000 // in a document, where an alias counts as what it stands for
)

// A place is where something stands.
type place struct {
	file, path   string
	line, column int
}

// A reading takes a document apart: it notes where everything stands, reports what can't stand there, and makes JSON
// of the rest.
type reading struct {
	file   string
	root   string           // the path in the file of the thing that is read
	places map[string]place // by path inside that thing: "sideA.prompt"
	nodes  int
	report func(Problem)
}

// at notes where a value stands.
func (r *reading) at(path string, n *yaml.Node) {
	r.places[path] = place{r.file, r.full(path), n.Line, n.Column}
}

// full is the path in the file.
func (r *reading) full(path string) string {
	if path == "" {
		return r.root
	}
	return below(r.root, path)
}

func (r *reading) problem(path string, n *yaml.Node, code actor.Kind, format string, args ...any) {
	r.report(Problem{r.file, n.Line, n.Column, agent.Problem{Path: r.full(path), Code: code, Message: fmt.Sprintf(format, args...)}})
}

func (r *reading) violation(path string, n *yaml.Node, format string, args ...any) {
	r.problem(path, n, actor.SchemaViolation, format, args...)
}

// shorthands are the types that may also be written as a scalar, and as which.
var shorthands = map[reflect.Type]string{
	reflect.TypeFor[agent.Prompt]():    "a text",
	reflect.TypeFor[agent.Binding]():   "a text",
	reflect.TypeFor[agent.Immediate](): "true or false",
}

var rawType = reflect.TypeFor[json.RawMessage]()

// value makes JSON of a node that becomes a t. A nil result says that there is nothing, because it was null or because
// a problem was reported.
func (r *reading) value(n *yaml.Node, t reflect.Type, path string, depth int) json.RawMessage {
	for n.Kind == yaml.AliasNode && depth <= maxDepth {
		n, depth = n.Alias, depth+1
	}
	r.at(path, n)
	switch r.nodes++; {
	case r.nodes == maxNodes:
		r.violation(path, n, "the document has more than %d values", maxNodes)
		return nil
	case r.nodes > maxNodes:
		return nil
	case depth > maxDepth:
		r.violation(path, n, "more than %d values stand inside each other", maxDepth)
		return nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull:
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == rawType:
		return r.any(n, path, depth)
	case t.Kind() == reflect.Struct:
		return r.object(n, t, path, depth)
	case t.Kind() == reflect.Slice:
		return r.list(n, t.Elem(), path, depth)
	}
	return r.scalar(n, t, path)
}

// describe says how a node is told to a person.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case tagBool:
		return "true or false"
	case tagInt, tagFloat:
		return "a number"
	}
	return "a text"
}

// want reports that a node is something else than it has to be.
func (r *reading) want(n *yaml.Node, path, what string) json.RawMessage {
	hint := ""
	if strings.HasPrefix(what, "a text") && n.Kind == yaml.ScalarNode {
		hint = "; put it in quotes"
	}
	r.violation(path, n, "this is %s, want %s%s", describe(n), what, hint)
	return nil
}

func (r *reading) scalar(n *yaml.Node, t reflect.Type, path string) json.RawMessage {
	what := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int: "a number", reflect.Int64: "a number", reflect.Float64: "a number"}[t.Kind()]
	if what == "" {
		what = "a text"
	}
	if describe(n) != what {
		return r.want(n, path, what)
	}
	if t.Kind() == reflect.Int || t.Kind() == reflect.Int64 {
		if _, err := strconv.ParseInt(n.Value, 10, t.Bits()); err != nil {
			return r.want(n, path, "a whole number")
		}
	}
	return r.literal(n, path)
}

// literal is the JSON of a scalar.
func (r *reading) literal(n *yaml.Node, path string) json.RawMessage {
	switch n.ShortTag() {
	case tagBool:
		return json.RawMessage(strings.ToLower(n.Value))
	case tagInt, tagFloat:
		if !json.Valid([]byte(n.Value)) {
			r.violation(path, n, "write the number %s as JSON does, or put it in quotes", n.Value)
			return nil
		}
		return json.RawMessage(n.Value)
	}
	return quoted(n.Value)
}

// quoted is the JSON of a text. Only what is no UTF-8 would fail, and that was refused with the file.
func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text)
	return b
}

func (r *reading) list(n *yaml.Node, of reflect.Type, path string, depth int) json.RawMessage {
	if n.Kind != yaml.SequenceNode {
		return r.want(n, path, "a list")
	}
	items := make([]json.RawMessage, len(n.Content))
	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case isTools(path) && isRelationship(child):
			r.at(at, child)
			r.problem(at, child, actor.SubagentInPromptTools, "this is a subagent: it stands among the side's subagents, not among a prompt's tools")
		case child.ShortTag() == tagNull:
			r.violation(at, child, "there is nothing in this place of the list")
		default:
			items[i] = r.value(child, of, at, depth+1)
		}
		if items[i] == nil {
			items[i] = empty(of)
		}
	}
	return joined('[', items, ']')
}

// isTools reports whether a path leads to the tools of a prompt.
func isTools(path string) bool { return path == "tools" || strings.HasSuffix(path, ".prompt.tools") }

// empty stands in for an item that a problem was reported of, so that those after it keep their number.
func empty(t reflect.Type) json.RawMessage {
	if t.Kind() == reflect.String {
		return json.RawMessage(`""`)
	}
	return json.RawMessage(`{}`)
}

// isRelationship reports whether an entry of a prompt's tools tries to be a subagent.
func isRelationship(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	keys := fields(reflect.TypeFor[agent.Relationship]())
	for i := 0; i < len(n.Content); i += 2 {
		if _, ok := keys[n.Content[i].Value]; ok {
			return true
		}
	}
	return false
}

func (r *reading) object(n *yaml.Node, t reflect.Type, path string, depth int) json.RawMessage {
	if short, ok := shorthands[t]; ok && n.Kind == yaml.ScalarNode {
		if describe(n) != short {
			return r.want(n, path, short+" or an object")
		}
		return r.literal(n, path)
	}
	if n.Kind != yaml.MappingNode {
		return r.want(n, path, "an object")
	}
	known := fields(t)
	return r.pairs(n, path, func(key string, k, v *yaml.Node) json.RawMessage {
		at := below(path, key)
		of, ok := known[key]
		if !ok {
			r.at(at, k)
			r.violation(at, k, "%s", unknownKey(key, known))
			return nil
		}
		return r.value(v, of, at, depth+1)
	})
}

// any is the JSON of a value that may be anything.
func (r *reading) any(n *yaml.Node, path string, depth int) json.RawMessage {
	switch n.Kind {
	case yaml.MappingNode:
		return r.pairs(n, path, func(key string, _, v *yaml.Node) json.RawMessage {
			return r.anything(v, below(path, key), depth)
		})
	case yaml.SequenceNode:
		items := make([]json.RawMessage, len(n.Content))
		for i, child := range n.Content {
			items[i] = r.anything(child, fmt.Sprintf("%s[%d]", path, i), depth)
		}
		return joined('[', items, ']')
	}
	return r.literal(n, path)
}

// anything is a value inside one that may be anything: there a null is a value.
func (r *reading) anything(n *yaml.Node, path string, depth int) json.RawMessage {
	if v := r.value(n, rawType, path, depth+1); v != nil {
		return v
	}
	return json.RawMessage("null")
}

// pairs makes an object of what value makes of each pair; a nil is left out.
func (r *reading) pairs(n *yaml.Node, path string, value func(key string, k, v *yaml.Node) json.RawMessage) json.RawMessage {
	var items []json.RawMessage
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		switch {
		case k.Kind == yaml.ScalarNode && k.ShortTag() == tagMerge:
			r.violation(below(path, k.Value), k, "merge keys (<<) are not supported")
			continue
		case k.Kind != yaml.ScalarNode:
			r.violation(path, k, "a key is a text, not %s", describe(k))
			continue
		case seen[k.Value]:
			r.violation(below(path, k.Value), k, "the key %q stands twice", k.Value)
			continue
		}
		seen[k.Value] = true
		if item := value(k.Value, k, v); item != nil {
			items = append(items, slices.Concat(quoted(k.Value), []byte{':'}, item))
		}
	}
	return joined('{', items, '}')
}

func joined(begin byte, items []json.RawMessage, end byte) json.RawMessage {
	out := []byte{begin}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, end)
}

func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
