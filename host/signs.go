package host

import (
	"sync"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// maxSigns is about how many threads whose signs are remembered: of twice as many the older half is forgotten.
const maxSigns = 1 << 15

// signs remembers when the jobs that workers elsewhere have last told of themselves. Every host hears of all of them: the
// owner of a thread may change, and it need not have the thread in memory when the worker speaks. A host that starts
// has heard nothing yet.
type signs struct {
	mu         sync.RWMutex
	heard, old map[actor.ID]sign
}

// A sign is that of a job.
type sign struct {
	n  uint64
	at time.Time
}

func (s *signs) note(id actor.ID, n uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil || len(s.heard) >= maxSigns {
		s.heard, s.old = map[actor.ID]sign{}, s.heard
	}
	s.heard[id] = sign{n, at}
}

func (s *signs) of(id actor.ID) (sign, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if is, ok := s.heard[id]; ok {
		return is, true
	}
	is, ok := s.old[id]
	return is, ok
}

// noteSign notes that a worker has told of its job.
func (h *Host) noteSign(subject string, _ []byte) {
	if id, n, _, err := h.Names.ParseJob(subject); err == nil {
		h.signs.note(id, n, time.Now())
	}
}

// sign is when the jobs of the actor last gave a sign of life, by all that is known here. While all that it has in this process
// wait for a place, they could give none: it is now. One job that runs is enough for the clock to go on.
func (c *cell) sign(now time.Time) (last time.Time) {
	if _, ok := c.machine.(*agent.Thread); !ok {
		return last
	}
	if c.lining.Load() > 0 && c.working.Load() == 0 {
		return now
	}
	if us := c.alive.Load(); us != 0 {
		last = time.UnixMicro(us)
	}
	if s, ok := c.p.h.signs.of(c.addr.ID); ok && s.at.After(last) {
		if _, waits := c.outstanding(s.n); waits {
			last = s.at
		}
	}
	return last
}
