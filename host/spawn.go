package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

func cmpID(a, b actor.ID) int { return cmp.Compare(a, b) }

// IsThread reports whether id is of the form that generated ids have; such an id is never that of an
// agent outside.
func IsThread(id actor.ID) bool {
	return strings.HasPrefix(string(id), "sub_")
}

// known finds a thread in the table, else among what was looked up. An agent outside is found when it
// is the root.
func (x *treeTurn) known(id actor.ID) actor.Known {
	if m := x.members[id]; m != nil {
		return actor.Known{Lineage: m.Lineage, Found: true}
	}
	if k, ok := x.in.Threads[id]; ok && k.Found && k.Root() == x.head.Root {
		return k
	}
	if id == x.head.Root && !IsThread(id) {
		return actor.Known{Lineage: actor.Lineage{ID: id, Outside: true}, Found: true}
	}
	return actor.Known{}
}

// spawn makes a new thread: its registry entry and its birth go out before the answer.
func (x *treeTurn) spawn(s *agent.Spawn) {
	parent, err := x.mayspawn(s)
	if err != nil {
		x.refuse(err)
		return
	}
	if len(s.Refusals) > 0 {
		x.refuseFor(&s.Refusals[0])
		return
	}
	n := 1 + len(s.Plan)
	if len(x.ids) < n {
		x.refuse(&actor.Error{Kind: actor.RuntimeError, Err: errors.New("no id was at hand")})
		return
	}
	ids := x.ids[:n]
	x.ids = x.ids[n:]
	births := x.births(parent.Lineage, s, ids)
	for i := range births {
		b := &births[i]
		x.live(&member{Lineage: b.Lineage})
		x.effect(actor.Effect{Kind: actor.EffectBirth, To: actor.Address{ID: b.Lineage.ID}, Body: agent.Pack(b)})
	}
	x.made(s, ids)
}

// births gives what is born: what was asked for, and what is spawned with it (S1 §3.2).
func (x *treeTurn) births(parent actor.Lineage, s *agent.Spawn, ids []actor.ID) []agent.Birth {
	births := make([]agent.Birth, 0, len(ids))
	bear := func(parent actor.Lineage, config a2e.SubagentConfig, c *agent.Composition) {
		x.head.Born++
		l := actor.Lineage{
			ID:        ids[len(births)],
			Ancestors: append(slices.Clone(parent.Ancestors), parent.ID),
			Outside:   parent.Outside,
		}
		births = append(births, agent.Birth{
			Lineage: l, Order: x.head.Born, CreatedAt: x.now, Config: config, Composition: c, Budgets: x.openAccount(l, config.Budget),
		})
	}
	bear(parent, s.Config, s.Composition)
	births[0].Snapshot = s.Snapshot
	for i := range s.Plan {
		p := &s.Plan[i]
		mother := &births[p.Parent+1]
		bear(mother.Lineage, p.Config, &p.Composition)
		mother.Composition.Children = append(mother.Composition.Children, agent.Instance{
			ID: ids[i+1], Relationship: p.Composition.RelationshipName(), Owner: p.Composition.Owner,
		})
	}
	return births
}

// made answers a spawn.
func (x *treeTurn) made(s *agent.Spawn, ids []actor.ID) {
	if s.Composition == nil || x.env.Asker.Call == "" {
		x.reply(&a2e.SpawnResp{Envelope: x.around(), SubagentID: ids[0], Status: a2e.Ready, Children: ids[1:]}, true)
		return
	}
	x.answerCall(&agent.Answer{Created: &agent.Created{
		ID: ids[0], Relationship: s.Composition.RelationshipName(), Owner: s.Composition.Owner, Children: ids[1:],
	}})
}

func (x *treeTurn) answerCall(a *agent.Answer) {
	a.Call = x.env.Asker.Call
	x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: x.env.From}, Lane: actor.LaneCtl, Name: agent.KindAnswer, Body: agent.Pack(a)})
}

// refuseFor answers with a check of the sender's that failed.
func (x *treeTurn) refuseFor(r *agent.Refusal) {
	if x.env.Asker.Call != "" {
		x.answerCall(&agent.Answer{IsError: true, Content: actor.Value{JSON: r.JSON()}})
		return
	}
	x.refuse(&actor.Error{Kind: r.Kind, Field: r.Field, Err: errors.New(r.Message)})
}

// deepest is how deep the deepest thread would stand.
func deepest(parent actor.Lineage, plan []agent.Planned) int {
	depths := []int{parent.Depth() + 1}
	most := depths[0]
	for i := range plan {
		d := depths[plan[i].Parent+1] + 1
		depths, most = append(depths, d), max(most, d)
	}
	return most
}

// spawnedEvent is the event that a birth makes by itself: all that it tells stands in the birth, and is not recorded again.
const spawnedEvent = "spawned"

// spawned is the content of the event spawned.
type spawned struct {
	Name   string     `json:"name"`
	Status a2e.Status `json:"status"`
	Parent actor.ID   `json:"parent_agent_id"`
	Root   actor.ID   `json:"root_agent_id"`
	Depth  int        `json:"depth"`
}

func spawnedContent(t *agent.Thread) []byte {
	l := t.Lineage()
	return eventContent(spawnedEvent, spawned{t.Config().Name, a2e.Ready, l.Parent(), l.Root(), l.Depth()})
}

func eventContent(name string, content any) []byte {
	data, err := json.Marshal(content)
	if err != nil {
		panic("host: event " + name + ": " + err.Error())
	}
	return data
}

func (x *treeTurn) event(id actor.ID, name string, content any) {
	x.effect(actor.Effect{Kind: actor.EffectEvent, To: actor.Address{ID: id}, Name: name, Body: eventContent(name, content)})
}

// mayspawn checks, in this order: the parent, the claimed root, the parent's state, depth, quota, budgets.
func (x *treeTurn) mayspawn(s *agent.Spawn) (actor.Known, *actor.Error) {
	caller := x.known(x.env.From)
	parent := caller
	if s.Parent != "" {
		parent = x.known(s.Parent)
	}
	switch {
	case !caller.Found:
		return parent, &actor.Error{ID: x.env.From, Kind: actor.NotFound, Err: errors.New("no such agent")}
	case !parent.Found || !parent.Under(caller.ID):
		return parent, &actor.Error{ID: s.Parent, Kind: actor.NotFound, Field: "parent_agent_id", Err: fmt.Errorf("neither %s nor a subagent of it", x.env.From)}
	case s.Root != "" && s.Root != x.head.Root:
		return parent, &actor.Error{ID: s.Root, Kind: actor.SchemaViolation, Field: "root_agent_id", Err: fmt.Errorf("the root is %s", x.head.Root)}
	case parent.Terminated:
		return parent, &actor.Error{ID: parent.ID, Kind: actor.ThreadTerminated, Field: "parent_agent_id", Err: errors.New("the parent is terminated")}
	}
	for _, c := range x.head.Cascades {
		if parent.Under(c.Target) {
			return parent, &actor.Error{ID: parent.ID, Kind: actor.Conflict, Err: fmt.Errorf("%s is being stopped", c.Target)}
		}
	}
	if depth := deepest(parent.Lineage, s.Plan); depth > x.limits.MaxDepth {
		return parent, &actor.Error{ID: parent.ID, Kind: actor.DepthExceeded, Err: fmt.Errorf("depth %d is over the limit of %d: %s", depth, x.limits.MaxDepth, chain(parent.Lineage))}
	}
	if len(x.members)+len(s.Plan) >= x.limits.MaxLive {
		return parent, &actor.Error{ID: x.head.Root, Kind: actor.QuotaExceeded, Err: fmt.Errorf("the tree has %d live subagents, the most it may", len(x.members))}
	}
	return parent, x.budgeted(parent.Lineage)
}

// chain spells a thread's ancestry, the root first.
func chain(l actor.Lineage) string {
	ids := make([]string, 0, len(l.Ancestors)+1)
	for _, a := range l.Ancestors {
		ids = append(ids, string(a))
	}
	return strings.Join(append(ids, string(l.ID)), " > ")
}
