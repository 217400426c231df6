package host

import (
	"slices"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// delta encodes what changed in the table; now and then it is, or goes on with, the full table.
func (x *treeTurn) delta() []byte {
	if !x.writing && (x.records >= fullEvery || x.bytes > max(fullAfter, rowBytes*(len(x.members)+len(x.accounts)))) {
		x.writing, x.out.Full = true, true
		x.rest = x.rows()
		x.records, x.bytes = 0, 0
	}
	if x.writing {
		for size := 0; len(x.rest) > 0 && size < fullPart; x.rest = x.rest[1:] {
			size += x.rewrite(x.rest[0])
		}
		if len(x.rest) == 0 {
			x.writing, x.out.Rebase = false, true
		}
	}
	x.records++
	changes := x.changes()
	if len(changes) == 0 {
		return nil
	}
	data := agent.Pack(changes)
	x.bytes += len(data)
	return data
}

// rows lists the whole table.
func (t *Tree) rows() []row {
	rows := make([]row, 0, len(t.members)+len(t.accounts))
	for id := range t.members {
		rows = append(rows, row{id, false})
	}
	for id := range t.accounts {
		rows = append(rows, row{id, true})
	}
	slices.SortFunc(rows, cmpRows)
	return rows
}

func cmpRows(a, b row) int {
	switch c := cmpID(a.id, b.id); {
	case c != 0 || a.account == b.account:
		return c
	case b.account:
		return -1
	}
	return 1
}

// rewrite has a row written, if it is still there, and gives about how many bytes it takes.
func (x *treeTurn) rewrite(r row) (size int) {
	var l actor.Lineage
	if a := x.accounts[r.id]; r.account && a != nil {
		x.touchedAccounts[r.id] = true
		l = a.Lineage
	} else if m := x.members[r.id]; !r.account && m != nil {
		x.touched[r.id] = true
		l = m.Lineage
	} else {
		return 0
	}
	size = rowBytes
	for _, a := range l.Ancestors {
		size += len(a)
	}
	return size
}

// changes gives the rows that changed, in an order that does not depend on chance.
func (x *treeTurn) changes() []member {
	changes := make([]member, 0, len(x.touched)+len(x.touchedAccounts))
	for id := range x.touched {
		if m := x.members[id]; m != nil {
			changes = append(changes, *m)
		} else {
			changes = append(changes, member{Lineage: actor.Lineage{ID: id}, Gone: true})
		}
	}
	for id := range x.touchedAccounts {
		c := member{Lineage: actor.Lineage{ID: id}, Account: x.accounts[id]}
		if c.Account == nil {
			c.Account, c.Gone = &account{}, true
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b member) int {
		return cmpRows(row{a.Lineage.ID, a.Account != nil}, row{b.Lineage.ID, b.Account != nil})
	})
	return changes
}
