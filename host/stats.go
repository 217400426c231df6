package host

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// Stats is what a process has done since its start, and what it has to do now.
type Stats struct {
	Turns, Records, Envelopes, Sends uint64 // records are the turns that came into a journal; envelopes those that they took
	Conflicts                        uint64 // records that another owner was faster with
	Births                           uint64 // threads
	Ended                            map[agent.StopReason]uint64
	Dead                             uint64                // letters
	InboxFull                        uint64                // messages that found an inbox full
	Requests                         map[string]uint64     // at the door, by type
	Refused                          map[actor.Kind]uint64 // of these, refused at the door itself
	Steps                            []StepStats           // by model and outcome

	JobsRunning, JobsWaiting, JobsMost int                // in this process
	Actors                             int                // in memory
	Threads                            map[a2e.Status]int // of these
	Backlog                            Backlog
	Partitions                         []PartitionStats // that it owns
}

// PartitionStats is how a partition does that this process owns.
type PartitionStats struct {
	Partition  int
	Lag        uint64 // messages that are not settled, or not read yet
	Stragglers int
}

// StepBuckets are the upper bounds of StepStats.Buckets, in seconds.
var StepBuckets = [...]float64{0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// StepStats is the steps of one model with one outcome: "ok", "error", or "broken_off". Of those that workers carry out
// there is no duration.
type StepStats struct {
	Model, Outcome string
	N              uint64
	Timed          uint64 // of them, those that ran here
	Seconds        float64
	Buckets        [len(StepBuckets)]uint64 // of the timed ones, not cumulated; longer ones are in none
}

// maxModels is how many models are told apart; the others are "other". Whoever spawns may name any.
const maxModels = 64

type stepKey struct{ model, outcome string }

// counters is what a host counts. The zero counters are ready.
type counters struct {
	turns, records, envelopes, sends, conflicts, births, dead, full atomic.Uint64

	mu       sync.Mutex
	ended    map[agent.StopReason]uint64
	requests map[string]uint64
	refused  map[actor.Kind]uint64
	models   map[string]bool
	steps    map[stepKey]*StepStats
}

// countOne adds one to what a map counts.
func countOne[K comparable](mu *sync.Mutex, m *map[K]uint64, k K) {
	mu.Lock()
	defer mu.Unlock()
	if *m == nil {
		*m = map[K]uint64{}
	}
	(*m)[k]++
}

// recorded counts a record.
func (n *counters) recorded(turn *actor.Turn, envelopes int) {
	n.records.Add(1)
	n.envelopes.Add(uint64(envelopes))
	n.full.Add(uint64(turn.Refused))
	for i := range turn.Effects {
		if turn.Effects[i].Kind == actor.EffectBirth {
			n.births.Add(1)
		}
	}
	for i := range turn.Entries {
		if e := &turn.Entries[i]; e.Kind == actor.EntryEnd {
			countOne(&n.mu, &n.ended, agent.StopReason(e.Name))
		}
	}
}

// stepped counts a step; one that took no time was carried out elsewhere.
func (n *counters) stepped(model, outcome string, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.steps == nil {
		n.steps, n.models = map[stepKey]*StepStats{}, map[string]bool{}
	}
	if model == "" {
		model = "none"
	}
	if !n.models[model] && len(n.models) >= maxModels {
		model = "other"
	} else {
		n.models[model] = true
	}
	key := stepKey{model, outcome}
	s := n.steps[key]
	if s == nil {
		s = &StepStats{Model: model, Outcome: outcome}
		n.steps[key] = s
	}
	s.N++
	if took == 0 {
		return
	}
	s.Timed++
	s.Seconds += took.Seconds()
	if i, _ := slices.BinarySearch(StepBuckets[:], took.Seconds()); i < len(StepBuckets) {
		s.Buckets[i]++
	}
}

// endOf words how a step ended.
func endOf(ctx context.Context, err string) string {
	switch {
	case ctx.Err() != nil:
		return "broken_off"
	case err != "":
		return "error"
	}
	return "ok"
}

// Stats tells how the process does. It asks nobody else.
func (h *Host) Stats() Stats {
	n := &h.counters
	s := Stats{
		Turns: n.turns.Load(), Records: n.records.Load(), Envelopes: n.envelopes.Load(), Sends: n.sends.Load(), Conflicts: n.conflicts.Load(),
		Births: n.births.Load(), Dead: n.dead.Load(), InboxFull: n.full.Load(), Threads: map[a2e.Status]int{}, Backlog: h.Backlog(),
	}
	n.mu.Lock()
	s.Ended, s.Requests, s.Refused = maps.Clone(n.ended), maps.Clone(n.requests), maps.Clone(n.refused)
	for _, step := range n.steps {
		s.Steps = append(s.Steps, *step)
	}
	n.mu.Unlock()
	s.JobsMost = h.Running
	s.JobsRunning, s.JobsWaiting = h.slots.count(h.Running)
	for _, number := range h.ownedNumbers() {
		if p := h.partition(number); p != nil {
			s.Partitions = append(s.Partitions, p.stats(&s))
		}
	}
	return s
}

// stats tells how a partition does, and adds its actors.
func (p *partition) stats(s *Stats) PartitionStats {
	_, busy := p.cut()
	one := PartitionStats{Partition: p.n, Stragglers: len(busy)}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Actors += len(p.cells)
	for a, c := range p.cells {
		if status, ok := c.status.Load().(a2e.Status); ok && !a.Host {
			s.Threads[status]++
		}
		_, spilled := c.waiting()
		one.Lag += uint64(spilled)
	}
	for i := range p.slots {
		if p.slots[i].left > 0 {
			one.Lag++
		}
	}
	if p.read != nil {
		one.Lag += p.read.Behind()
	}
	return one
}

// count gives how many jobs run and how many wait.
func (s *slots) count(most int) (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		for _, q := range l.order {
			waiting += len(q.jobs)
		}
	}
	return most - s.process.free, waiting
}
