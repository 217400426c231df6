// Package sweep removes what a namespace no longer needs: threads that have been terminated for long, and blobs that
// nothing names any more. It is run by an operator, beside the hosts, and needs the rights of one.
//
//	s, err := sweep.New(sweep.Config{Store: st, Partitions: 8, Older: 30 * 24 * time.Hour})
//	report, err := s.Run(ctx)
//
// # What is removed
//
// A thread goes when it is terminated and has not changed since, by its registry entry and by its journal, and when all
// threads below it go before it. With it go its journal, files, memory space, scoped values, timers, and completions
// that lie in the mail. Its registry entry becomes a mark, so that its id can't come to life again; a later run removes
// marks that are as old. Whoever asks for a thread that was removed hears not_found; messages to it are dead letters.
//
// What others have heard from it stays: it is in their journals.
//
// The host of a tree writes a record for what concerns the tree, as long as the tree's root, which may be an agent
// outside, has children. Of these records those go that the host does not need to restore what it knows, once they are
// as old as the threads that go and at least [Grace]. An envelope to a host that is sent again after that time, by an
// owner that had not heard of its arrival, might be taken twice; a run refuses to touch hosts unless every partition
// has an owner that has renewed its lease, since the owners are who sends again. The host's journal goes as a whole with
// a root that is a thread and is removed.
//
// Blobs go when nothing names them that is still there, once they are a day old. See [store.Store.Mark].
//
// # Failure
//
// A run may end anywhere, and another goes on with what it left: a thread's entry in the registry, by which it is found,
// goes last. A thread whose last record may still have to be sent, by its partition's lease, stays until the next run.
// Errors are those of package store; the thread concerned is in them.
package sweep
