package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
)

// A mailbox holds so much in memory. What comes on top of it stays in the inbox stream, where it is read again once there
// is room: of it the cell keeps from where to where, so that an actor with very many messages costs no more memory than
// one with a few thousand, and nobody waits for it. Lanes ctl and job are always in memory; they go ahead of the rest.
const (
	maxMailbox      = 4096    // envelopes
	maxMailboxBytes = 1 << 20 // of them
	maxReread       = 16      // mailboxes of a partition that hold what was read again
	overhead        = 256     // bytes that an envelope takes besides its body
)

// An overflow is the messages of an actor that are in the stream only: those between two sequences that are for the actor
// and not ahead of the others.
type overflow struct {
	next, last uint64
	n          int // messages; 0: there is no overflow
}

// weigh notes what envelopes take in memory.
func weigh(envs []actor.Envelope) (bytes int) {
	for i := range envs {
		envs[i].Size = len(envs[i].Body) + overhead
		bytes += envs[i].Size
	}
	return bytes
}

// weight is what envelopes were weighed as.
func weight(envs []actor.Envelope) (bytes int) {
	for i := range envs {
		bytes += envs[i].Size
	}
	return bytes
}

// crowded reports whether a message has to wait in the stream: behind others that do, or because there is no room. The
// caller holds c.mu.
func (c *cell) crowded(bytes int) bool {
	return c.over.n > 0 || len(c.queue) >= maxMailbox || c.bytes > 0 && c.bytes+bytes > maxMailboxBytes ||
		c.p.held.Load()+int64(bytes) > maxBytesInFlight
}

// spill leaves a message in the stream. The caller holds the locks of the partition and of the cell.
func (c *cell) spill(seq uint64) {
	if c.over.n == 0 {
		c.over.next = seq
	}
	c.over.last = seq
	c.over.n++
	if _, pinned := c.p.spilled[c]; !pinned {
		c.p.spilled[c] = seq
	}
}

// dry reports whether there is nothing in memory to decide, and something in the stream.
func (c *cell) dry() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.gone && len(c.ctl)+len(c.queue) == 0 && c.over.n > 0
}

// A rereading is a way through the stream, at the pace of the turns: to begin one costs the server more the more is stored.
type rereading struct {
	upto    uint64
	letters chan store.Letter // closed when there are no more
	err     error             // then
}

// readAgain reads an overflow as it is now.
func (c *cell) readAgain(ctx context.Context, o overflow) *rereading {
	r := &rereading{upto: o.last, letters: make(chan store.Letter)}
	c.p.h.background.Go(func() {
		defer close(r.letters)
		r.err = c.p.h.Store.Inbox.Range(ctx, c.p.n, c.addr.ID, o.next, o.last, func(l store.Letter) bool {
			select {
			case r.letters <- l:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	return r
}

// reread fills the mailbox from the stream. A few mailboxes of a partition are filled at a time; the others wait until
// one of these is empty.
func (c *cell) reread(ctx context.Context) error {
	if !c.seat {
		select {
		case c.p.seats <- struct{}{}:
			c.seat = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if c.rereading == nil {
		c.rereading = c.readAgain(ctx, over)
	}
	next, messages, envs := over.next, 0, []actor.Envelope(nil)
	for bytes, r := 0, c.rereading; len(envs) < maxMailbox && bytes < maxMailboxBytes; {
		l, more := <-r.letters
		if !more {
			c.rereading = nil
			if r.err != nil && len(envs) == 0 {
				return r.err
			}
			if r.err == nil {
				next = max(next, r.upto+1) // an overflow that has begun since is behind it
			}
			break
		}
		next = l.Seq + 1
		if l.Lane.Ahead() || (l.Lane == actor.LaneHost) != c.addr.Host {
			continue
		}
		messages++
		opened, err := open(bus.Delivery{Seq: l.Seq, To: c.addr.ID, Lane: l.Lane, From: l.From, Time: l.Time, Data: l.Data})
		if err == nil { // else it is a dead letter since it came
			bytes += weigh(opened)
			envs = append(envs, opened...)
		}
	}
	c.refill(envs, next, messages)
	return nil
}

// refill puts what was read again into the mailbox; the overflow begins behind it.
func (c *cell) refill(envs []actor.Envelope, next uint64, messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, envs...)
	c.bytes += weight(envs)
	c.p.held.Add(int64(weight(envs)))
	c.over.next, c.over.n = next, max(c.over.n-messages, 1)
	if next > c.over.last {
		c.over = overflow{}
	}
}

// unpin says how far the messages that were left in the stream are settled, once a batch is.
func (c *cell) unpin() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if _, pinned := c.p.spilled[c]; !pinned {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.queue) > 0:
		c.p.spilled[c] = c.queue[0].Seq
	case c.over.n > 0:
		c.p.spilled[c] = c.over.next
	default:
		delete(c.p.spilled, c)
	}
	if c.seat && len(c.queue) == 0 {
		<-c.p.seats
		c.seat = false
	}
}

// A Backlog is what waits for the actors of a partition, or of all that a process owns.
type Backlog struct {
	Messages int   // in memory, or in the stream for want of room; not settled
	Bytes    int64 // in memory
	Spilled  int   // of the messages, those in the stream only
	Largest  []int // messages of the mailboxes that have most, the largest first
}

// largest is how many mailboxes a Backlog tells of.
const largest = 5

// waiting counts what is in the mailbox.
func (c *cell) waiting() (messages, spilled int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ctl) + len(c.queue) + c.over.n, c.over.n
}

// breathe lets the neighbours of an actor that has more queued than its mailbox holds have most of the machine.
func (c *cell) breathe(ctx context.Context, took time.Duration) {
	c.mu.Lock()
	over := c.over.n > 0
	c.mu.Unlock()
	if over {
		sleep(ctx, min(took, maxBreath))
	}
}

// maxBreath is the longest pause between two turns of an actor whose mailbox has run over.
const maxBreath = 50 * time.Millisecond

// Backlog tells what waits for the actors that this process owns.
func (h *Host) Backlog() Backlog {
	var all Backlog
	for _, n := range h.ownedNumbers() {
		if p := h.partition(n); p != nil {
			all.add(p.backlog())
		}
	}
	return all
}

func (b *Backlog) add(o Backlog) {
	b.Messages, b.Bytes, b.Spilled = b.Messages+o.Messages, b.Bytes+o.Bytes, b.Spilled+o.Spilled
	b.Largest = append(b.Largest, o.Largest...)
	slices.SortFunc(b.Largest, func(x, y int) int { return y - x })
	b.Largest = b.Largest[:min(len(b.Largest), largest)]
}

func (p *partition) backlog() Backlog {
	p.mu.Lock()
	cells := slices.Collect(maps.Values(p.cells))
	p.mu.Unlock()
	b := Backlog{Bytes: p.held.Load()}
	for _, c := range cells {
		messages, spilled := c.waiting()
		if messages > 0 {
			b.add(Backlog{Messages: messages, Spilled: spilled, Largest: []int{messages}})
		}
	}
	return b
}
