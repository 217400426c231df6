package host

import (
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// push puts envelopes into the mailbox, or with none asks for a turn. It reports false when the cell is
// no longer in use.
func (c *cell) push(envs []actor.Envelope) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.p.held.Add(int64(weigh(envs)))
	c.ctl = append(c.ctl, envs...)
	c.again = c.again || len(envs) == 0
	c.rouse()
	return true
}

// receive takes a message of the inbox, and reports whether it is in memory; else it is left in the stream. The caller
// holds the partition's lock, under which no cell of the partition is taken out of use.
func (c *cell) receive(seq uint64, envs []actor.Envelope) (held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := weigh(envs)
	switch {
	case c.gone: // the partition is given up; the message stays unsettled
		return true
	case envs[0].Lane.Ahead():
		c.ctl = append(c.ctl, envs...)
	case c.crowded(bytes):
		c.spill(seq)
		c.rouse()
		return false
	default:
		c.queue = append(c.queue, envs...)
		c.bytes += bytes
	}
	c.p.held.Add(int64(bytes))
	c.rouse()
	return true
}

// rouse sees to it that turns are taken. The caller holds c.mu.
func (c *cell) rouse() {
	if c.more != nil {
		close(c.more)
		c.more = nil
	}
	if !c.running {
		c.running = true
		go c.run()
	}
}

// local pushes an answer or a timer from this process.
func (c *cell) local(from actor.ID, kind string, body any) {
	c.push([]actor.Envelope{{From: from, Kind: kind, Body: agent.Pack(body), Lane: actor.LaneCtl}})
}

// take removes the next batch from the mailbox: lanes ctl and job first, whole messages only, no idempotency key
// twice. With nothing to do it ends the goroutine's turn.
func (c *cell) take() (batch []actor.Envelope, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || len(c.ctl)+len(c.queue)+c.over.n == 0 && !c.again {
		c.running = false
		c.idle = time.Now()
		if c.gone {
			close(c.ended)
		}
		return nil, false
	}
	c.again = false
	return c.cut(), true
}

// cut removes a batch from the mailbox. The caller holds c.mu.
func (c *cell) cut() (batch []actor.Envelope) {
	cut := cutter{single: c.single, most: c.most}
	n := cut.count(c.ctl)
	batch, c.ctl = append(batch, c.ctl[:n]...), c.ctl[n:]
	if len(c.ctl) == 0 {
		n = cut.count(c.queue)
		c.bytes -= weight(c.queue[:n])
		batch, c.queue = append(batch, c.queue[:n]...), c.queue[n:]
	}
	return batch
}

// A cutter cuts batches from queues.
type cutter struct {
	single      bool
	most        int
	envs, bytes int
	keys        map[string]bool
}

// count says how many envelopes of q go into the batch.
func (k *cutter) count(q []actor.Envelope) int {
	for i := range q {
		e := &q[i]
		first := i == 0 || e.Seq == 0 || e.Seq != q[i-1].Seq
		if first && k.envs > 0 && (k.single || k.envs >= k.most || k.bytes+len(e.Body) > maxBatchBytes) {
			return i
		}
		if e.Key.ID != "" {
			if k.keys[e.Key.ID] {
				return i
			}
			if k.keys == nil {
				k.keys = map[string]bool{}
			}
			k.keys[e.Key.ID] = true
		}
		k.envs++
		k.bytes += len(e.Body)
	}
	return len(q)
}

// giveBack puts a batch that was not decided in front of the mailbox again.
func (c *cell) giveBack(batch []actor.Envelope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ctl, queue []actor.Envelope
	for _, e := range batch {
		if e.Lane.Ahead() {
			ctl = append(ctl, e)
		} else {
			queue = append(queue, e)
		}
	}
	c.ctl = append(ctl, c.ctl...)
	c.queue = append(queue, c.queue...)
	c.bytes += weight(queue)
	c.again = true
}
