package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/model"
)

// promptText is how an entry that prompts a step reads.
func promptText(e *model.Entry) string {
	switch e.Kind {
	case model.EntryTask:
		return taskText(e.Content)
	case model.EntryCompletion:
		var c struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(e.Content, &c) == nil && c.Text != "" {
			return c.Text
		}
	case model.EntryMessage:
		// A message without a type was put into the inbox by whoever talks to the thread, as a user does.
		if e.Type != "" && e.From != "" {
			return fmt.Sprintf("Message from %s (%s):\n\n%s", e.From, e.Type, textOf(e.Content))
		}
	}
	return textOf(e.Content)
}

// taskText is the instruction, and what the task has to meet.
func taskText(content json.RawMessage) string {
	var task a2e.TaskDefinition
	if json.Unmarshal(content, &task) != nil {
		return textOf(content)
	}
	var b strings.Builder
	b.WriteString(task.Instruction)
	if len(task.SuccessCriteria) > 0 {
		b.WriteString("\n\nThe task is done when:")
		for _, criterion := range task.SuccessCriteria {
			b.WriteString("\n- " + criterion)
		}
	}
	return b.String()
}

// resultText is the result of a session as its last message.
func resultText(result json.RawMessage) string {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(result, &wrapped) == nil && len(wrapped) == 1 && wrapped["output"] != nil {
		result = wrapped["output"]
	}
	if text := textOf(result); !blank(text) {
		return text
	}
	return "(nothing)"
}

// textOf is a value as a model reads it: a string itself, else the compact JSON.
func textOf(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

// blank reports whether a text has nothing to read. Providers refuse such texts.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// encode gives v as JSON without the HTML escapes, so that "<" stays "<".
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("provider: encode: " + err.Error()) // it was decoded from JSON, or is a string
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// arguments gives a call's arguments as an object.
func arguments(v json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if v = bytes.TrimSpace(v); len(v) == 0 || v[0] != '{' || json.Compact(&b, v) != nil {
		return json.RawMessage("{}")
	}
	return b.Bytes()
}

// maxName is how long the names of tools and the ids of calls may be.
const maxName = 64

// named reports whether s is a name that every provider takes.
func named(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, foreign)
}

func foreign(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

// toolName makes a name that every provider takes of one that a model made up.
func toolName(name string) string {
	if named(name) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if foreign(r) {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "_"
	}
	return name[:min(len(name), maxName)]
}

// id gives the id of a call: its own, unless a provider would not take it or another call had it before.
func (t *talk) id(e *model.Entry) string {
	id := e.Call
	for n := 0; !named(id) || t.ids[id]; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", e.Session, e.Call, n))
		id = "call_" + hex.EncodeToString(sum[:12])
	}
	t.ids[id] = true
	return id
}
