package host

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupehq/troupe/actor"
)

// slots are places for the jobs of this process: so many at a time, and of some models no more than is set for
// them. Who waits gets a place by turns, one of each tree after the other, so that a tree with many jobs keeps no
// other from its one. A thread that waits for another has no job, and so no place.
type slots struct {
	process *limit
	models  []*limit

	mu    sync.Mutex
	lines map[string]*line // by the limits that the jobs of the line stand under
	turns uint64           // given so far
}

// A limit is how many jobs of some kind may run at a time.
type limit struct {
	pattern string // of models: a name, or the beginning of names with a "*" behind it
	free    int
}

// A line is the jobs that wait under the same limits.
type line struct {
	limits []*limit
	queues map[actor.ID]*queue // by the root of the tree
	order  []*queue            // whoever is first has the next turn
}

// A queue is the jobs of one tree in a line, oldest first.
type queue struct {
	root actor.ID
	turn uint64 // after which it came to its place in the line
	jobs []*ticket
}

// A ticket is one job that waits.
type ticket struct{ called chan struct{} }

// newSlots makes slots for so many jobs, and for so many of the models that the patterns fit.
func newSlots(running int, of map[string]int) *slots {
	s := &slots{process: &limit{free: running}, lines: map[string]*line{}}
	for _, pattern := range slices.Sorted(maps.Keys(of)) {
		s.models = append(s.models, &limit{pattern, of[pattern]})
	}
	return s
}

// enter waits for a place for a job of root's tree that thinks with a model; "" is none. It fails with ctx's error
// only, and the caller then has no place. Otherwise the caller has to leave, once.
func (s *slots) enter(ctx context.Context, root actor.ID, model string) (leave func(), err error) {
	return s.wait(ctx, root, model, s.process)
}

// think is enter for a job that has a place and is about to ask a model.
func (s *slots) think(ctx context.Context, root actor.ID, model string) (leave func(), err error) {
	return s.wait(ctx, root, model)
}

func (s *slots) wait(ctx context.Context, root actor.ID, model string, limits ...*limit) (leave func(), err error) {
	for _, m := range s.models {
		if model != "" && matches(m.pattern, model) {
			limits = append(limits, m)
		}
	}
	s.mu.Lock()
	l := s.line(limits)
	leave = func() { s.leave(l) }
	if l.first() == nil && l.room() {
		l.take()
		s.mu.Unlock()
		return leave, nil
	}
	t := &ticket{make(chan struct{})}
	s.enqueue(l, root, t)
	s.mu.Unlock()
	select {
	case <-t.called:
		return leave, nil
	case <-ctx.Done():
		s.giveUp(l, root, t)
		return nil, ctx.Err()
	}
}

// line finds the line of those that stand under the same limits. The caller holds s.mu.
func (s *slots) line(limits []*limit) *line {
	var key strings.Builder
	for _, m := range limits {
		key.WriteString(m.pattern + "\n") // that of the process is ""
	}
	l := s.lines[key.String()]
	if l == nil {
		l = &line{limits: limits, queues: map[actor.ID]*queue{}}
		s.lines[key.String()] = l
	}
	return l
}

// room reports whether none of the limits is reached.
func (l *line) room() bool {
	return !slices.ContainsFunc(l.limits, func(m *limit) bool { return m.free <= 0 })
}

func (l *line) take() {
	for _, m := range l.limits {
		m.free--
	}
}

// first is the queue that has the next turn, or nil. One whose jobs have all given up is dropped.
func (l *line) first() *queue {
	for len(l.order) > 0 {
		if q := l.order[0]; len(q.jobs) > 0 {
			return q
		}
		delete(l.queues, l.order[0].root)
		l.order = l.order[1:]
	}
	return nil
}

// enqueue lets a job wait behind those of its tree, and a tree that had none behind the others.
func (s *slots) enqueue(l *line, root actor.ID, t *ticket) {
	q := l.queues[root]
	if q == nil {
		q = &queue{root: root, turn: s.turns}
		l.queues[root] = q
		l.order = append(l.order, q)
	}
	q.jobs = append(q.jobs, t)
}

// leave gives a place back, and calls whoever may run now.
func (s *slots) leave(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range l.limits {
		m.free++
	}
	for s.call() {
	}
}

// call calls the job that is next, if there is one: of the lines with room, the first of the tree that has waited
// longest for its turn. The caller holds s.mu.
func (s *slots) call() bool {
	var next *line
	for _, l := range s.lines {
		if q := l.first(); q != nil && l.room() && (next == nil || q.turn < next.order[0].turn) {
			next = l
		}
	}
	if next == nil {
		return false
	}
	q := next.order[0]
	next.order = next.order[1:]
	s.turns++
	close(q.jobs[0].called)
	next.take()
	if q.jobs = q.jobs[1:]; len(q.jobs) == 0 {
		delete(next.queues, q.root)
		return true
	}
	q.turn = s.turns
	next.order = append(next.order, q)
	return true
}

// giveUp takes a job out of its line. One that was called at the same moment has a place, and gives it back.
func (s *slots) giveUp(l *line, root actor.ID, t *ticket) {
	s.mu.Lock()
	if q := l.queues[root]; q != nil {
		if at := slices.Index(q.jobs, t); at >= 0 {
			q.jobs = slices.Delete(q.jobs, at, at+1)
			s.mu.Unlock()
			return
		}
	}
	s.mu.Unlock()
	s.leave(l)
}
