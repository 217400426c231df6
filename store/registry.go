package store

import (
	"context"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// An Entry is what the registry says of one subagent. The parent of a root is "". Rev is the
// revision that a Put which replaces the entry must name.
type Entry struct {
	Root, Parent, Child actor.ID
	Rev                 uint64
	Data                []byte
}

// A Registry holds an entry for each subagent of a namespace.
type Registry struct{ kv bucket }

// Put writes the entry of a child whose present revision is rev; 0 means that there must be none.
// The sequence that Wait gives is the new revision. Conflict means that the entry has another.
func (r *Registry) Put(root, parent, child actor.ID, rev uint64, data []byte) actor.Ack {
	return r.kv.put("store.Registry.Put", child, subjects.RegistryKey(root, parent, child), data, expect(rev))
}

// Get reads an entry from the leader. NotFound means that there is none; if it was deleted, the
// Entry that comes with the error has the revision that a Put must name.
func (r *Registry) Get(ctx context.Context, root, parent, child actor.ID) (Entry, error) {
	const op = "store.Registry.Get"
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	m, err := r.kv.get(ctx, query{Last: r.kv.subject(subjects.RegistryKey(root, parent, child))})
	if err != nil {
		return Entry{}, fault(op, child, err)
	}
	e := Entry{Root: root, Parent: parent, Child: child, Rev: m.Seq}
	if m.deleted() {
		return e, fault(op, child, errNoMessage)
	}
	e.Data = m.Data
	return e, nil
}

// Remove takes an entry away whose present revision is rev. A mark stays in its place, so that nobody can make one for
// the same child; Forget removes it. Conflict means that the entry has another revision.
func (r *Registry) Remove(root, parent, child actor.ID, rev uint64) actor.Ack {
	header := expect(rev)
	header.Set(operationHeader, operationDelete)
	return r.kv.put("store.Registry.Remove", child, subjects.RegistryKey(root, parent, child), nil, header)
}

// Forget removes the mark that Remove has left, which has the revision rev. An entry that was put since stays.
func (r *Registry) Forget(ctx context.Context, root, parent, child actor.ID, rev uint64) error {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	key := r.kv.subject(subjects.RegistryKey(root, parent, child))
	return fault("store.Registry.Forget", child, r.kv.purge(ctx, purge{Filter: key, Below: rev + 1}))
}

// Each calls fn with every entry of the namespace, one at a time, in the order of their last write, and stops at fn's
// error, which it returns as it is. An entry that is written meanwhile comes again. removed says when an entry was taken
// away; then it has no data. Without a deadline in ctx it takes as long as it takes.
func (r *Registry) Each(ctx context.Context, fn func(e Entry, removed time.Time) error) error {
	var stop error
	err := r.kv.scan(ctx, scan{r.kv.subject(">"), 1, everything, smallMessages}, func(m stored) error {
		e, ok := r.entry(m)
		if !ok {
			return nil
		}
		var removed time.Time
		if m.deleted() {
			removed = m.Time
		}
		stop = fn(e, removed)
		return stop
	})
	if stop != nil {
		return stop
	}
	return fault("store.Registry.Each", "", err)
}

// Tree lists the entries of a whole tree, in the order of their last write. Everything that was
// acknowledged before the call is in it; what is written meanwhile may be.
func (r *Registry) Tree(ctx context.Context, root actor.ID) ([]Entry, error) {
	return r.list(ctx, "store.Registry.Tree", root, subjects.RegistryTree(root))
}

// Children lists the entries of one parent's children, as Tree does.
func (r *Registry) Children(ctx context.Context, root, parent actor.ID) ([]Entry, error) {
	return r.list(ctx, "store.Registry.Children", parent, subjects.RegistryChildren(root, parent))
}

func (r *Registry) list(ctx context.Context, op string, id actor.ID, filter string) ([]Entry, error) {
	found, err := r.kv.list(ctx, filter)
	if err != nil {
		return nil, fault(op, id, err)
	}
	entries := make([]Entry, 0, len(found))
	for _, m := range found {
		if e, ok := r.entry(m); ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// entry reads a message of the bucket. One that somebody has put under another kind of key is none.
func (r *Registry) entry(m stored) (e Entry, ok bool) {
	root, parent, child, err := subjects.ParseRegistryKey(r.kv.key(m.Subject))
	return Entry{Root: root, Parent: parent, Child: child, Rev: m.Seq, Data: m.Data}, err == nil
}
