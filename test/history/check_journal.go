package history

import (
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
)

// checkJournals: cursors never go back, and no envelope is taken twice.
func (x *inspection) checkJournals() {
	for _, l := range x.inOrder() {
		x.checkJournal(actor.Address{ID: l.id}, l.records)
	}
	for id, records := range x.hosts {
		x.checkJournal(actor.Address{ID: id, Host: true}, records)
	}
}

func (x *inspection) checkJournal(a actor.Address, records []stored) {
	taken := map[actor.Taken]uint64{}
	var cursor actor.Cursor
	for _, r := range records {
		if r.Cursor.Ctl < cursor.Ctl || r.Cursor.Queue < cursor.Queue {
			x.violation("cursors never go back", "record %d of %s has %+v behind %+v", r.seq, a, r.Cursor, cursor)
		}
		cursor = r.Cursor
		for _, t := range r.Took {
			if before, twice := taken[t]; twice {
				x.violation("no envelope is taken twice", "%s took %s of %s in record %d and in %d", a, t.ID, t.From, before, r.seq)
			}
			if t.ID.J >= r.seq {
				x.violation("an envelope is sent before it is taken", "%s took %s of %s in record %d", a, t.ID, t.From, r.seq)
			}
			taken[t] = r.seq
		}
	}
}

// checkEnvelopes: everything that a record sends to an actor is taken by it, once.
func (x *inspection) checkEnvelopes() {
	took := map[actor.Address]map[actor.Taken]bool{}
	for _, r := range x.Journal {
		if took[r.of] == nil {
			took[r.of] = map[actor.Taken]bool{}
		}
		for _, t := range r.Took {
			took[r.of][t] = true
		}
	}
	for _, r := range x.Journal {
		for i, e := range r.Effects {
			if e.Kind != actor.EffectSend && e.Kind != actor.EffectNotice || took[e.To] == nil {
				continue // what is sent to nobody is bounced
			}
			t := actor.Taken{From: r.of.ID, ID: actor.EnvelopeID{J: r.seq, N: uint32(i)}}
			if !took[e.To][t] {
				x.violation("what was sent arrives", "%s sent %s %s to %s in record %d at %s, and it was never taken", r.of, e.Name, t.ID, e.To, r.seq, r.time())
			}
		}
	}
}

// checkOrder: what one actor sends to another on one lane is taken in the order in which it was sent.
func (x *inspection) checkOrder() {
	type route struct {
		from, to actor.Address
		lane     actor.Lane
	}
	type sender struct {
		from actor.ID
		id   actor.EnvelopeID
	}
	sent := map[sender]route{}
	for _, r := range x.Journal {
		for i, e := range r.Effects {
			if e.Kind == actor.EffectSend {
				sent[sender{r.of.ID, actor.EnvelopeID{J: r.seq, N: uint32(i)}}] = route{r.of, e.To, e.Lane}
			}
		}
	}
	latest := map[route]actor.EnvelopeID{}
	for _, r := range x.Journal {
		for _, t := range r.Took {
			way, ok := sent[sender{t.From, t.ID}]
			if !ok || way.to != r.of {
				continue
			}
			before := latest[way]
			if t.ID.J < before.J || t.ID.J == before.J && t.ID.N < before.N {
				x.violation("an inbox keeps the order", "%s took %s of %s in record %d, behind %s (lane %s)", r.of, t.ID, t.From, r.seq, before, way.lane)
			}
			latest[way] = t.ID
		}
	}
}

// checkDepth: no thread stands deeper than threads may, and each below the one that its place names.
func (x *inspection) checkDepth() {
	for _, l := range x.inOrder() {
		if d := l.birth.Lineage.Depth(); d > host.DefaultMaxDepth {
			x.violation("no thread is deeper than it may be", "%s stands at depth %d of %d", l.id, d, host.DefaultMaxDepth)
		}
	}
}

// checkTrees: a host's table has the live threads of its tree and no others; no spawn went past the cap;
// nothing that it carries out is under way for ever; below a terminated thread all is terminated.
func (x *inspection) checkTrees() {
	live := map[actor.ID]map[actor.ID]bool{}
	for _, l := range x.inOrder() {
		root := l.birth.Lineage.Root()
		if status := l.last().Status(); !status.Closed() {
			if live[root] == nil {
				live[root] = map[actor.ID]bool{}
			}
			live[root][l.id] = true
		}
		for _, id := range l.birth.Lineage.Ancestors {
			if above := x.lives[id]; above != nil && above.last().Terminated() && !l.last().Terminated() {
				x.violation("below a terminated thread all is terminated", "%s is %s, %s above it is terminated", l.id, l.last().Status(), id)
			}
		}
	}
	roots := map[actor.ID]bool{}
	for root := range x.hosts {
		roots[root] = true
	}
	for root := range live {
		roots[root] = true
	}
	for root := range roots {
		tree := x.replay(root, x.hosts[root])
		members := tree.Live()
		for _, id := range members {
			if !live[root][id] {
				x.violation("what has ended is not counted", "the host of %s counts %s, which is %s", root, id, x.status(id))
			}
		}
		for id := range live[root] {
			if !slices.Contains(members, id) {
				x.violation("what lives is counted", "the host of %s does not count %s, which is %s", root, id, x.status(id))
			}
		}
		if n := tree.UnderWay(); n > 0 {
			x.violation("cascades and merges end", "the host of %s carries out %d of them for ever", root, n)
		}
	}
}

func (x *inspection) status(id actor.ID) a2e.Status {
	if l := x.lives[id]; l != nil {
		return l.last().Status()
	}
	return "without a journal"
}

// replay restores a host from its first record on, and looks at the cap after every record that bears.
func (x *inspection) replay(root actor.ID, records []stored) *host.Tree {
	tree := host.NewTree(root, host.Limits{MaxDepth: host.DefaultMaxDepth, MaxLive: x.MaxLive})
	for _, r := range records {
		before := tree.Live()
		if err := tree.Apply(&r.Record); err != nil {
			x.violation("everything can be read", "record %d of the host of %s: %v", r.seq, root, err)
			return tree
		}
		births, came := 0, 0
		for _, e := range r.Effects {
			if e.Kind == actor.EffectBirth {
				births++
			}
		}
		now := tree.Live()
		for _, id := range now {
			if !slices.Contains(before, id) {
				came++
			}
		}
		// A closed thread that is given work counts again, whatever the cap is.
		if births > 0 && len(now)-(came-births) > x.MaxLive {
			x.violation("no spawn goes past the cap", "the host of %s has %d members after record %d, which bears %d", root, len(now), r.seq, births)
		}
	}
	return tree
}

func (r stored) time() string { return clock(timeOf(r.At)) }
