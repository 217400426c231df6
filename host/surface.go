package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
)

// A surface is what a composed thread's side shows its model: the prompt, filled in, and the tools (S1 §5). It is
// made for each step, for flags may change.
type surface struct {
	side   *agent.Side
	lane   actor.Lane
	raw    json.RawMessage // the thread's arguments
	args   map[string]json.RawMessage
	before uint64
	step   int
}

// surfaceOf looks at the thread now; nil for one that is not composed.
func surfaceOf(t *agent.Thread) *surface {
	side, lane := t.Acting()
	if side == nil {
		return nil
	}
	s := &surface{side: side, lane: lane, before: t.Before(), step: t.SideStep()}
	s.raw = t.Composition().Arguments
	if len(s.raw) > 0 && json.Unmarshal(s.raw, &s.args) != nil {
		s.args = nil // they were validated as an object
	}
	return s
}

// show completes a request for a side's model.
func (s *surface) show(ctx context.Context, h *Host, r *model.Request) error {
	prompt := s.side.Prompt
	r.Step = s.step
	if prompt == nil {
		return nil // a handler needs no surface
	}
	r.System = agent.Render(prompt.Text, s.args)
	r.Config.Model = prompt.Model
	if len(prompt.Metadata) > 0 {
		if err := json.Unmarshal(prompt.Metadata, &r.Config.Metadata); err != nil {
			return fmt.Errorf("metadata of prompt %q: %w", prompt.Name, err)
		}
	}
	tools, err := h.lifecycleTools(ctx, r.Thread, s.side)
	if err != nil {
		return err
	}
	r.Tools = append(tools, s.bindings()...)
	var rest []string
	for _, name := range prompt.Tools {
		if builtin[name] == nil {
			rest = append(rest, name)
			continue
		}
		r.Tools = append(r.Tools, described(name)...)
	}
	r.Tools = append(r.Tools, h.describe(ctx, r.Thread, rest)...)
	return nil
}

// role is how an entry reads to the side: what prompts it is the user's, what it said itself is the assistant's.
func (s *surface) role(e *actor.Entry) model.Role {
	own := e.Kind == actor.EntrySay || e.Kind == actor.EntryCall
	if s != nil {
		own = e.Side != s.lane
	}
	if own {
		return model.RoleAssistant
	}
	return model.RoleUser
}

// sees reports whether an entry is the side's business: the other side's tools are not.
func (s *surface) sees(e *actor.Entry) bool {
	return e.Kind != actor.EntryCall && e.Kind != actor.EntryResult || e.Side != s.lane
}

// lifecycleTools are the tools that S1 §5 injects for a side's relationships that are neither hidden nor disabled.
func (h *Host) lifecycleTools(ctx context.Context, self actor.ID, side *agent.Side) ([]model.Tool, error) {
	var names []string
	var declared []*agent.Relationship
	visible := false
	for i := range side.Subagents {
		r := &side.Subagents[i]
		if r.Hidden {
			continue
		}
		visible = true
		if r.Optional != "" {
			env, err := h.Store.Env.Get(ctx, self, r.Optional)
			if err != nil {
				return nil, err
			}
			if !h.enabled(r.Optional, env) {
				continue
			}
		}
		names, declared = append(names, r.Name()), append(declared, r)
	}
	if !visible {
		return nil, nil
	}
	tools := []model.Tool{{Name: agent.ToolSubagents, Schema: object(nil), Description: "Lists the subagents that exist: reference, agent, status, what they are doing, arguments. Call it before subagent_create, so that one that exists is used again instead of made twice."}}
	if len(names) == 0 {
		return tools, nil
	}
	create, err := h.createTool(ctx, names, declared)
	if err != nil {
		return nil, err
	}
	return append(tools, create, model.Tool{
		Name:        agent.ToolSubagentMessage,
		Description: "Sends a message to a subagent that exists. One that is idle goes on with it, and still knows what came before.",
		Schema: object(map[string]any{
			"reference":   map[string]any{"type": "string", "description": "The subagent's reference."},
			"message":     map[string]any{"type": "string"},
			"agent":       map[string]any{"type": "string", "enum": names, "description": "What the subagent is, if you want that checked."},
			"attachments": paths,
		}, "reference", "message"),
	}), nil
}

var paths = map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "Paths of your own files, which are copied."}

func (h *Host) createTool(ctx context.Context, names []string, declared []*agent.Relationship) (model.Tool, error) {
	about := "Makes a subagent and gives it its first message."
	var schemas []any
	for _, r := range declared {
		text := r.Description
		data, _, err := h.Store.Agents.Get(ctx, r.Agent, 0)
		if err != nil && !errors.Is(err, actor.NotFound) {
			return model.Tool{}, err
		}
		if err == nil {
			def, err := agent.ParseDefinition(data)
			if err != nil {
				return model.Tool{}, err
			}
			if text == "" {
				text = def.ToolDescription
			}
			if p := def.SideA.Prompt; p != nil && len(p.RequiredSchema) > 0 {
				schemas = append(schemas, titled(p.RequiredSchema, r.Name()))
			}
		}
		about += "\n- " + r.Name()
		if text != "" {
			about += ": " + text
		}
		if r.Blocking {
			about += " (the call returns its result)"
		}
	}
	arguments := map[string]any{"type": "object"}
	switch {
	case len(schemas) == 1 && len(declared) == 1:
		arguments, _ = schemas[0].(map[string]any)
	case len(schemas) > 0:
		arguments["description"] = "What the agent asks for."
		arguments["anyOf"] = append(schemas, map[string]any{"type": "object", "title": "any other agent"})
	}
	return model.Tool{Name: agent.ToolSubagentCreate, Description: about, Schema: object(map[string]any{
		"agent":       map[string]any{"type": "string", "enum": names},
		"name":        map[string]any{"type": "string", "minLength": 1, "description": "A name for the subagent, for people."},
		"message":     map[string]any{"type": "string", "description": "What it is to do, unless its arguments say so."},
		"arguments":   arguments,
		"attachments": paths,
	}, "agent", "name")}, nil
}

// titled is a schema with the relationship's name as its title.
func titled(schema json.RawMessage, title string) any {
	var s map[string]any
	if json.Unmarshal(schema, &s) != nil {
		return map[string]any{"type": "object", "title": title} // it was validated
	}
	s["title"] = title
	return s
}

// object is the JSON Schema of an object.
func object(properties map[string]any, required ...string) json.RawMessage {
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if properties == nil {
		schema["properties"] = map[string]any{}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	data, err := json.Marshal(schema)
	if err != nil {
		panic("host: schema: " + err.Error())
	}
	return data
}

// bindings are the tools by which the side ends its session, tells of it, or asks.
func (s *surface) bindings() (tools []model.Tool) {
	add := func(b *agent.Binding, about string, schema json.RawMessage) {
		if b == nil {
			return
		}
		if b.Description != "" {
			about = b.Description
		}
		tools = append(tools, model.Tool{Name: b.Tool, Description: about, Schema: schema})
	}
	text := map[string]any{"type": "string"}
	add(s.side.SessionStop, "Ends your session with a result.", object(map[string]any{
		"result": map[string]any{}, "status": text, "notifyParent": map[string]any{"type": []string{"boolean", "string"}},
		"attachments": paths,
	}))
	add(s.side.SessionFail, "Ends your session as failed.", object(map[string]any{"message": text}, "message"))
	add(s.side.SessionStatus, "Says what you are doing.", object(map[string]any{"status": text}, "status"))
	add(s.side.AskParent, "Asks whoever gave you the work, and waits for the answer.", object(map[string]any{"question": text}, "question"))
	return tools
}

// snapshot answers the tool subagents: the thread's children of some relationships, in creation order.
func (h *Host) snapshot(ctx context.Context, l actor.Lineage, relationships []string) (actor.Value, error) {
	stored, err := h.Store.Registry.Children(ctx, l.Root(), l.ID)
	if err != nil {
		return actor.Value{}, err
	}
	of := map[string]bool{}
	for _, r := range relationships {
		of[r] = true
	}
	entries, err := entriesOf(stored)
	if err != nil {
		return actor.Value{}, err
	}
	list := []instance{}
	for _, e := range entries {
		if of[e.Relationship] {
			list = append(list, instance{e.Reference, e.Relationship, e.Name, e.ThreadName, e.Status, e.StatusText, e.InitialArguments, e.CreatedAt})
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return actor.Value{}, err
	}
	return h.shrink(ctx, actor.Value{JSON: data})
}

// An instance is what a model is told of a subagent.
type instance struct {
	Reference        string          `json:"reference"`
	Relationship     string          `json:"relationship"`
	Name             string          `json:"name"`
	ThreadName       string          `json:"threadName,omitempty"`
	Status           string          `json:"status"`
	StatusText       string          `json:"statusText,omitempty"`
	InitialArguments json.RawMessage `json:"initialArguments,omitempty"`
	CreatedAt        int64           `json:"createdAt"`
}
