package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// The jobs of composed threads.
const (
	JobSubagents = "subagents" // the snapshot that [Snapshot] asks for
	JobPrepare   = "prepare"   // looks up what a creation needs: [Prepare], answered with [Prepared]
	JobDeliver   = "deliver"   // copies files and variables to a child: [Deliver], answered with [Delivered]
	JobSnapshot  = "snapshot"  // a snapshot of a memory space: [SnapshotOf], answered with its digest
	JobTool      = "tool"      // a tool of the host's: [ToolCall]
)

// A Snapshot asks for the registry entries of a side's children.
type Snapshot struct {
	Relationships []string
}

// A SnapshotOf asks for a snapshot of the memory space of a thread that is to be a parent. Spawn is the spawn that
// waits for it.
type SnapshotOf struct {
	Parent actor.ID
	Spawn  []byte
}

// A ToolCall asks for a tool of the host's.
type ToolCall struct {
	ID        string // the same at each try
	Name      string
	Arguments []byte
}

// A Prepare asks for all that the creation of an instance depends on.
type Prepare struct {
	Relationship []byte // JSON
	Owner        actor.Lane
	Title        string
	Arguments    []byte
	Message      []byte // JSON, that the call has beside the arguments; or nothing
	Attachments  []string
	Key          string   // of the call
	Extra        actor.ID // whose scoped variables count besides, or ""
}

// A Prepared is what was found. Refusals are in the order in which they count.
type Prepared struct {
	Disabled    bool
	Config      a2e.SubagentConfig
	Composition Composition
	Plan        []Planned
	Message     actor.Value // the first message; nothing: the child is spawned idle
	Attachments []string    // that go with it
	Extra       *Grant      // variables from elsewhere than the parent; To is not known yet
	Refusals    []Refusal
}

// A Refusal is a check that failed.
type Refusal struct {
	Kind    actor.Kind
	Field   string
	Message string
	Detail  []byte // more of the error's fields, as a JSON object
}

// JSON is the refusal as a tool's error.
func (r *Refusal) JSON() []byte {
	data, err := json.Marshal(struct {
		Code    actor.Kind `json:"code"`
		Message string     `json:"message"`
		Field   string     `json:"field,omitempty"`
	}{r.Kind, r.Message, r.Field})
	if err != nil {
		panic("agent: refusal: " + err.Error())
	}
	if len(r.Detail) > 2 {
		data = append(append(data[:len(data)-1], ','), r.Detail[1:]...)
	}
	return data
}

// A Deliver asks to copy what goes with a message to a child.
type Deliver struct {
	Optional    string // the flag of the relationship, which is asked for again
	Child       actor.ID
	Attachments []string
	Env         []Grant
	Key         string
	Lenient     bool // what is not there is left out, and told
}

// A Grant gives a thread scoped variables of another's, its parent's.
type Grant struct {
	From  actor.ID
	To    actor.ID
	Names []string
}

// A Delivered says under which paths the attachments are at the child.
type Delivered struct {
	Disabled    bool
	Attachments []string
	Refusals    []Refusal
}

// A Created answers a Spawn with a composition.
type Created struct {
	ID           actor.ID
	Relationship string
	Owner        actor.Lane
	Children     []actor.ID // of the plan, in its order
}

// The phases of a creation. A message to an instance begins in the third.
const (
	phasePrepare = iota + 1
	phaseSpawn
	phaseDeliver
	phaseSend
	phaseWait
	phaseQueue // for the one instance that another call is about to make
)

// A creation is a call of subagent_create or subagent_message under way.
type creation struct {
	Phase        uint8
	Relationship string
	Owner        actor.Lane
	Title        string
	Child        actor.ID
	Message      actor.Value
	Attachments  []string
	Env          []grant // of the child and of what is spawned with it
	Extra        *Grant  // to the child
	Blocking     bool
}

// A grant is a [Grant] to a thread that is not born yet. From is its parent's place in the plan, counted from 1; 0
// is the child, and -1 the thread itself.
type grant struct {
	From  int
	Names []string
}

// composedCall carries out a tool call of a composed thread.
func (x *turn) composedCall(c *call, arguments actor.Value) error {
	side := x.def.side(x.head.Composed.Turn)
	if arguments.Blob {
		return &actor.Error{Kind: actor.TooLarge, Field: "arguments", Err: fmt.Errorf("the arguments are larger than %d bytes", actor.MaxInline)}
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

// create begins a creation as p says; the rest of p is filled in here.
func (x *turn) create(c *call, r *Relationship, p *Prepare) (err error) {
	p.Owner, p.Key = x.head.Composed.Turn, c.Key
	if p.Relationship, err = json.Marshal(r); err != nil {
		return err
	}
	c.Create = &creation{Phase: phasePrepare, Relationship: r.Name(), Owner: p.Owner, Title: p.Title, Blocking: r.Blocking}
	x.callJob(c, JobPrepare, p)
	return nil
}

// prepared goes on with a creation once everything is looked up.
func (x *turn) prepared(c *call, p *Prepared) error {
	r := x.def.side(c.Create.Owner).Relationship(c.Create.Relationship)
	count, last := x.instances(r.Name())
	switch {
	case p.Disabled:
		return &actor.Error{Kind: actor.NotFound, Field: "agent", Err: fmt.Errorf("%q is not enabled", r.Name())}
	case c.Create.Title == "":
		return &actor.Error{Kind: actor.SchemaViolation, Field: "name", Err: errors.New("is required")}
	}
	c.Create.Message, c.Create.Attachments = p.Message, p.Attachments
	if r.Blocking && r.MaxInstances == 1 && last != nil { // create-or-continue (S1 §3.3)
		c.Create.Child = last.ID
		if c.Create.Message.IsZero() {
			c.Create.Message = goOn
		}
		return x.deliver(c, r.Optional)
	}
	if r.Blocking && r.MaxInstances == 1 && count > 0 {
		c.Create.Phase = phaseQueue
		return nil
	}
	if r.MaxInstances > 0 && count >= r.MaxInstances {
		return x.tooManyInstances(r)
	}
	c.Create.Phase = phaseSpawn
	c.Create.Env, c.Create.Extra = p.grants(), p.Extra
	x.send(x.hostOf(), actor.LaneHost, KindSpawn, c.Key, &Spawn{Config: p.Config, Composition: &p.Composition, Plan: p.Plan, Refusals: p.Refusals})
	return nil
}

// instances counts what stands against a relationship's cap: every instance that is not terminated, and those
// about to be spawned. last is the newest that may be continued.
func (x *turn) instances(name string) (count int, last *Instance) {
	c := x.head.Composed
	for i := range c.Children {
		if one := &c.Children[i]; one.Relationship == name && !one.Gone {
			count++
			last = one
		}
	}
	for under := range x.head.eachCall {
		if under.Create != nil && under.Create.Phase == phaseSpawn && under.Create.Relationship == name && !under.Done {
			count++
		}
	}
	return count, last
}

// created takes the host's answer to a spawn.
func (x *turn) created(c *call, a *Answer) error {
	made, relationship := a.Created, c.Create.Relationship
	if made == nil {
		x.callDone(c, a.Content, true)
		x.queued(relationship, func(next *call) error {
			x.callDone(next, a.Content, true)
			return nil
		})
		return nil
	}
	x.born(made)
	c.Create.Child = made.ID
	defer x.queued(relationship, func(next *call) error {
		next.Create.Child = made.ID
		if next.Create.Message.IsZero() {
			next.Create.Message = goOn
		}
		return x.deliver(next, x.def.side(next.Create.Owner).Relationship(relationship).Optional)
	})
	grants := made.grants(x.head.Lineage.ID, c.Create.Env)
	if e := c.Create.Extra; e != nil {
		grants = append([]Grant{{From: e.From, To: made.ID, Names: e.Names}}, grants...)
	}
	c.Create.Env, c.Create.Extra = nil, nil
	if len(grants) == 0 && len(c.Create.Attachments) == 0 {
		return x.hand(c, c.Create.Attachments)
	}
	c.Create.Phase = phaseDeliver
	x.callJob(c, JobDeliver, &Deliver{Child: made.ID, Attachments: c.Create.Attachments, Env: grants, Key: c.Key})
	return nil
}

func (p *Prepared) grants() []grant {
	all := []grant{{-1, p.Composition.Env}}
	for i := range p.Plan {
		all = append(all, grant{p.Plan[i].Parent + 1, p.Plan[i].Composition.Env})
	}
	return all
}

// Grants says who gets variables of whom once the child and what is spawned with it have ids, parents first.
func (p *Prepared) Grants(self, child actor.ID, children []actor.ID) []Grant {
	return (&Created{ID: child, Children: children}).grants(self, p.grants())
}

// grants says who gets variables of whom, parents first.
func (m *Created) grants(self actor.ID, env []grant) (grants []Grant) {
	ids := append([]actor.ID{m.ID}, m.Children...)
	for i, g := range env {
		if i >= len(ids) || len(g.Names) == 0 {
			continue
		}
		from := self
		if g.From >= 0 {
			from = ids[g.From]
		}
		grants = append(grants, Grant{From: from, To: ids[i], Names: g.Names})
	}
	return grants
}

// born notes a child, also when the call that asked for it is over.
func (x *turn) born(made *Created) {
	c := x.head.Composed
	if !slices.ContainsFunc(c.Children, func(i Instance) bool { return i.ID == made.ID }) {
		c.Children = append(c.Children, Instance{ID: made.ID, Relationship: made.Relationship, Owner: made.Owner})
	}
}

// queued goes on with the calls that waited for the one instance of a relationship.
func (x *turn) queued(relationship string, goOn func(*call) error) {
	for c := range x.head.eachCall {
		if c.Create != nil && c.Create.Phase == phaseQueue && c.Create.Relationship == relationship && !c.Done {
			x.lifecycle(c, func() error { return goOn(c) })
		}
	}
}

// deliver goes on with a message to an instance that exists.
func (x *turn) deliver(c *call, optional string) error {
	if optional == "" && len(c.Create.Attachments) == 0 {
		return x.hand(c, nil)
	}
	c.Create.Phase = phaseDeliver
	x.callJob(c, JobDeliver, &Deliver{Optional: optional, Child: c.Create.Child, Attachments: c.Create.Attachments, Key: c.Key})
	return nil
}

func (x *turn) delivered(c *call, d *Delivered) error {
	switch {
	case d.Disabled:
		return &actor.Error{Kind: actor.NotFound, Field: "agent", Err: fmt.Errorf("%q is not enabled", c.Create.Relationship)}
	case len(d.Refusals) > 0:
		x.callDone(c, actor.Value{JSON: d.Refusals[0].JSON()}, true)
		return nil
	}
	return x.hand(c, d.Attachments)
}

// hand sends the child its message. A call that blocks waits for the end of the session that takes it.
func (x *turn) hand(c *call, attachments []string) error {
	m := c.Create
	if m.Message.IsZero() && len(attachments) == 0 {
		x.callDone(c, x.created1(m, StatusIdle), false)
		return nil
	}
	if err := x.opened(m.Child); err != nil {
		return err
	}
	if m.Message.IsZero() {
		m.Message = actor.Value{JSON: []byte(`""`)}
	}
	meta, err := json.Marshal(metadata{SubagentID: Reference(m.Child), From: x.head.Lineage.ID, Attachments: attachments})
	if err != nil {
		return err
	}
	c.Gives = m.Child
	m.Phase = phaseSend
	if m.Blocking {
		m.Phase, c.Waits = phaseWait, []actor.ID{m.Child}
	}
	x.send(actor.Address{ID: m.Child}, actor.LaneQueue, KindMessage, c.Key, &Message{
		Root: x.head.Lineage.Root(), Content: m.Message, Meta: meta, Opens: true, Awaits: m.Blocking,
	})
	m.Message, m.Attachments = actor.Value{}, nil
	return nil
}

// goOn is the message to an instance that is continued without one.
var goOn = actor.Value{JSON: []byte(`"Go on."`)}

// metadata is what messages between threads carry (S1 §6.5).
type metadata struct {
	SubagentID  string   `json:"subagent_id,omitempty"`
	From        actor.ID `json:"forwarded_from,omitempty"`
	Attachments []string `json:"attachments,omitempty"`
	Silent      bool     `json:"silent,omitempty"`
}

// ofChild is the metadata of what a child tells unasked.
func ofChild(id actor.ID) []byte {
	data, err := json.Marshal(metadata{SubagentID: Reference(id), Silent: true})
	if err != nil {
		panic("agent: metadata: " + err.Error())
	}
	return data
}

// created1 is what a model hears of an instance.
func (x *turn) created1(m *creation, status string) actor.Value {
	data, err := json.Marshal(struct {
		Reference    string `json:"reference"`
		Relationship string `json:"relationship"`
		Status       string `json:"status"`
	}{Reference(m.Child), m.Relationship, status})
	if err != nil {
		panic("agent: instance: " + err.Error())
	}
	return actor.Value{JSON: data}
}

// sent takes the child's answer to a message.
func (x *turn) sent(c *call, a *Answer) {
	var resp struct {
		Delivered bool `json:"delivered"`
	}
	switch {
	case a.IsError:
		x.callDone(c, a.Content, true)
	case json.Unmarshal(a.Content.JSON, &resp) == nil && resp.Delivered:
		x.callDone(c, x.created1(c.Create, StatusRunning), false)
	default:
		r := Refusal{Kind: actor.ThreadTerminated, Field: "reference", Message: Reference(c.Create.Child) + " is terminated"}
		x.callDone(c, actor.Value{JSON: r.JSON()}, true)
	}
}

// blocked takes the end of the session that a call waited for (S1 §3.3).
func (x *turn) blocked(c *call, a *Answer) {
	msg, err := a2e.DecodeAnswer(a.Content.JSON)
	resp, ok := msg.(*a2e.AwaitResp)
	if err != nil || !ok {
		x.callDone(c, a.Content, true)
		return
	}
	told := struct {
		Reference  string          `json:"reference"`
		Status     string          `json:"status"`
		StopReason StopReason      `json:"stopReason,omitempty"`
		Result     json.RawMessage `json:"result,omitempty"`
		Message    string          `json:"message,omitempty"`
	}{Reference: Reference(c.Create.Child), Status: StatusIdle, StopReason: a.Ended.Reason, Result: resp.Result}
	if told.StopReason == "" {
		told.StopReason = StopReason(resp.StopReason)
	}
	failed := resp.Status != a2e.Completed
	if failed {
		told.Status, told.Message, told.Result = StatusFailed, resp.Error, nil
		if resp.Status == a2e.Terminated {
			told.Status = StatusTerminated
		} else if resp.Status == a2e.Cancelled {
			told.Status, told.Message = StatusIdle, "the session was cancelled"
		}
	}
	data, err := json.Marshal(told)
	if err != nil {
		data = a.Content.JSON
	}
	x.callDone(c, actor.Value{JSON: data}, failed)
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

// lifecycle takes the next step of a creation; an error is the call's.
func (x *turn) lifecycle(c *call, f func() error) {
	wasParked := x.head.parked()
	if err := f(); err != nil {
		x.callFailed(c, err)
	}
	if !wasParked && x.head.parked() {
		x.statusChanged()
	}
}

// instanceJob takes the outcome of a job of a creation.
func (x *turn) instanceJob(c *call, a *JobAnswer) error {
	c.Job, c.Body = 0, nil
	switch {
	case a.Err != "":
		return &actor.Error{Kind: actor.RuntimeError, Err: errors.New(a.Err)}
	case a.Prepared != nil:
		return x.prepared(c, a.Prepared)
	case a.Delivered != nil:
		return x.delivered(c, a.Delivered)
	}
	return &actor.Error{Kind: actor.RuntimeError, Err: errors.New("a job without an outcome")}
}

// instanceAnswered takes what the host or the child answered.
func (x *turn) instanceAnswered(c *call, a *Answer) error {
	switch c.Create.Phase {
	case phaseSpawn:
		return x.created(c, a)
	case phaseSend:
		x.sent(c, a)
	case phaseWait:
		x.blocked(c, a)
	}
	return nil
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
