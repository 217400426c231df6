package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
)

// A Handler acts for a side of an agent, in code. It gets one message at a time, at least once: State.Message.ID is the
// same each time. What it asks of the State takes effect when it has returned nil, all together and once. After an
// error or a panic it is called again, up to 5 times, ever later; then the session fails.
type Handler func(ctx context.Context, s *State) error

const (
	handlerTries = 5
	handlerPause = 100 * time.Millisecond // before the second try, then doubling
)

// A State is what a handler sees of its thread, and how it acts for it (S1 ThreadState). It is good for one call.
type State struct {
	Message   HandlerMessage
	Thread    actor.ID
	Parent    actor.ID // "" for a root thread
	Session   uint64
	Arguments json.RawMessage // an object, or nothing
	History   []model.Entry   // oldest first, the message included

	h        *Host
	lineage  actor.Lineage
	said     json.RawMessage
	commands []agent.Command
}

// A HandlerMessage is what a handler is to deal with. The outcome of a child that a handler created or wrote to comes
// as a message as well: of type "createChild" or "messageChild", from the thread itself.
type HandlerMessage struct {
	ID       string
	Kind     model.EntryKind // task, message, completion, or say: the other side's word
	From     actor.ID
	Type     string
	Content  json.RawMessage
	Metadata json.RawMessage
	IsError  bool
}

// Say ends the side's turn with a response, JSON; the last one counts.
func (s *State) Say(content json.RawMessage) { s.said = content }

// NotifyParent tells the parent something (S1 §6.4), whatever the relationship says of completions. A root thread has
// none: the Kind is no_parent.
func (s *State) NotifyParent(content json.RawMessage) error {
	if s.Parent == "" {
		return &actor.Error{ID: s.Thread, Kind: actor.NoParent, Err: errors.New("a root thread has no parent to notify")}
	}
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandNotify, Content: actor.Value{JSON: content}})
	return nil
}

// SetStatus says in the parent's registry what is going on (S1 §6.3).
func (s *State) SetStatus(text string) {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandStatus, Text: text})
}

// A Stop is how StopSession ends a session.
type Stop struct {
	Result json.RawMessage
	Notify json.RawMessage // what S1 calls notifyParent: true, false, a string; or nothing
	Status string

	Attachments []string // of the thread's files; the parent gets copies
}

// StopSession ends the session with a result.
func (s *State) StopSession(stop Stop) {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandStop, Content: actor.Value{JSON: stop.Result}, Notify: stop.Notify, Text: stop.Status, Attachments: stop.Attachments})
}

// FailSession ends the session as failed.
func (s *State) FailSession(why string) {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandFail, Text: why})
}

// Terminate ends the thread for good, and all below it.
func (s *State) Terminate() {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandTerminate})
}

// A Child is a child to be created. Relationship may be a hidden one.
type Child struct {
	Relationship string
	Name         string
	Arguments    json.RawMessage
	Attachments  []string
}

// CreateChild creates an instance of a relationship of the handler's side.
func (s *State) CreateChild(c Child) {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandCreate, Relationship: c.Relationship, Title: c.Name, Arguments: c.Arguments, Attachments: c.Attachments})
}

// MessageChild sends a message to a child, of whichever side.
func (s *State) MessageChild(reference string, content json.RawMessage, attachments ...string) {
	s.commands = append(s.commands, agent.Command{Kind: agent.CommandMessage, Reference: reference, Content: actor.Value{JSON: content}, Attachments: attachments})
}

// Children lists the thread's children, in creation order.
func (s *State) Children(ctx context.Context) ([]agent.Entry, error) {
	stored, err := s.h.Store.Registry.Children(ctx, s.lineage.Root(), s.Thread)
	if err != nil {
		return nil, err
	}
	return entriesOf(stored)
}

// Env gives a scoped variable of the thread.
func (s *State) Env(ctx context.Context, name string) (value string, ok bool, err error) {
	values, err := s.h.Store.Env.Get(ctx, s.Thread, name)
	value, ok = values[name]
	return value, ok, err
}

// ReadFile reads a file of the thread.
func (s *State) ReadFile(ctx context.Context, path string) ([]byte, store.File, error) {
	return s.h.Store.Files.Read(ctx, s.Thread, path)
}

// StatFile tells of a file of the thread.
func (s *State) StatFile(ctx context.Context, path string) (store.File, error) {
	return s.h.Store.Files.Stat(ctx, s.Thread, path)
}

// WriteFile writes a file of the thread, at once.
func (s *State) WriteFile(ctx context.Context, path string, content []byte, mime string) (store.File, error) {
	return s.h.Store.Files.Write(ctx, s.Thread, path, content, mime)
}

// Files lists the thread's files whose paths begin with prefix.
func (s *State) Files(ctx context.Context, prefix string) ([]store.File, error) {
	return s.h.Store.Files.List(ctx, s.Thread, prefix)
}

// RemoveFile removes a file of the thread, at once.
func (s *State) RemoveFile(ctx context.Context, path string) error {
	return s.h.Store.Files.Remove(ctx, s.Thread, path)
}

// Get reads a value of the thread's key-value store; the Kind of what is not there is not_found.
func (s *State) Get(ctx context.Context, key string) (json.RawMessage, error) {
	return s.h.Store.Memory.Get(ctx, s.Thread, key)
}

// Set writes a value of the thread's key-value store, at once.
func (s *State) Set(ctx context.Context, key string, value json.RawMessage) error {
	return s.h.Store.Memory.Set(ctx, s.Thread, key, value)
}

// Delete removes a value of the thread's key-value store, at once.
func (s *State) Delete(ctx context.Context, key string) error {
	return s.h.Store.Memory.Delete(ctx, s.Thread, key)
}

// handle has a side's handler take what is new to it.
func (h *Host) handle(ctx context.Context, name string, l actor.Lineage, arguments []byte, r *model.Request) (step agent.Step, err error) {
	handler := h.Handlers[name]
	if handler == nil {
		return step, fmt.Errorf("no handler %q is registered here", name)
	}
	var said json.RawMessage
	for i := range r.History {
		e := &r.History[i]
		if e.Role != model.RoleUser || e.Step != r.Step || e.Kind == model.EntryEnd {
			continue
		}
		s := &State{
			Message: HandlerMessage{ID: fmt.Sprintf("%s.%d", l.ID, i), Kind: e.Kind, From: e.From, Type: e.Type, Content: e.Content, Metadata: e.Metadata, IsError: e.IsError},
			Thread:  l.ID, Parent: l.Parent(), Session: r.Session, Arguments: arguments, History: r.History, h: h, lineage: l,
		}
		if err := h.tryHandler(ctx, handler, s); err != nil {
			return step, err
		}
		step.Commands = append(step.Commands, s.commands...)
		if s.said != nil {
			said = s.said
		}
	}
	if step.Said, err = h.keepHandled(ctx, step.Commands, said); err != nil {
		return step, err
	}
	if said == nil { // its turn is over all the same
		step.Done, step.Result = true, actor.Value{JSON: []byte("null")}
	}
	return step, nil
}

func (h *Host) tryHandler(ctx context.Context, handler Handler, s *State) (err error) {
	pause := handlerPause
	for try := 1; ; try++ {
		s.commands, s.said = nil, nil
		if err = h.callHandler(ctx, handler, s); err == nil || ctx.Err() != nil || try == handlerTries {
			return err
		}
		h.Log.Warn().Err(err).Str("actor", string(s.Thread)).Int("try", try).Msg("a handler failed and will be tried again")
		sleep(ctx, pause)
		pause *= 2
	}
}

func (h *Host) callHandler(ctx context.Context, handler Handler, s *State) (err error) {
	defer func() {
		if r := recover(); r != nil {
			h.Log.Error().Str("actor", string(s.Thread)).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a handler panicked")
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if err := handler(ctx, s); err != nil {
		return err
	}
	return s.check()
}

const (
	maxCommands = 256      // of one message
	maxLabel    = 1024     // bytes of the name of a child
	maxText     = 16 << 10 // of a status or a reason; more is cut off
)

// check holds what a handler asked for to what a record can take. What is wrong is the handler's error.
func (s *State) check() error {
	bad := func(kind actor.Kind, field, why string) error {
		return &actor.Error{Op: "host.Handler", ID: s.Thread, Kind: kind, Field: field, Err: errors.New(why)}
	}
	if len(s.commands) > maxCommands {
		return bad(actor.TooLarge, "commands", fmt.Sprintf("more than %d", maxCommands))
	}
	if s.said != nil && !json.Valid(s.said) {
		return bad(actor.SchemaViolation, "say", "is not JSON")
	}
	total := 0
	for i := range s.commands {
		c := &s.commands[i]
		c.Text = clip(c.Text, maxText)
		total += len(c.Arguments)
		for _, path := range c.Attachments {
			total += len(path)
		}
		switch {
		case len(c.Content.JSON) > 0 && !json.Valid(c.Content.JSON):
			return bad(actor.SchemaViolation, c.Kind, "the content is not JSON")
		case len(c.Notify) > 0 && !json.Valid(c.Notify):
			return bad(actor.SchemaViolation, c.Kind, "notifyParent is not JSON")
		case len(c.Arguments) > 0 && json.Unmarshal(c.Arguments, new(map[string]json.RawMessage)) != nil:
			return bad(actor.SchemaViolation, c.Kind, "the arguments are not an object")
		case len(c.Title) > maxLabel || len(c.Relationship) > maxLabel || len(c.Reference) > maxLabel:
			return bad(actor.TooLarge, c.Kind, fmt.Sprintf("a name has more than %d bytes", maxLabel))
		}
	}
	if total > actor.MaxInline {
		return bad(actor.TooLarge, "commands", fmt.Sprintf("the arguments have more than %d bytes together", actor.MaxInline))
	}
	return nil
}

// keepHandled puts what is large of a handler's outcome into blobs: together what stays inline is no more than one
// value may be.
func (h *Host) keepHandled(ctx context.Context, commands []agent.Command, said json.RawMessage) (v actor.Value, err error) {
	room := actor.MaxInline
	for i := range commands {
		room -= len(commands[i].Arguments) + len(commands[i].Text)
	}
	keep := func(v actor.Value) (kept actor.Value, err error) {
		err = h.steadily(ctx, "what a handler gave", func() (err error) {
			kept, err = h.shrinkTo(ctx, v, max(room, 256))
			return err
		})
		room -= len(kept.JSON)
		return kept, err
	}
	if v, err = keep(actor.Value{JSON: said}); err != nil {
		return v, err
	}
	for i := range commands {
		if commands[i].Content, err = keep(commands[i].Content); err != nil {
			return v, err
		}
	}
	return v, nil
}
