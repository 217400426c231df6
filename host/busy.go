package host

import (
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// busy reports whether jobs or timers of the actor live in this process, or it has something to send that a
// new owner would not hear of otherwise; and the first message that led to it.
func (c *cell) busy() (pin uint64, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pin, c.owed || c.wake != nil || len(c.jobs)+len(c.timers) > 0
}

// finished ends what the envelopes of a batch were the answers to.
func (c *cell) finished(batch []actor.Envelope) {
	for i := range batch {
		e := &batch[i]
		if e.Seq != 0 && e.Kind != agent.KindJob {
			continue
		}
		switch e.Kind {
		case agent.KindJob:
			if e.Seq != 0 { // a worker's, which may have been refused
				if _, waits := c.outstanding(e.Session); waits {
					continue
				}
			}
			c.jobOver(e.Session)
		case agent.KindTimer:
			c.fired(string(e.From), e.Body)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.owed = false
	}
	c.relax()
}

// fired forgets a timer of this process, unless it was set anew meanwhile.
func (c *cell) fired(name string, body []byte) {
	var t agent.Timer
	if agent.Unpack(body, &t) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timers[name].at == t.At {
		delete(c.timers, name)
	}
}

// relax notes that the actor is no longer busy, if so. The caller holds c.mu.
func (c *cell) relax() {
	if !c.owed && c.wake == nil && len(c.jobs)+len(c.timers) == 0 {
		c.pin = 0
	}
}

// evict takes the cell out of use if it has been idle since before.
func (c *cell) evict(before time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.over.n > 0 || c.wake != nil || c.owed || len(c.jobs)+len(c.timers) > 0 || c.idle.After(before) {
		return false
	}
	c.gone = true
	return true
}

// shut takes the cell out of use while its goroutine runs.
func (c *cell) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

// close takes the cell out of use and returns when its last turn has ended. The partition's context
// has ended before. It gives the jobs that go on, if the partition lends any.
func (c *cell) close() []*task {
	c.mu.Lock()
	c.end()
	running := c.running
	c.mu.Unlock()
	if running {
		<-c.ended
	}
	return c.lend()
}

// end stops what lives beside the turns. The actor stays busy: whoever has the partition next, this process
// perhaps, starts again what is stopped here. The caller holds c.mu.
func (c *cell) end() {
	c.gone = true
	c.owed = c.owed || c.wake != nil || len(c.jobs)+len(c.timers) > 0
	if !c.p.handing.Load() {
		for n, t := range c.jobs {
			t.cancel()
			delete(c.jobs, n)
		}
	}
	for name, t := range c.timers {
		t.timer.Stop()
		delete(c.timers, name)
	}
	if c.wake != nil {
		c.wake.Stop()
		c.wake = nil
	}
}
