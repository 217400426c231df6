package agent

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Render fills in the arguments that a prompt's text names: "{{city}}" and "{{ city }}" become the value of
// city, a string as it is and any other value as JSON. A name that is not among the arguments stays as it
// stands, and what an argument brings in is not filled in again.
func Render(text string, args map[string]json.RawMessage) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	var b strings.Builder
	for {
		end := strings.Index(text, "}}")
		if end < 0 {
			break
		}
		value, known := "", false
		start := strings.LastIndex(text[:end], "{{")
		if start >= 0 {
			value, known = argument(args, strings.TrimSpace(text[start+len("{{"):end]))
		}
		end += len("}}")
		if known {
			b.WriteString(text[:start])
			b.WriteString(value)
		} else {
			b.WriteString(text[:end])
		}
		text = text[end:]
	}
	b.WriteString(text)
	return b.String()
}

// argument is the text of an argument.
func argument(args map[string]json.RawMessage, name string) (text string, ok bool) {
	raw, ok := args[name]
	if !ok {
		return "", false
	}
	if json.Unmarshal(raw, &text) == nil && !isNothing(raw) {
		return text, true
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw), true
	}
	return b.String(), true
}
