package agent

import (
	"encoding/json"

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
	Attachments  []string
	Key          string   // of the call
	Extra        actor.ID // whose scoped variables count besides, or ""
	Message      []byte   // JSON, that the call has beside the arguments; or nothing
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

// A grant is a [Grant] to a thread that is not born yet. From is its parent's place in the plan, counted from 1; 0
// is the child, and -1 the thread itself.
type grant struct {
	From  int
	Names []string
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
