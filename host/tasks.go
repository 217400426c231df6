package host

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

// stuckAfter is how long a job may go on after its end without a word about it.
const stuckAfter = 5 * time.Second

// A task is a job in this process.
type task struct {
	actor   actor.Address
	n       uint64
	kind    string
	cancel  context.CancelFunc
	over    <-chan struct{} // closed when nobody waits for the answer any more
	remote  bool            // it gives the job to workers elsewhere
	lent    *loan           // another process carries it out; nil: none does
	pushed  atomic.Bool     // its answer lies in the mailbox of its cell
	brought atomic.Bool     // its answer is on its way to the inbox

	// Of tasks.
	since time.Time // when it began
	ended time.Time // when it was first seen that it should have ended
	told  bool
}

func (t *task) tell(e *zerolog.Event) *zerolog.Event {
	return e.Str("actor", t.actor.String()).Uint64("job", t.n).Str("kind", t.kind).Dur("since", time.Since(t.since))
}

// tasks are the jobs that have a place and run. A job that ignores its context keeps its place until it returns: what it
// uses, it still uses. Its thread has gone on without it.
type tasks struct {
	mu      sync.Mutex
	running map[*task]struct{}
}

func newTasks() tasks { return tasks{running: map[*task]struct{}{}} }

func (s *tasks) add(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.since = time.Now()
	s.running[t] = struct{}{}
}

func (s *tasks) remove(t *task, log zerolog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, t)
	if t.told {
		t.tell(log.Info()).Msg("a job that was ended long ago has returned, and leaves its place")
	}
}

func (s *tasks) has(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.running[t]
	return ok
}

func (s *tasks) runs(a actor.Address, n uint64) bool {
	return slices.ContainsFunc(s.all(), func(t *task) bool { return t.actor == a && t.n == n })
}

func (s *tasks) all() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.running))
}

func (s *tasks) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// look tells once of each job that goes on though nobody waits for it.
func (s *tasks) look(now time.Time, log zerolog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.running {
		select {
		case <-t.over:
		default:
			continue
		}
		if t.ended.IsZero() {
			t.ended = now
		}
		if !t.told && now.Sub(t.ended) >= stuckAfter {
			t.told = true
			t.tell(log.Warn()).Msg("a job goes on though it was ended, and keeps its place")
		}
	}
}
