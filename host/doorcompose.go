package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// compose spawns an instance of an agent for a caller. A caller outside is a parent like others: its scoped
// variables are kept as those of a thread are, and copied to the instance before the caller hears of it.
func (v *visit) compose(ctx context.Context, m *a2e.SpawnReq) error {
	if m.ParentAgentID != "" && m.ParentAgentID != v.caller {
		return &actor.Error{ID: m.ParentAgentID, Kind: actor.SchemaViolation, Field: "parent_agent_id", Err: errors.New("an instance of an agent is its caller's own")}
	}
	parent, err := v.h.lineage(ctx, v.caller)
	if err != nil {
		return v.caller404(err)
	}
	values, err := scopedEnv(m.ScopedEnv)
	if err != nil {
		return err
	}
	if len(values) > 0 {
		if err := v.h.Store.Env.Set(ctx, v.caller, values); err != nil {
			return err
		}
	}
	title := m.Agent.Name
	if title == "" {
		title = m.Definition
	}
	rel := agent.Relationship{Agent: m.Definition, ScopedEnv: sortedNames(values)}
	if len(values) == 0 {
		if rel.ScopedEnv, err = v.h.Store.Env.Names(ctx, v.caller); err != nil {
			return err
		}
	}
	declared, err := json.Marshal(&rel)
	if err != nil {
		return err
	}
	key := cmp.Or(v.env.ID, v.h.Conn.NewInbox()) // a request without an id is one of its own
	prepare := &agent.Prepare{Relationship: declared, Owner: actor.LaneA, Title: title, Arguments: m.Arguments, Key: key}
	p, err := v.h.prepare(ctx, parent, prepare)
	if err != nil {
		return err
	}
	spawn := &agent.Spawn{Config: p.Config, Composition: &p.Composition, Plan: p.Plan, Refusals: p.Refusals}
	spawn.Composition.Relationship = nil // a caller outside declares none
	resp, err := v.spawned(ctx, m, spawn)
	if err == nil {
		err = v.grant(ctx, p, resp)
	}
	if err == nil {
		v.answer(resp)
	}
	return err
}

// spawned asks the host actor in the caller's place, for there is something to do before the caller is answered.
func (v *visit) spawned(ctx context.Context, m *a2e.SpawnReq, spawn *agent.Spawn) (*a2e.SpawnResp, error) {
	data, err := v.h.relay(ctx, func(ctx context.Context, reply string) error {
		one := *v
		one.reply, one.asker.Reply = reply, reply
		return one.toHost(ctx, agent.KindSpawn, m, spawn)
	})
	if err != nil {
		return nil, err
	}
	msg, err := a2e.DecodeAnswer(data)
	if err != nil {
		return nil, err
	}
	switch m := msg.(type) {
	case *a2e.SpawnResp:
		return m, nil
	case *a2e.Error:
		return nil, m.Err()
	}
	return nil, fmt.Errorf("a spawn was answered with %s", msg.Type())
}

// grant copies the scoped variables of what was spawned.
func (v *visit) grant(ctx context.Context, p *agent.Prepared, resp *a2e.SpawnResp) error {
	for _, g := range p.Grants(v.caller, resp.SubagentID, resp.Children) {
		if _, err := v.h.Store.Env.CopyTo(ctx, g.From, g.To, g.Names); err != nil {
			return err
		}
	}
	return nil
}

func scopedEnv(raw map[string]json.RawMessage) (map[string]string, error) {
	values := make(map[string]string, len(raw))
	for name, value := range raw {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return nil, &actor.Error{Kind: actor.SchemaViolation, Field: "scoped_env." + name, Err: errors.New("must be a string")}
		}
		values[name] = text
	}
	return values, nil
}

func sortedNames(values map[string]string) []string {
	names := make([]string, 0, len(values))
	for n := range values {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
