package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/actor"
)

// composedCall carries out a tool call of a composed thread.
func (x *turn) composedCall(c *call, arguments actor.Value) error {
	side := x.def.side(x.head.Composed.Turn)
	if arguments.Blob {
		return &actor.Error{Kind: actor.TooLarge, Field: "arguments", Err: fmt.Errorf("together the arguments of a step may have %d bytes", actor.MaxInline)}
	}
	if done, err := x.bound(side, c, arguments.JSON); done || err != nil {
		return err
	}
	switch {
	case c.Name == ToolSubagents && side.offers():
		x.callJob(c, JobSubagents, &Snapshot{Relationships: side.visible()})
		return nil
	case c.Name == ToolSubagentCreate && side.offers():
		return x.createCall(c, side, arguments.JSON)
	case c.Name == ToolSubagentMessage && side.offers():
		return x.instanceCall(c, side, arguments.JSON)
	case side.Prompt != nil && slices.Contains(side.Prompt.Tools, c.Name):
		x.callJob(c, JobTool, &ToolCall{ID: string(x.head.Lineage.ID) + "-" + c.Key, Name: c.Name, Arguments: arguments.JSON})
		return nil
	}
	return &actor.Error{Kind: actor.NotFound, Field: "call", Err: fmt.Errorf("no tool %q is available to this agent", c.Name)}
}

func (x *turn) callJob(c *call, kind string, body any) {
	c.Kind, c.Body = kind, Pack(body)
	c.Job = x.newJob(kind, c.Body)
}

// visible names the relationships that models hear of.
func (s *Side) visible() (names []string) {
	for i := range s.Subagents {
		if r := &s.Subagents[i]; !r.Hidden {
			names = append(names, r.Name())
		}
	}
	return names
}

func (s *Side) offers() bool { return len(s.visible()) > 0 }

// arguments reads a tool's arguments into v; unknown ones are errors, so that a misspelt one is noticed.
func arguments(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if len(bytes.TrimSpace(data)) == 0 {
		d = json.NewDecoder(bytes.NewReader([]byte("{}")))
	}
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &actor.Error{Kind: actor.SchemaViolation, Field: "arguments", Err: err}
	}
	return nil
}

// createCall begins a creation with what has to be looked up. The checks come in the order declared, enabled,
// name, continue, cap here; depth and quota at the host; arguments, attachments, env as they were found.
func (x *turn) createCall(c *call, side *Side, data []byte) error {
	var args struct {
		Agent       string          `json:"agent"`
		Name        string          `json:"name"`
		Arguments   json.RawMessage `json:"arguments"`
		Message     json.RawMessage `json:"message"`
		Attachments []string        `json:"attachments"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	r := side.Relationship(args.Agent)
	if r == nil || r.Hidden {
		return &actor.Error{Kind: actor.NotFound, Field: "agent", Err: fmt.Errorf("%q is not one of %q", args.Agent, side.visible())}
	}
	return x.create(c, r, &Prepare{Title: args.Name, Arguments: args.Arguments, Message: args.Message, Attachments: args.Attachments})
}

// instanceCall sends a message to an instance of the side's own (S1 §5).
func (x *turn) instanceCall(c *call, side *Side, data []byte) error {
	var args struct {
		Reference   string          `json:"reference"`
		Agent       string          `json:"agent"`
		Message     json.RawMessage `json:"message"`
		Attachments []string        `json:"attachments"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	id := IDOf(args.Reference)
	at := slices.IndexFunc(x.head.Composed.Children, func(i Instance) bool { return i.ID == id && i.Owner == x.head.Composed.Turn })
	if id == "" || at < 0 {
		return &actor.Error{Kind: actor.NotFound, Field: "reference", Err: fmt.Errorf("%q is not an instance of this side", args.Reference)}
	}
	one := x.head.Composed.Children[at]
	r := side.Relationship(one.Relationship)
	switch {
	case r == nil || r.Hidden:
		return &actor.Error{Kind: actor.NotFound, Field: "reference", Err: fmt.Errorf("%q is not an instance of this side", args.Reference)}
	case args.Agent != "" && args.Agent != one.Relationship:
		return &actor.Error{Kind: actor.SchemaViolation, Field: "agent", Err: fmt.Errorf("%s is an instance of %q", args.Reference, one.Relationship)}
	case len(args.Message) == 0:
		return &actor.Error{Kind: actor.SchemaViolation, Field: "message", Err: errors.New("is required")}
	case one.Gone:
		return &actor.Error{ID: id, Kind: actor.ThreadTerminated, Field: "reference", Err: errors.New("it is terminated")}
	}
	c.Create = &creation{Relationship: one.Relationship, Owner: one.Owner, Child: id, Message: actor.Value{JSON: args.Message}, Attachments: args.Attachments}
	return x.deliver(c, r.Optional)
}

// gone notes that a child was terminated: it no longer counts against a cap.
func (x *turn) gone(*Gone) {
	if c := x.head.Composed; c != nil {
		for i := range c.Children {
			if c.Children[i].ID == x.env.From {
				c.Children[i].Gone = true
			}
		}
	}
}

// ownerOf is the side that hears of a child.
func (x *turn) ownerOf(id actor.ID) actor.Lane {
	if c := x.head.Composed; c != nil {
		for i := range c.Children {
			if c.Children[i].ID == id {
				return c.Children[i].Owner
			}
		}
	}
	return actor.LaneA
}

// consume hands those who wait for the session that takes their message to the session that does.
func (x *turn) consume() {
	h := &x.head
	h.Waiters, h.Claims = append(h.Waiters, h.Claims...), nil
}

// explicit reports whether the relationship of a child leaves it to the child what its parent hears.
func (x *turn) explicit(id actor.ID) bool {
	c := x.head.Composed
	if c == nil {
		return false
	}
	for _, i := range c.Children {
		if i.ID == id {
			r := x.def.side(i.Owner).Relationship(i.Relationship)
			return r != nil && r.ParentCommunication == Explicit
		}
	}
	return false
}
