package a2e

import (
	"errors"
	"fmt"
	"math"

	"github.com/troupehq/troupe/actor"
)

// Decode reads and validates one request and fills in the defaults of the specification. It keeps
// nothing of data. Its errors are *[actor.Error], of the Kinds that the package comment lists; for the
// envelope of a request that was refused there is [DecodeEnvelope].
func Decode(data []byte) (Request, error) {
	d := decoder{}
	o := object{d: &d}
	if err := o.open(data, MaxDepth); err != nil {
		return nil, err
	}
	kind := o.name("type")
	if d.err != nil {
		return nil, d.err
	}
	env := o.envelope(actor.MaxIDBytes)
	var r Request
	switch kind {
	case TypeSpawnReq:
		r = o.spawnReq(env)
	case TypeDelegateReq:
		r = o.delegateReq(env)
	case TypeAwaitReq:
		r = o.awaitReq(env)
	case TypeMessageReq:
		r = o.messageReq(env)
	case TypeListReq:
		r = o.listReq(env)
	case TypeCancelReq:
		r = &CancelReq{Envelope: env, SubagentID: o.id("subagent_id", true)}
	case TypeTerminateReq:
		r = &TerminateReq{Envelope: env, SubagentID: o.id("subagent_id", true), Teardown: choice(&o, "teardown", false, Teardown(""))}
	case TypeExtendReq:
		r = o.extendReq(env)
	case TypeMergeReq:
		r = o.mergeReq(env)
	default:
		return nil, unknownType(kind, "is not a request of this protocol")
	}
	if d.err != nil {
		return nil, d.err
	}
	return r, nil
}

func unknownType(kind, why string) error {
	return &actor.Error{
		Op: "a2e.Decode", Kind: actor.InvalidMessage, Field: "type", Err: fmt.Errorf("%q %s", kind, why),
	}
}

// open checks that data is one JSON object and takes it apart.
func (o *object) open(data []byte, levels int) error {
	err := check(data, levels)
	data = trim(data)
	if err == nil && data[0] != '{' {
		err = errors.New("it is not an object")
	}
	if err != nil {
		return &actor.Error{Op: "a2e.Decode", Kind: actor.ParseError, Err: err}
	}
	o.split(data)
	return nil
}

func (o *object) spawnReq(env Envelope) *SpawnReq {
	m := &SpawnReq{
		Envelope:      env,
		ParentAgentID: o.id("parent_agent_id", false),
		RootAgentID:   o.id("root_agent_id", false),
	}
	if o.value("definition", false) == nil {
		m.Agent = o.config("agent")
		return m
	}
	m.Definition = o.name("definition")
	m.Arguments = o.raw("arguments", false, true)
	m.ScopedEnv = o.dict("scoped_env")
	var c object
	if o.value("agent", false) != nil {
		if _, ok := o.child(&c, "agent"); ok {
			m.Agent.Name = c.name("name")
		}
	}
	return m
}

// config reads a SubagentConfig, whose size counts as Encode writes it.
func (o *object) config(key string) SubagentConfig {
	var c object
	raw, ok := o.child(&c, key)
	if !ok {
		return SubagentConfig{}
	}
	cfg := SubagentConfig{
		Name:           c.name("name"),
		Role:           c.text("role", false),
		Model:          c.name("model"),
		SystemPrompt:   c.text("system_prompt", false),
		Capabilities:   c.texts("capabilities"),
		MemoryScope:    choice(&c, "memory_scope", false, MemoryShared),
		ToolScope:      choice(&c, "tool_scope", false, ToolsRestricted),
		MaxSteps:       c.integer("max_steps", 1, math.MaxInt32, DefaultMaxSteps),
		TimeoutSeconds: c.integer("timeout_seconds", 1, math.MaxInt32, DefaultTimeoutSeconds),
		Metadata:       c.dict("metadata"),

		IdleTimeoutSeconds: c.integer("idle_timeout_seconds", 1, math.MaxInt32, 0),
	}
	if c.value("budget", false) != nil {
		cfg.Budget = c.budget("budget")
	}
	const defaults = 512 // more than what Encode may add to raw
	if len(raw) > MaxConfigBytes-defaults && configSize(cfg) > MaxConfigBytes {
		o.d.fail(o.path+key, actor.TooLarge, whyLong(MaxConfigBytes))
	}
	return cfg
}

// budget reads what a budget bounds, which has to be something.
func (o *object) budget(key string) *Budget {
	var b object
	if _, ok := o.child(&b, key); !ok {
		return nil
	}
	budget := Budget{
		Tokens:  b.count("tokens", 1, MaxBudget, 0),
		USD:     b.positive("usd", MaxUSD),
		Steps:   b.count("steps", 1, MaxBudget, 0),
		Seconds: b.positive("seconds", math.MaxInt32),
	}
	if budget == (Budget{}) {
		o.fail(key, "bounds none of tokens, usd, steps and seconds")
	}
	return &budget
}

func (o *object) delegateReq(env Envelope) *DelegateReq {
	m := &DelegateReq{Envelope: env, SubagentID: o.id("subagent_id", true)}
	var t object
	if _, ok := o.child(&t, "task"); ok {
		m.Task = TaskDefinition{
			Name:            t.name("name"),
			Instruction:     t.text("instruction", true),
			SuccessCriteria: t.texts("success_criteria"),
			Metadata:        t.dict("metadata"),
		}
	}
	return m
}

func (o *object) awaitReq(env Envelope) *AwaitReq {
	m := &AwaitReq{
		Envelope:       env,
		Mode:           choice(o, "mode", false, Mode("")),
		TimeoutSeconds: o.positive("timeout_seconds", math.MaxInt32),
	}
	m.SubagentID = o.id("subagent_id", m.Mode == "")
	if m.Mode != "" {
		m.SubagentIDs = o.ids("subagent_ids")
	} else if o.value("subagent_ids", false) != nil {
		o.fail("mode", "is required with subagent_ids")
	}
	if m.Mode == ModeQuorum {
		o.value("quorum", true)
		m.Quorum = o.integer("quorum", 1, max(1, distinct(m.SubagentIDs)), 0)
	} else if o.value("quorum", false) != nil {
		o.fail("quorum", "is for mode quorum only")
	}
	return m
}

// distinct counts the different ids: a quorum above that could never be met.
func distinct(ids []actor.ID) int {
	seen := make(map[actor.ID]bool, len(ids))
	for _, id := range ids {
		seen[id] = true
	}
	return len(seen)
}

func (o *object) messageReq(env Envelope) *MessageReq {
	m := &MessageReq{
		Envelope:       env,
		FromSubagentID: o.id("from_subagent_id", true),
		ToSubagentID:   o.id("to_subagent_id", true),
	}
	var p object
	if _, ok := o.child(&p, "message"); ok {
		m.Message.Type = p.text("type", true)
		content := p.get("content") // null is content, too
		if content == nil {
			p.fail("content", whyMissing)
		}
		m.Message.Content = keep(content)
		if p.value("metadata", false) != nil {
			m.Message.Metadata = p.dict("metadata")
		}
	}
	return m
}

func (o *object) listReq(env Envelope) *ListReq {
	return &ListReq{
		Envelope:      env,
		Status:        o.statuses("status"),
		ParentAgentID: o.id("parent_agent_id", false),
		Limit:         o.integer("limit", 1, MaxListLimit, 0),
		Cursor:        o.text("cursor", false),
	}
}

// statuses reads one status or a list of them, which must not be empty.
func (o *object) statuses(key string) []Status {
	raw := o.value(key, false)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		return []Status{choice(o, key, true, Status(""))}
	}
	all := []Status{}
	for i, r := range elements(raw) {
		s, why := text(r)
		if why == "" && !Status(s).Valid() {
			why = fmt.Sprintf("has an unknown value %q", s)
		}
		if why != "" {
			o.fail(at(key, i), why)
			break
		}
		all = append(all, Status(s))
	}
	if len(all) == 0 {
		o.fail(key, whyEmpty)
	}
	return all
}

func (o *object) extendReq(env Envelope) *ExtendReq {
	m := &ExtendReq{Envelope: env, SubagentID: o.id("subagent_id", true)}
	o.value("seconds", true)
	m.Seconds = o.positive("seconds", math.MaxInt32)
	return m
}

func (o *object) mergeReq(env Envelope) *MergeReq {
	return &MergeReq{
		Envelope:    env,
		SubagentIDs: o.ids("subagent_ids"),
		Strategy:    choice(o, "strategy", false, HierarchicalSummary),
	}
}
