package a2e

import (
	"encoding/json"
	"math"

	"github.com/troupehq/troupe/actor"
)

// answerDepth is how deep answers may be nested: results are what tools and models make of them, so
// the limit is that of encoding/json.
const answerDepth = 10000

// DecodeAnswer reads what a host sends: *SpawnResp, *DelegateResp, *AwaitResp, *MessageResp,
// *ListResp, *MergeResp, *Event or *Error. An Error that was read is a message, not an err; see
// [Error.Err]. Its own errors are those of [Decode]. It keeps nothing of data.
func DecodeAnswer(data []byte) (Message, error) {
	d := decoder{}
	o := object{d: &d}
	if err := o.open(data, answerDepth); err != nil {
		return nil, err
	}
	kind := o.name("type")
	if d.err != nil {
		return nil, d.err
	}
	env := o.envelope(actor.MaxIDBytes + len("r-"))
	m := o.answer(kind, env)
	if m == nil {
		return nil, unknownType(kind, "is not an answer of this protocol")
	}
	if d.err != nil {
		return nil, d.err
	}
	return m, nil
}

func (o *object) answer(kind string, env Envelope) Message {
	switch kind {
	case TypeSpawnResp:
		m := &SpawnResp{Envelope: env, SubagentID: o.id("subagent_id", true), Status: choice(o, "status", true, Status(""))}
		if o.value("children", false) != nil {
			m.Children = o.ids("children")
		}
		return m
	case TypeDelegateResp:
		return &DelegateResp{env, o.boolean("accepted", true), choice(o, "status", true, Status(""))}
	case TypeAwaitResp:
		return o.awaitResp(env)
	case TypeMessageResp:
		return &MessageResp{env, o.boolean("delivered", true)}
	case TypeListResp:
		return o.listResp(env)
	case TypeMergeResp:
		return &MergeResp{env, o.raw("merged_result", true, true)}
	case TypeEvent:
		return o.event(env)
	case TypeError:
		return o.failure(env)
	}
	return nil
}

func (o *object) awaitResp(env Envelope) *AwaitResp {
	m := &AwaitResp{
		Envelope:   env,
		Status:     choice(o, "status", true, Status("")),
		Result:     o.raw("result", false, true),
		Error:      o.text("error", false),
		Reference:  o.text("reference", false),
		Session:    uint64(o.integer("session", 0, math.MaxInt, 0)),
		StopReason: o.text("stopReason", false),
		Usage:      o.raw("usage", false, false),
	}
	for i, raw := range o.list("results", false) {
		var c object
		o.element(&c, raw, at("results", i))
		m.Results = append(m.Results, *c.awaitResp(Envelope{}))
	}
	m.SubagentID = actor.ID(o.text("subagent_id", true))
	if m.SubagentID == "" && m.Results == nil { // with results, it may stand for none of them
		o.fail("subagent_id", whyEmpty)
	}
	return m
}

func (o *object) listResp(env Envelope) *ListResp {
	m := &ListResp{Envelope: env, Subagents: []SubagentInfo{}, Cursor: o.text("cursor", false)}
	for i, raw := range o.list("subagents", true) {
		var c object
		o.element(&c, raw, at("subagents", i))
		m.Subagents = append(m.Subagents, SubagentInfo{
			SubagentID:    c.id("subagent_id", true),
			Name:          c.text("name", true),
			Status:        choice(&c, "status", true, Status("")),
			ParentAgentID: c.id("parent_agent_id", false),
			RootAgentID:   c.id("root_agent_id", false),
			Depth:         c.integer("depth", 0, math.MaxInt32, 0),
			Config:        c.config("config"),
		})
	}
	return m
}

// element takes an object in a list apart into c.
func (o *object) element(c *object, raw []byte, path string) {
	if raw[0] != '{' {
		o.fail(path, whyObject)
	}
	c.d, c.path = o.d, o.path+path+"."
	c.split(raw)
}

func (o *object) event(env Envelope) *Event {
	m := &Event{
		Envelope:   env,
		SubagentID: o.id("subagent_id", true),
		Event:      o.text("event", true),
		Content:    o.raw("content", false, true),
	}
	if m.Content == nil {
		m.Content = json.RawMessage("{}")
	}
	return m
}

func (o *object) failure(env Envelope) *Error {
	m := &Error{
		Envelope:  env,
		Code:      actor.Kind(o.name("code")),
		Message:   o.text("message", false),
		Retryable: o.boolean("retryable", false),
	}
	var c object
	if o.value("detail", false) == nil {
		return m
	}
	if _, ok := o.child(&c, "detail"); ok {
		m.Detail = Detail{Field: c.text("field", false), ID: actor.ID(c.text("id", false))}
	}
	return m
}
