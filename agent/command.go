package agent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/actor"
)

// The kinds of [Command].
const (
	CommandNotify    = "notifyParent"
	CommandStatus    = "setStatus"
	CommandStop      = "stopSession"
	CommandFail      = "failSession"
	CommandTerminate = "terminate"
	CommandCreate    = "createChild"
	CommandMessage   = "messageChild"
)

// A Command is what a handler asked for. The commands of a step take effect together, once, with the turn that
// takes the step's outcome; a handler that is run again asks again, and nothing happens twice.
type Command struct {
	Kind         string
	Relationship string // of createChild
	Title        string
	Arguments    []byte
	Attachments  []string
	Reference    string      // of messageChild
	Content      actor.Value // of notifyParent and messageChild; the result of stopSession
	Notify       []byte      // of stopSession: a JSON boolean or string, or nothing
	Text         string      // the status, or why the session failed
}

// A Notify is what a thread tells its parent of its own accord (S1 §6.4).
type Notify struct {
	Content actor.Value
	Name    string
}

// commands carries out what a handler asked for. Children are called as tools would call them; what they answer
// is a message to the side.
func (x *turn) commands(all []Command) {
	h := &x.head
	h.Calls = make([]call, 0, len(all))
	for i := range all {
		if k := all[i].Kind; k == CommandCreate || k == CommandMessage {
			h.Calls = append(h.Calls, call{Key: fmt.Sprintf("%d-%d-%d", h.Session, h.Step, i), Name: k, Code: true})
		}
	}
	at := 0
	for i := range all {
		c := &all[i]
		switch c.Kind {
		case CommandNotify:
			x.notifyParent(c.Content)
		case CommandStatus:
			x.setStatus(c.Text)
		case CommandStop:
			n, err := parseNotify(c.Notify)
			if err != nil {
				n = notify{}
			}
			x.stopWith(stopping{Reason: StopDone, Result: resultOf(c.Content), Attachments: c.Attachments}, n, c.Text)
		case CommandFail:
			x.stopWith(stopping{Reason: StopFail, Error: c.Text}, notify{}, "")
		case CommandTerminate:
			x.send(x.hostOf(), actor.LaneHost, KindTerminate, "", &Target{ID: h.Lineage.ID})
		case CommandCreate, CommandMessage:
			under := &h.Calls[at]
			at++
			x.lifecycle(under, func() error { return x.childCommand(under, c) })
		}
	}
}

func (x *turn) childCommand(under *call, c *Command) error {
	side := x.def.side(x.head.Composed.Turn)
	if c.Kind == CommandCreate {
		r := side.Relationship(c.Relationship)
		if r == nil {
			return &actor.Error{Kind: actor.NotFound, Field: "relationship", Err: fmt.Errorf("%q is not declared", c.Relationship)}
		}
		return x.create(under, r, &Prepare{Title: c.Title, Arguments: c.Arguments, Attachments: c.Attachments})
	}
	id := IDOf(c.Reference)
	at := slices.IndexFunc(x.head.Composed.Children, func(i Instance) bool { return i.ID == id })
	if id == "" || at < 0 {
		return &actor.Error{Kind: actor.NotFound, Field: "reference", Err: fmt.Errorf("%q is not a child of this thread", c.Reference)}
	}
	one := x.head.Composed.Children[at]
	if one.Gone {
		return &actor.Error{ID: id, Kind: actor.ThreadTerminated, Field: "reference", Err: errors.New("it is terminated")}
	}
	under.Create = &creation{Relationship: one.Relationship, Owner: one.Owner, Child: id, Message: c.Content, Attachments: c.Attachments}
	optional := ""
	if r := x.def.side(one.Owner).Relationship(one.Relationship); r != nil {
		optional = r.Optional
	}
	return x.deliver(under, optional)
}

// notifyParent tells the parent something, whatever the relationship says of completions.
func (x *turn) notifyParent(content actor.Value) {
	l := x.head.Lineage
	switch {
	case l.Parent() == "":
		x.event("notify_refused", dropped{l.ID, "notify", string(actor.NoParent)})
	case l.ParentOutside():
		mail := bytes.Join([][]byte{[]byte(`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":`), quote(string(l.ID)), []byte(`,"to_subagent_id":`),
			quote(string(l.Parent())), []byte(`,"message":{"type":"notify","content":`), orNull(content.JSON), []byte(`}}`)}, nil)
		x.notified++
		x.effect(actor.Effect{Kind: actor.EffectMail, To: actor.Address{ID: l.Parent()}, Name: fmt.Sprintf("notify-%d-%d-%d", x.head.Session, x.head.Steps, x.notified), Body: mail})
	default:
		x.send(actor.Address{ID: l.Parent()}, actor.LaneQueue, KindNotify, "", &Notify{Content: content, Name: x.birth.Config.Name})
	}
}

func orNull(data []byte) []byte {
	if len(data) == 0 {
		return []byte("null")
	}
	return data
}

// heard takes what a child tells of its own accord, on the side that owns it.
func (x *turn) heard(n *Notify) {
	if x.head.Terminated {
		x.event("message_received", dropped{x.env.From, "notify", "thread_terminated"})
		return
	}
	x.alive()
	side := x.ownerOf(x.env.From)
	x.entry(actor.Entry{Kind: actor.EntryMessage, Side: side, From: x.env.From, Type: "notify", Name: n.Name, Content: n.Content, Meta: ofChild(x.env.From)})
	if x.def != nil && !x.floored() && x.wakes() {
		x.prompt(side, n.Content.JSON)
	}
	x.event("message_received", received{x.env.From, "notify"})
}
