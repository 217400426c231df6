package agent

import (
	"encoding/json"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A Composition makes a thread an instance of an agent (S1), for its life. Without one a thread is what
// an A2E SubagentConfig says.
type Composition struct {
	Version      uint64     // of the definition
	Definition   []byte     // a [Definition], as JSON
	Relationship []byte     // the parent's [Relationship] that it is an instance of, as JSON; nil: there is none
	Owner        actor.Lane // the parent's side that declares it
	Title        string     // the thread's display name
	Arguments    []byte     // an object, as JSON, which met the agent's schema
	Group        string     // common to all that one creation spawned
	Env          []string   // the scoped variables that it was given; their values are elsewhere
	Children     []Instance // those spawned with it
}

// An Instance is a child of a composed thread.
type Instance struct {
	ID           actor.ID
	Relationship string
	Owner        actor.Lane
	Gone         bool // it is terminated
	Bare         bool // its variables were not copied: the creation is under way, or was cut off
}

// A Planned is a thread that is spawned together with another: the parent is an earlier one of the plan, or
// the thread that was asked for when Parent is -1.
type Planned struct {
	Parent      int
	Config      a2e.SubagentConfig
	Composition Composition
}

// composed is what the head of a composed thread holds besides.
type composed struct {
	Turn     actor.Lane  // whose turn it is
	Turns    int         // begun in the session
	Over     bool        // the turn has ended, and the other side is next
	Steps    [2]int      // of the session, by side
	Last     [2]uint64   // the last step of a side, counted over the thread's life
	Before   [2]uint64   // and the one before that
	Unseen   [2]int      // messages that prompt a side and were not shown to it
	Reply    actor.Value // what the last turn ended with: a string, or an object
	Asked    uint64      // people were asked so often
	Ask      *Ask        // a person's turn
	Children []Instance
	Status   string   // what sessionStatus last said
	Notify   notify   // what stopSession asked for
	Brought  []string // files that came with the last session's end, as the parent has them
	Note     string   // what is missing of them
	Stopping *stopping
	Pending  []call // creations that code asked for
	Spoke    bool   // the turn has a response

	Spawning []spawning  // what the host was asked for and has not answered
	Question actor.Value // what a person is asked next, clipped
	Next     Opener      // who prompted first of those that were not shown: the opener of the session to come
}

// A spawning is an instance that may come.
type spawning struct {
	Key          string // of the call
	Relationship string
}

// An Ask is a turn that waits for a person.
type Ask struct {
	N        uint64
	Side     actor.Lane // the person's
	At       int64      // microseconds since 1970
	Question string     // what the person is to answer, clipped
}

// A notify is what the parent is told of a session's end, when a tool or a handler decided it.
type notify struct {
	Set  bool
	On   bool
	Text string // in place of the text of S1 §6.2
}

// A stopping is a session's end that is due once the present turn is decided.
type stopping struct {
	Reason      StopReason
	Result      actor.Value
	Error       string
	Attachments []string // of the thread's files, for the parent
	Job         uint64   // the copying under way
	Brought     []string // where the copies are
	Note        string   // what could not be copied
}

// RelationshipName is the name of the relationship that the thread is an instance of, or "".
func (c *Composition) RelationshipName() string {
	var r Relationship
	if len(c.Relationship) == 0 || json.Unmarshal(c.Relationship, &r) != nil {
		return ""
	}
	return r.Name()
}

// compose parses what the thread is an instance of.
func (t *Thread) compose() error {
	c := t.birth.Composition
	if c == nil {
		return nil
	}
	var err error
	if t.def, err = ParseDefinition(c.Definition); err != nil {
		return err
	}
	if len(c.Relationship) > 0 {
		t.rel = new(Relationship)
		if err := json.Unmarshal(c.Relationship, t.rel); err != nil {
			return err
		}
	}
	if t.head.Composed == nil {
		t.head.Composed = &composed{Children: c.Children}
	}
	return nil
}

// Composition is what the thread is an instance of, or nil.
func (t *Thread) Composition() *Composition { return t.birth.Composition }

// Acting is the side whose turn it is, with its lane; nil for a thread that is not composed or when nobody
// but a caller could act.
func (t *Thread) Acting() (*Side, actor.Lane) {
	if t.def == nil {
		return nil, ""
	}
	return t.def.side(t.head.Composed.Turn), t.head.Composed.Turn
}

// SideStep counts the steps of the acting side in the session.
func (t *Thread) SideStep() int {
	if c := t.head.Composed; c != nil {
		return c.Steps[index(c.Turn)]
	}
	return t.head.Step
}

// Before is the acting side's step before the present one, counted over the thread's life: what came later is
// new to it.
func (t *Thread) Before() uint64 {
	if c := t.head.Composed; c != nil {
		return c.Before[index(c.Turn)]
	}
	return t.head.Steps - min(t.head.Steps, 1)
}

// Instances lists the thread's children that a side owns; all, when lane is "".
func (t *Thread) Instances(lane actor.Lane) []Instance {
	var of []Instance
	if c := t.head.Composed; c != nil {
		for _, i := range c.Children {
			if lane == "" || i.Owner == lane {
				of = append(of, i)
			}
		}
	}
	return of
}

func (d *Definition) side(lane actor.Lane) *Side {
	if lane == actor.LaneB {
		return d.SideB
	}
	return d.SideA
}

// Relationship finds a side's relationship by its name.
func (s *Side) Relationship(name string) *Relationship {
	for i := range s.Subagents {
		if s.Subagents[i].Name() == name {
			return &s.Subagents[i]
		}
	}
	return nil
}

// stopsOnResponse reports whether a response without tool calls ends the side's turn.
func (s *Side) stopsOnResponse() bool { return s.StopOnResponse == nil || *s.StopOnResponse }

func (s *Side) maxSteps() int {
	if s.MaxSteps > 0 {
		return s.MaxSteps
	}
	return a2e.DefaultMaxSteps
}

func opposite(lane actor.Lane) actor.Lane {
	if lane == actor.LaneB {
		return actor.LaneA
	}
	return actor.LaneB
}

func index(lane actor.Lane) int {
	if lane == actor.LaneB {
		return 1
	}
	return 0
}

// ConfigOf is how A2E sees an instance of an agent.
func ConfigOf(d *Definition, title string) a2e.SubagentConfig {
	c := a2e.SubagentConfig{
		Name: title, Role: d.ToolDescription, Model: "agent/" + d.Name, MaxSteps: d.SideA.maxSteps(),
		TimeoutSeconds: d.TimeoutSeconds, IdleTimeoutSeconds: d.IdleTimeoutSeconds, Budget: d.Budget,
	}
	if c.Name == "" {
		c.Name = d.Name
	}
	return c
}

// IDOf finds the thread that a reference addresses: the UUID, or the thread's id itself.
func IDOf(reference string) actor.ID {
	if strings.HasPrefix(reference, "sub_") {
		return actor.ID(reference)
	}
	if len(reference) == 36 {
		if id := actor.ID("sub_" + reference[:8]); Reference(id) == strings.ToLower(reference) {
			return id
		}
	}
	return ""
}
