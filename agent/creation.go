package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

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
	Prepare      []byte // the [Prepare] again, while the call waits for another's instance
}

// create begins a creation as p says; the rest of p is filled in here.
func (x *turn) create(c *call, r *Relationship, p *Prepare) (err error) {
	p.Owner, p.Key = x.head.Composed.Turn, c.Key
	if p.Relationship, err = json.Marshal(r); err != nil {
		return err
	}
	c.Create = &creation{Phase: phasePrepare, Relationship: r.Name(), Owner: p.Owner, Title: p.Title, Blocking: r.Blocking}
	x.callJob(c, JobPrepare, p)
	c.Create.Prepare = c.Body
	return nil
}

// prepared goes on with a creation once everything is looked up.
func (x *turn) prepared(c *call, p *Prepared) error {
	r := x.def.side(c.Create.Owner).Relationship(c.Create.Relationship)
	count, last := x.instances(r.Name())
	switch {
	case p.Disabled:
		return &actor.Error{Kind: actor.NotFound, Field: "agent", Err: fmt.Errorf("%q is not enabled", r.Name())}
	case strings.TrimSpace(c.Create.Title) == "":
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
	c.Create.Prepare = nil
	if r.MaxInstances > 0 && count >= r.MaxInstances {
		return x.tooManyInstances(r)
	}
	c.Create.Phase = phaseSpawn
	x.head.Composed.Spawning = append(x.head.Composed.Spawning, spawning{c.Key, r.Name()})
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
	for _, s := range c.Spawning {
		if s.Relationship == name {
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
		x.queued(relationship, func(next *call) error { // the next one tries by itself
			next.Create.Phase, next.Body = phasePrepare, next.Create.Prepare
			next.Job = x.newJob(JobPrepare, next.Body)
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

// born notes a child, also when the call that asked for it is over.
func (x *turn) born(made *Created) {
	c := x.head.Composed
	if !slices.ContainsFunc(c.Children, func(i Instance) bool { return i.ID == made.ID }) {
		c.Children = append(c.Children, Instance{ID: made.ID, Relationship: made.Relationship, Owner: made.Owner, Bare: true})
	}
}

// answeredSpawn notes that the host has answered a spawn: it no longer counts as one that may come.
func (x *turn) answeredSpawn(key string) {
	if c := x.head.Composed; c != nil {
		c.Spawning = slices.DeleteFunc(c.Spawning, func(s spawning) bool { return s.Key == key })
	}
}

// queued goes on with the calls that waited for the one instance of a relationship.
func (x *turn) queued(relationship string, goOn func(*call) error) {
	var keys []string // what goes on may end, and leave the list
	for c := range x.head.eachCall {
		if c.Create != nil && c.Create.Phase == phaseQueue && c.Create.Relationship == relationship && !c.Done {
			keys = append(keys, c.Key)
		}
	}
	for _, key := range keys {
		for c := range x.head.eachCall {
			if c.Key == key {
				x.lifecycle(c, func() error { return goOn(c) })
				break
			}
		}
	}
}

// deliver goes on with a message to an instance that exists.
func (x *turn) deliver(c *call, optional string) error {
	d := Deliver{Optional: optional, Child: c.Create.Child, Attachments: c.Create.Attachments, Key: c.Key}
	if names := x.owed(c.Create.Child); len(names) > 0 {
		d.Env = []Grant{{From: x.head.Lineage.ID, To: c.Create.Child, Names: names}}
	}
	if optional == "" && len(d.Attachments) == 0 && len(d.Env) == 0 {
		return x.hand(c, nil)
	}
	c.Create.Phase = phaseDeliver
	x.callJob(c, JobDeliver, &d)
	return nil
}

// owed is which variables a child was to get and did not, for its creation was cut off.
func (x *turn) owed(child actor.ID) []string {
	for _, i := range x.head.Composed.Children {
		if i.ID == child && i.Bare {
			if r := x.def.side(i.Owner).Relationship(i.Relationship); r != nil {
				return r.ScopedEnv
			}
		}
	}
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
	for i := range x.head.Composed.Children {
		if one := &x.head.Composed.Children[i]; one.ID == m.Child {
			one.Bare = false
		}
	}
	if m.Message.IsZero() && len(attachments) == 0 {
		x.callDone(c, x.instanceOf(m, StatusIdle), false)
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

// instanceOf is what a model hears of an instance.
func (x *turn) instanceOf(m *creation, status string) actor.Value {
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
		x.callDone(c, x.instanceOf(c.Create, StatusRunning), false)
	default:
		r := Refusal{Kind: actor.ThreadTerminated, Field: "reference", Message: Reference(c.Create.Child) + " is terminated"}
		x.callDone(c, actor.Value{JSON: r.JSON()}, true)
	}
}

// blocked takes the end of the session that a call waited for (S1 §3.3).
func (x *turn) blocked(c *call, a *Answer) {
	msg, err := a2e.DecodeAnswer(a.Content.JSON)
	if m, ok := msg.(*a2e.MessageResp); ok && !m.Delivered { // it was terminated before it had the message
		msg = &a2e.AwaitResp{Status: a2e.Terminated, Error: "it was terminated"}
		a.Ended.Reason = StopTerminated
	}
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
