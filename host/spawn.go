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
	if len(x.ids) == 0 {
		x.refuse(&actor.Error{Kind: actor.RuntimeError, Err: errors.New("no id was at hand")})
		return
	}
	id := x.ids[0]
	x.ids = x.ids[1:]
	x.head.Born++
	birth := agent.Birth{
		Lineage: actor.Lineage{
			ID:        id,
			Ancestors: append(slices.Clone(parent.Ancestors), parent.ID),
			Outside:   parent.Outside,
		},
		Order:     x.head.Born,
		CreatedAt: x.now,
		Config:    s.Config,
	}
	x.live(&member{Lineage: birth.Lineage})
	x.effect(actor.Effect{Kind: actor.EffectBirth, To: actor.Address{ID: id}, Body: agent.Pack(&birth)})
	x.reply(&a2e.SpawnResp{Envelope: x.around(), SubagentID: id, Status: a2e.Ready}, true)
	x.event(id, "spawned", spawned{s.Config.Name, a2e.Ready, parent.ID, x.head.Root, birth.Lineage.Depth()})
}

// spawned is the content of the event spawned.
type spawned struct {
	Name   string     `json:"name"`
	Status a2e.Status `json:"status"`
	Parent actor.ID   `json:"parent_agent_id"`
	Root   actor.ID   `json:"root_agent_id"`
	Depth  int        `json:"depth"`
}

func (x *treeTurn) event(id actor.ID, name string, content any) {
	data, err := json.Marshal(content)
	if err != nil {
		panic("host: event " + name + ": " + err.Error())
	}
	x.effect(actor.Effect{Kind: actor.EffectEvent, To: actor.Address{ID: id}, Name: name, Body: data})
}

// mayspawn checks, in this order: the parent, the claimed root, the parent's state, depth, quota.
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
	if depth := parent.Depth() + 1; depth > x.limits.MaxDepth {
		return parent, &actor.Error{ID: parent.ID, Kind: actor.DepthExceeded, Err: fmt.Errorf("depth %d is over the limit of %d: %s", depth, x.limits.MaxDepth, chain(parent.Lineage))}
	}
	if len(x.members) >= x.limits.MaxLive {
		return parent, &actor.Error{ID: x.head.Root, Kind: actor.QuotaExceeded, Err: fmt.Errorf("the tree has %d live subagents, the most it may", len(x.members))}
	}
	return parent, nil
}

// chain spells a thread's ancestry, the root first.
func chain(l actor.Lineage) string {
	ids := make([]string, 0, len(l.Ancestors)+1)
	for _, a := range l.Ancestors {
		ids = append(ids, string(a))
	}
	return strings.Join(append(ids, string(l.ID)), " > ")
}
