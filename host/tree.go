package host

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// Limits bound a tree.
type Limits struct {
	MaxDepth int // the largest depth allowed; the root has 0
	MaxLive  int // live subagents in a tree, checked at spawn
}

// The table of a tree is written whole now and then, in parts, so that activation reads few records:
// once the changes since the last time are more than the table itself, and more than fullAfter.
const (
	fullAfter = 128 << 10 // bytes of changes
	fullPart  = 192 << 10 // bytes of table in one record
	fullEvery = 1024      // records, however small
	rowBytes  = 64        // about what a member takes
)

// A Tree is the state machine of a host actor: the single writer of what concerns a tree as a whole. It
// knows the live threads only; anything else is looked up for it. It implements [actor.Machine].
type Tree struct {
	limits  Limits
	head    treeHead
	members map[actor.ID]*member

	accounts map[actor.ID]*account // of the threads with a budget
	held     map[actor.ID]held     // of these, what the claims of members hold
	waiting  map[actor.ID]bool     // members whose claims wait

	unsettled bool // some that wait may have an answer

	// Since the last full table, in memory only.
	records int
	bytes   int
	rest    []row // that the full table being written still lacks
	writing bool

	rounds map[uint64][]actor.ID // of cascades in their first round: who is still to be sent a stop
}

type treeHead struct {
	Root     actor.ID
	Born     uint64 // threads spawned so far
	Last     uint64 // the last cascade's number
	Cascades []cascade
	Loose    []loose
	Jobs     uint64
	Merges   []merging
	Claims   uint64 // asked for so far
}

// A member is a live thread: it is READY or has a session open.
type member struct {
	Lineage actor.Lineage
	Session uint64   // the last that the host heard of
	Gone    bool     // in deltas: the table no longer has it
	Claim   *claim   // on budgets, or nil
	Account *account // in deltas: the row is of this account, not of a member
}

// A row is of a member or of an account.
type row struct {
	id      actor.ID
	account bool
}

// NewTree gives the host actor of root's tree before its first record.
func NewTree(root actor.ID, limits Limits) *Tree {
	return &Tree{
		limits: limits, head: treeHead{Root: root}, members: map[actor.ID]*member{}, rounds: map[uint64][]actor.ID{},
		accounts: map[actor.ID]*account{}, held: map[actor.ID]held{}, waiting: map[actor.ID]bool{},
	}
}

// Apply restores the tree from its records, oldest first, beginning with the last one's base.
func (t *Tree) Apply(r *actor.Record) error {
	var head treeHead
	if err := agent.Unpack(r.Head, &head); err != nil {
		return err
	}
	var changes []member
	if len(r.Delta) > 0 {
		if err := agent.Unpack(r.Delta, &changes); err != nil {
			return err
		}
	}
	t.head = head
	for i := range changes {
		switch m := &changes[i]; {
		case m.Account != nil && m.Gone:
			delete(t.accounts, m.Lineage.ID)
		case m.Account != nil:
			t.accounts[m.Lineage.ID] = m.Account
		case m.Gone:
			t.setMember(m.Lineage.ID, nil)
		default:
			t.setMember(m.Lineage.ID, m)
		}
	}
	t.unsettled = len(t.waiting) > 0
	t.records++
	t.bytes += len(r.Delta)
	return nil
}

// Head encodes the counters, cascades and merges under way.
func (t *Tree) Head() ([]byte, error) { return agent.Pack(&t.head), nil }

// Outstanding lists the merges under way.
func (t *Tree) Outstanding() ([]actor.Job, []actor.Timer) {
	var jobs []actor.Job
	for _, m := range t.head.Merges {
		if m.Body != nil { // else another try's job answers this one
			jobs = append(jobs, actor.Job{N: m.N, Kind: agent.JobMerge, Body: m.Body})
		}
	}
	return jobs, nil
}

// Wake is never.
func (t *Tree) Wake() time.Time { return time.Time{} }

// RegistryEntry is nothing: a host actor is not in the registry.
func (t *Tree) RegistryEntry(uint64) ([]byte, actor.Lineage) { return nil, actor.Lineage{} }

// Needs asks for an id for each spawn, for the threads that requests name and the table lacks or may lack
// once it has the batch's notices, and for the whole tree when it is to be terminated.
func (t *Tree) Needs(batch []actor.Envelope) actor.Needs {
	var n actor.Needs
	leaving := map[actor.ID]bool{}
	for i := range batch {
		if batch[i].Kind == agent.KindNotice {
			leaving[batch[i].From] = true
		}
	}
	want := func(id actor.ID) {
		if id != t.head.Root && (t.members[id] == nil || leaving[id]) && !slices.Contains(n.Threads, id) {
			n.Threads = append(n.Threads, id)
		}
	}
	for _, c := range t.head.Cascades {
		_, known := t.rounds[c.N]
		n.Tree = n.Tree || c.First && c.Terminate && !known
	}
	for i := range batch {
		env := &batch[i]
		switch env.Kind {
		case agent.KindSpawn:
			n.IDs++
			var s agent.Spawn
			if agent.Unpack(env.Body, &s) == nil {
				n.IDs += len(s.Plan)
				want(env.From)
				if s.Parent != "" {
					want(s.Parent)
				}
			}
		case agent.KindCancel, agent.KindTerminate:
			var target agent.Target
			if agent.Unpack(env.Body, &target) == nil {
				want(target.ID)
			}
			n.Tree = n.Tree || env.Kind == agent.KindTerminate
		}
	}
	return n
}

// A treeTurn is one decision under way.
type treeTurn struct {
	*Tree
	in      *actor.Input
	now     int64
	env     *actor.Envelope
	ids     []actor.ID
	out     actor.Turn
	touched map[actor.ID]bool

	touchedAccounts map[actor.ID]bool
}

// Decide takes the envelopes in order, then goes on with the cascades.
func (t *Tree) Decide(in actor.Input) actor.Turn {
	x := &treeTurn{Tree: t, in: &in, now: in.Now.UnixMicro(), ids: in.IDs, touched: map[actor.ID]bool{}, touchedAccounts: map[actor.ID]bool{}}
	for i := range in.Batch {
		x.env = &in.Batch[i]
		if err := x.take(); err != nil {
			x.effect(agent.DeadEffect(actor.Address{ID: t.head.Root, Host: true}, err.Error(), x.env))
		}
	}
	x.env = nil
	x.goOn()
	x.grant()
	x.out.Delta = x.delta()
	return x.out
}

// Fail does nothing: what can't be decided is in the dead letters, and no session is open here.
func (t *Tree) Fail(actor.Input, string) actor.Turn { return actor.Turn{} }

func (x *treeTurn) take() error {
	switch x.env.Kind {
	case agent.KindSpawn:
		return opening(x, x.spawn)
	case agent.KindCancel:
		return opening(x, func(b *agent.Target) { x.target(b, false) })
	case agent.KindTerminate:
		return opening(x, func(b *agent.Target) { x.target(b, true) })
	case agent.KindMerge:
		return opening(x, x.merge)
	case agent.KindNotice:
		return opening(x, x.notice)
	case agent.KindReserve:
		return opening(x, x.reserve)
	case agent.KindStopped:
		return opening(x, x.stopped)
	case agent.KindJob:
		return opening(x, x.merged)
	}
	return fmt.Errorf("a host takes no envelope of kind %q", x.env.Kind)
}

// opening unpacks the envelope's body for f.
func opening[B any](x *treeTurn, f func(*B)) error {
	var body B
	if err := agent.Unpack(x.env.Body, &body); err != nil {
		return err
	}
	f(&body)
	return nil
}

func (x *treeTurn) effect(e actor.Effect) { x.out.Effects = append(x.out.Effects, e) }

func (x *treeTurn) reply(msg a2e.Message, keep bool) { agent.Reply(&x.out, x.env, msg, keep) }

// around is what A2E puts around the answer to the current envelope.
func (x *treeTurn) around() a2e.Envelope { return agent.Around(x.env.Asker, x.in.Now) }

func (x *treeTurn) refuse(err *actor.Error) {
	x.reply(a2e.NewError(agent.RequestOf(x.env.Asker), x.in.Now, err), true) // a refusal is an answer: an earlier try may still be on its way
}

// A loose thread was given work by a session that ended before it heard whether the work was taken. The
// thread may open a session any moment; a cascade over the giver has to stop it as well.
type loose struct {
	ID    actor.ID
	Giver actor.Lineage
}

// maxLoose is how many loose threads are remembered; the oldest are forgotten first.
const maxLoose = 1024

// heard notes that a loose thread has spoken: from then on its notices tell of it.
func (x *treeTurn) heard(id actor.ID) {
	x.head.Loose = slices.DeleteFunc(x.head.Loose, func(l loose) bool { return l.ID == id })
}

// notice takes the word of a thread that a session was opened or ended.
func (x *treeTurn) notice(n *agent.Notice) {
	x.heard(n.Lineage.ID)
	for _, id := range n.Loose {
		x.head.Loose = append(x.head.Loose, loose{id, n.Lineage})
	}
	x.head.Loose = x.head.Loose[max(0, len(x.head.Loose)-maxLoose):]
	x.settle(n.Lineage.ID, &n.Settled)
	x.late(n.Lineage.ID, n.Late)
	m := x.members[n.Lineage.ID]
	if n.Open {
		x.live(&member{Lineage: n.Lineage, Session: n.Session})
	} else if m != nil && m.Session <= n.Session {
		x.closed(n.Lineage.ID)
	}
}

func (x *treeTurn) live(m *member) {
	x.setMember(m.Lineage.ID, m)
	x.touched[m.Lineage.ID] = true
}

func (x *treeTurn) closed(id actor.ID) {
	x.setMember(id, nil)
	x.touched[id] = true
}
