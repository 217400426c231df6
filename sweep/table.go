package sweep

import (
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// A table is all threads of a namespace, as small as can be: some 200 bytes each.
type table struct {
	rows  []row
	at    map[actor.ID]int32    // where a thread's row is
	roots map[actor.ID]actor.ID // each root once, however many threads name it
}

type row struct {
	id, parent, root actor.ID
	rev              uint64 // of the registry entry
	updated          int64
	old              bool // terminated, and for long
	stays            bool // it, or a thread below it
	busy             bool
}

func newTable() *table { return &table{at: map[actor.ID]int32{}, roots: map[actor.ID]actor.ID{}} }

// add notes what the registry says of a thread; what was noted of it before is forgotten.
func (t *table) add(e store.Entry, updated int64, old bool) {
	root := t.root(e.Root)
	parent := e.Parent
	if parent == root {
		parent = root
	}
	r := row{id: e.Child, parent: parent, root: root, rev: e.Rev, updated: updated, old: old}
	if at, ok := t.at[e.Child]; ok {
		t.rows[at] = r
		return
	}
	t.at[e.Child] = int32(len(t.rows))
	t.rows = append(t.rows, r)
}

// root notes a root, and gives it as it was noted first.
func (t *table) root(id actor.ID) actor.ID {
	root, ok := t.roots[id]
	if !ok {
		root = id
		t.roots[root] = root
	}
	return root
}

// stay keeps a thread and all above it.
func (t *table) stay(at int32) {
	for ok := true; ok && !t.rows[at].stays; at, ok = t.above(at) {
		t.rows[at].stays = true
	}
}

func (t *table) above(at int32) (parent int32, ok bool) {
	parent, ok = t.at[t.rows[at].parent]
	return parent, ok && parent != at
}

// generations gives the rows that can go, those first that have most threads above them: who is below another comes in
// an earlier generation.
func (t *table) generations() [][]int32 {
	for at := range t.rows {
		if !t.rows[at].old {
			t.stay(int32(at))
		}
	}
	var byDepth [][]int32
	for at := range t.rows {
		if t.rows[at].stays {
			continue
		}
		depth := 0
		for up, ok := t.above(int32(at)); ok && depth < len(t.rows); up, ok = t.above(up) {
			depth++
		}
		for len(byDepth) <= depth {
			byDepth = append(byDepth, nil)
		}
		byDepth[depth] = append(byDepth[depth], int32(at))
	}
	for i, j := 0, len(byDepth)-1; i < j; i, j = i+1, j-1 {
		byDepth[i], byDepth[j] = byDepth[j], byDepth[i]
	}
	return byDepth
}

// kept counts the threads that are old enough, but for those below them.
func (t *table) kept() int {
	n := 0
	for i := range t.rows {
		if r := &t.rows[i]; r.old && r.stays && !r.busy {
			n++
		}
	}
	return n
}
