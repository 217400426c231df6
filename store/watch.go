package store

import (
	"context"
	"errors"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// Watch tells fn every entry of a tree, or of all trees when root is "", and then every change, one
// after the other and in the order of their revisions, until ctx ends; then it returns the cause. A
// deleted entry has no Data. Of an entry that changes quickly some revisions may be left out, never
// the last.
//
// When the server restarts, its leader changes or the connection is lost, Watch begins again within
// about two seconds and tells everything from the start: an entry may come again, with a revision
// that fn has seen or with an older one. A server that is away, or a bucket that is not there yet,
// is waited for.
func (r *Registry) Watch(ctx context.Context, root actor.ID, fn func(e Entry, deleted bool)) error {
	filter := ">"
	if root != "" {
		filter = subjects.RegistryTree(root)
	}
	tell := func(m stored, _ uint64) error {
		e, ok := r.entry(m)
		if m.marker {
			e.Data = nil
		}
		if ok {
			fn(e, m.marker)
		}
		return nil
	}
	for {
		err := r.kv.follow(ctx, scan{r.kv.subject(filter), 1, everything, smallMessages}, true, tell)
		if ctx.Err() != nil {
			return fault("store.Registry.Watch", root, context.Cause(ctx))
		}
		if !errors.Is(err, errBroken) {
			return fault("store.Registry.Watch", root, err)
		}
		pause(ctx, retryPause)
	}
}
