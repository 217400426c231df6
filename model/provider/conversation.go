package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A Conversation is what a provider is asked. It is not changed by a try.
type Conversation struct {
	Model     string // in the provider's words, without the prefix
	System    string // never empty
	Turns     []Turn // at least one; the first and the last are the user's, and they alternate
	Tools     []Tool
	Schema    map[string]any // of the answer, or nil
	MaxTokens int64          // 0: the provider's default
	Thread    actor.ID
}

// A Turn is what one side says at a time.
type Turn struct {
	Role    model.Role
	Results []Result     // of a user's turn, before its texts: one for each call of the turn before, in order
	Texts   []string     // none of them is blank
	Calls   []model.Call // of an assistant's turn, after its texts
}

// A Result is what a tool answered, as text.
type Result struct {
	Call  string
	Text  string
	Error bool
}

// A Tool is one that may be called. Its schema is an object.
type Tool struct {
	Name        string
	Description string
	Schema      map[string]any
}

// Converse makes the conversation of a request to the provider called name. limit is the most tokens of an
// answer unless the agent's metadata.max_tokens has another number. A schema or a number that is none is an
// error that names it.
func Converse(r *model.Request, name string, limit int64) (*Conversation, error) {
	c := &Conversation{
		Model:     strings.TrimPrefix(r.Config.Model, name+"/"),
		System:    system(r),
		MaxTokens: limit,
		Thread:    r.Thread,
	}
	if v, ok := r.Config.Metadata["max_tokens"]; ok {
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n < 1 {
			return nil, errors.New("agent.metadata.max_tokens is not a number above 0")
		}
		c.MaxTokens = n
	}
	for _, t := range r.Tools {
		schema, err := schemaOf(t.Schema)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		if schema == nil {
			schema = map[string]any{"type": "object", "properties": map[string]any{}}
		}
		c.Tools = append(c.Tools, Tool{Name: t.Name, Description: t.Description, Schema: schema})
	}
	var err error
	if c.Schema, err = schemaOf(r.Schema); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	c.Turns = turns(r)
	return c, nil
}

// schemaOf reads a JSON Schema that is an object, or nothing.
func schemaOf(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("its schema is not an object: %w", err)
	}
	return schema, nil
}

// system is the prompt of the side that acts. A subagent without a definition is told its name, its role, its
// own prompt, and what its last message is.
func system(r *model.Request) string {
	if strings.TrimSpace(r.System) != "" {
		return r.System
	}
	var b strings.Builder
	fmt.Fprintf(&b, "You are %s, a subagent.", nameOf(r.Config.Name))
	if role := strings.TrimSpace(r.Config.Role); role != "" {
		b.WriteString(" Your role: " + role)
	}
	if own := strings.TrimSpace(r.Config.SystemPrompt); own != "" {
		b.WriteString("\n\n" + own)
	}
	b.WriteString("\n\nWork until the task that you are given is done. Your first message without a tool call ends the task: it is the result that whoever gave you the task gets, so it says everything that they need.")
	return b.String()
}

func nameOf(name string) string {
	if name = strings.TrimSpace(name); name == "" {
		return "an agent without a name"
	}
	return name
}
