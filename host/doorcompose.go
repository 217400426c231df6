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
	"github.com/troupehq/troupe/store"
)

// compose spawns an instance of an agent for a caller. The scoped variables that come with the request are the
// instance's alone, and copied to it before the caller hears of it.
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
	var extra actor.ID
	if len(values) > 0 {
		extra = store.Borrowed("")
		if err := v.h.Store.Env.Set(ctx, extra, values); err != nil {
			return err
		}
		defer v.h.forget(extra)
	}
	title := m.Agent.Name
	if title == "" {
		title = m.Definition
	}
	rel := agent.Relationship{Agent: m.Definition}
	declared, err := json.Marshal(&rel)
	if err != nil {
		return err
	}
	key := cmp.Or(v.env.ID, v.h.Conn.NewInbox()) // a request without an id is one of its own
	prepare := &agent.Prepare{Relationship: declared, Owner: actor.LaneA, Title: title, Arguments: m.Arguments, Key: key, Extra: extra}
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
	grants := p.Grants(v.caller, resp.SubagentID, resp.Children)
	if p.Extra != nil {
		grants = append([]agent.Grant{{From: p.Extra.From, To: resp.SubagentID, Names: p.Extra.Names}}, grants...)
	}
	return v.h.give(ctx, grants)
}

// give copies variables to those who lack them. What a thread has it keeps, and a name without a value is left out.
func (h *Host) give(ctx context.Context, grants []agent.Grant) error {
	for _, g := range grants {
		has, err := h.Store.Env.Names(ctx, g.To)
		if err != nil {
			return err
		}
		there, err := h.Store.Env.Names(ctx, g.From)
		if err != nil {
			return err
		}
		names := slices.DeleteFunc(slices.Clone(g.Names), func(n string) bool { return slices.Contains(has, n) || !slices.Contains(there, n) })
		if len(names) == 0 {
			continue
		}
		if _, err := h.Store.Env.CopyTo(ctx, g.From, g.To, names); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the values that came with a request, whose own they were.
func (h *Host) forget(request actor.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), relayTime)
	defer cancel()
	if err := h.Store.Env.Remove(ctx, request); err != nil {
		h.Log.Warn().Err(err).Msg("the values of a request were not removed")
	}
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
