package store

import (
	"context"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// purgeBite is how many messages one purge removes at most: publishers wait meanwhile.
const purgeBite = 5000

// A purge says what is to be removed: what matches Filter, below the sequence Below if it is set, but for the newest
// Keep of it. The server takes one of the two.
type purge struct {
	Filter string `json:"filter"`
	Below  uint64 `json:"seq,omitempty"`
	Keep   int    `json:"keep,omitempty"`
}

// purge removes messages. It may be done again.
func (s stream) purge(ctx context.Context, p purge) error {
	_, err := s.ask(ctx, "STREAM.PURGE.", p)
	return err
}

// purgeSubject removes all messages of one subject, the oldest first.
func (s stream) purgeSubject(ctx context.Context, subject string) error {
	a, err := s.ask(ctx, "STREAM.INFO.", struct {
		Filter string `json:"subjects_filter"`
	}{subject})
	if err != nil {
		return err
	}
	for keep := a.State.Subjects[subject] - purgeBite; keep > 0; keep -= purgeBite {
		if err := s.purge(ctx, purge{Filter: subject, Keep: keep}); err != nil {
			return err
		}
	}
	return s.purge(ctx, purge{Filter: subject})
}

// forget removes a key from a bucket without a trace.
func (b bucket) forget(ctx context.Context, key string) error {
	return b.purge(ctx, purge{Filter: b.subject(key)})
}

// Remove removes the whole journal of a, the oldest records first. An Append that names a record of it is then a
// Conflict, and so is whatever else its owner still wants to record.
func (j *Journal) Remove(ctx context.Context, a actor.Address) error {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	return fault("store.Journal.Remove", a.ID, j.log.purgeSubject(ctx, j.names.Journal(a)))
}

// RemoveThread removes what is kept of a thread beside its journal and its entry in the registry: files, memory space,
// scoped values, requests for variables, timers, and completions that lie in the mail. Blobs stay: others may have
// them too. What it has removed is gone if it fails, and it may be called again.
func (s *Store) RemoveThread(ctx context.Context, thread actor.ID) error {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	token := subjects.EncodeToken(string(thread))
	for _, p := range []func() error{
		func() error { return s.Files.kv.forget(ctx, token) },
		func() error { return s.Memory.kv.forget(ctx, token) },
		func() error { return s.Env.kv.forget(ctx, token) },
		func() error { return s.Requests.kv.forget(ctx, subjects.RequestsOf(thread)) },
		func() error { return s.timers.purge(ctx, purge{Filter: s.names.TimersOf(thread)}) },
		func() error { return s.mail.purge(ctx, purge{Filter: s.names.MailFrom(thread)}) },
	} {
		if err := p(); err != nil {
			return fault("store.RemoveThread", thread, err)
		}
	}
	return nil
}
