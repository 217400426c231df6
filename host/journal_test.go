package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// A journal keeps the records of a tree as its actor would, and restores another tree from them.
type journal struct {
	tree    *Tree
	root    actor.ID
	limits  Limits
	records []actor.Record
	base    uint64 // of the next record, as are sequences: from 1
	full    uint64
	every   uint64 // compare after so many records, and when the base changes; 0: after each
}

func newJournal(root actor.ID, limits Limits) journal {
	return journal{tree: NewTree(root, limits), root: root, limits: limits}
}

// record appends a turn. It is an error when the tree that the records restore is found to be another.
func (j *journal) record(turn *actor.Turn) error {
	head, err := j.tree.Head()
	if err != nil {
		return err
	}
	seq, base := uint64(len(j.records)+1), j.base
	if turn.Rebase {
		if base = j.full; turn.Full {
			base = 0
		}
	}
	j.records = append(j.records, actor.Record{Base: base, Head: head, Delta: turn.Delta})
	if turn.Full {
		j.full = seq
	}
	if j.base = base; base == 0 {
		j.base = seq
	}
	if j.every > 1 && seq%j.every != 0 && !turn.Rebase {
		return nil
	}
	restored, err := j.restore()
	if err != nil {
		return err
	}
	return same(j.tree, restored)
}

func (j *journal) restore() (*Tree, error) {
	tree := NewTree(j.root, j.limits)
	last := len(j.records)
	from := last
	if base := j.records[last-1].Base; base != 0 {
		from = int(base)
	}
	for i := from; i <= last; i++ {
		// What is read was written: pack and unpack.
		r := unpacked[actor.Record](agent.Pack(&j.records[i-1]))
		if err := tree.Apply(&r); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func same(live, restored *Tree) error {
	if a, b := fmt.Sprintf("%+v", live.head), fmt.Sprintf("%+v", restored.head); a != b {
		return fmt.Errorf("the head that was restored is another\nlive     %s\nrestored %s", a, b)
	}
	if a, b := books(live), books(restored); a != b {
		return fmt.Errorf("the budgets that were restored are others\nlive     %s\nrestored %s", a, b)
	}
	equal := func(a, b *member) bool {
		return a.Session == b.Session && a.Gone == b.Gone && a.Lineage.ID == b.Lineage.ID &&
			a.Lineage.Outside == b.Lineage.Outside && slices.Equal(a.Lineage.Ancestors, b.Lineage.Ancestors)
	}
	if !maps.EqualFunc(live.members, restored.members, equal) {
		return fmt.Errorf("the table that was restored is another\nlive     %s\nrestored %s", table(live), table(restored))
	}
	return nil
}

// books are the budgets of a tree, and what is held and asked for.
func books(t *Tree) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(t.accounts)) {
		fmt.Fprintf(&b, "%+v held %+v; ", *t.accounts[id], t.held[id])
	}
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		if c := t.members[id].Claim; c != nil {
			fmt.Fprintf(&b, "%s %+v; ", id, *c)
		}
	}
	return fmt.Sprint(b.String(), slices.Sorted(maps.Keys(t.waiting)), len(t.held))
}

func table(t *Tree) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		fmt.Fprintf(&b, "%+v ", *t.members[id])
	}
	return b.String()
}
