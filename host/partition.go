package host

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
)

const (
	maxStragglers = 1000    // that a lease lists
	maxInFlight   = 1 << 18 // messages of a partition from the oldest in memory that is not settled to the last that was read

	maxBytesInFlight = 64 << 20 // of a partition's mailboxes
	idleAfter        = 5 * time.Second
	lookEvery        = 5 * time.Second
)

// A partition is this process's share of the inbox while it holds the lease.
type partition struct {
	h     *Host
	n     int
	epoch uint64
	ctx   context.Context // ends when the lease is lost or given back
	rest  context.CancelFunc
	work  context.Context // of the jobs: ends with ctx, or later when they are lent to the next owner
	quit  context.CancelFunc
	read  *bus.Reader
	halt  context.CancelFunc // ends the reader
	done  chan struct{}      // closed when the reader has returned

	looked time.Time // of the membership's goroutine

	leasing sync.Mutex  // held while the lease is written
	lease   store.Lease // as last written
	rev     uint64
	alone   alone // of the reader's goroutine

	mu     sync.Mutex
	room   sync.Cond // of inflight
	slots  []slot    // messages that are in memory or were, by sequence
	base   uint64    // everything up to it is settled, unless slots or spilled say otherwise
	cells  map[actor.Address]*cell
	closed bool

	lending sync.Mutex        // of lent alone: it is asked for under a cell's lock, under which mu must not be
	lent    map[lentJob]*loan // jobs that an earlier owner carries out

	handing atomic.Bool // it is handed over: no job is begun, and answers go into the inbox

	// The first message that is not settled of cells that have left some in the stream. These messages have no slots.
	spilled map[*cell]uint64

	first atomic.Uint64 // the first record that was written since the partition was taken over; 0: none
	held  atomic.Int64  // bytes in the mailboxes
	seats chan struct{} // one for each mailbox that holds what was read again
}

// A slot is a message in flight: left counts its envelopes that are not settled.
type slot struct {
	seq  uint64
	left int
}

func newPartition(h *Host, n int, lease store.Lease, rev uint64) *partition {
	p := &partition{h: h, n: n, epoch: lease.Epoch, lease: lease, rev: rev, base: lease.Watermark, done: make(chan struct{}), lent: loans(h, lease)}
	p.cells, p.spilled, p.seats = map[actor.Address]*cell{}, map[*cell]uint64{}, make(chan struct{}, maxReread)
	p.room.L = &p.mu
	p.ctx, p.rest = context.WithCancel(context.Background())
	p.work, p.quit = context.WithCancel(context.Background())
	return p
}

// stop ends the turns and the jobs.
func (p *partition) stop() {
	p.rest()
	p.quit()
}

// start takes the partition over: first the actors that were busy, then the inbox from the watermark.
func (p *partition) start(ctx context.Context) error {
	if err := p.beware(ctx); err != nil {
		return err
	}
	for _, a := range p.lease.Stragglers {
		c := p.cell(a)
		c.redrive, c.owed, c.pin = true, true, p.lease.Watermark+1 // nobody else knows the cell yet
		c.push(nil)
	}
	reader, err := bus.NewReader(bus.ReaderConfig{
		Conn: p.h.Conn, Names: p.h.Names, Partition: p.n, From: p.lease.Watermark + 1,
		Deliver: p.deliver,
		OnBad: func(subject string, data []byte) {
			p.bad("?", subject, "the subject names no recipient, lane or sender", data)
		},
	})
	if err != nil {
		return err
	}
	reading, halt := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.read, p.halt = reader, halt
	p.mu.Unlock()
	go func() {
		defer close(p.done)
		if err := reader.Serve(reading); err != nil && reading.Err() == nil {
			p.h.Log.Error().Err(err).Int("partition", p.n).Msg("the inbox can't be read")
			p.stop()
		}
	}()
	return nil
}

// deliver hands a message to the cell of its actor. One whose mailbox is full is no reason to wait.
func (p *partition) deliver(d bus.Delivery) {
	envs, err := open(d)
	if err != nil {
		p.bad(d.To, p.h.Names.Inbox(d.To, d.Lane, d.From), err.Error(), d.Data)
		return
	}
	if d.Seq <= p.alone.upto {
		p.wary(d.Seq)
		defer p.settles(d.Seq)
	}
	if c := p.place(d, envs); c != nil {
		c.apologise()
	}
}

// place puts what a message brings into the mailbox of its actor, when there is room. nil says that the partition is
// given up.
func (p *partition) place(d bus.Delivery, envs []actor.Envelope) *cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.slots) >= maxInFlight && !p.closed {
		p.room.Wait()
	}
	if p.closed {
		return nil
	}
	c := p.cellOf(actor.Address{ID: d.To, Host: d.Lane == actor.LaneHost})
	if c.receive(d.Seq, envs) {
		p.slots = append(p.slots, slot{d.Seq, len(envs)}) // it is settled under the lock that is held here
	}
	return c
}

// settled says that n envelopes of message seq are decided and everything they caused is sent.
func (p *partition) settled(seq uint64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := slices.BinarySearchFunc(p.slots, seq, func(s slot, seq uint64) int {
		switch {
		case s.seq < seq:
			return -1
		case s.seq > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return
	}
	p.slots[at].left -= n
	free := 0
	for free < len(p.slots) && p.slots[free].left <= 0 {
		p.base = p.slots[free].seq
		free++
	}
	if free > 0 {
		p.slots = p.slots[free:]
		p.room.Signal()
	}
}

// watermark is the sequence up to which every message is settled.
func (p *partition) watermark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.low()
}

// wrote notes a record that was written here.
func (p *partition) wrote(seq uint64) {
	for first := p.first.Load(); (first == 0 || seq < first) && !p.first.CompareAndSwap(first, seq); first = p.first.Load() {
	}
}

// sentHere reports whether a record was written since the partition was taken over. Then all that it caused was sent before
// its actor left memory, however far the watermark is behind.
func (p *partition) sentHere(r *actor.Record, seq uint64) bool {
	first := p.first.Load()
	return r.By == p.h.Member && first != 0 && seq >= first
}

// low is the watermark. The caller holds p.mu.
func (p *partition) low() uint64 {
	low := p.base
	for _, first := range p.spilled {
		low = min(low, first-1)
	}
	return low
}

// cut gives the watermark and the busy actors as of one moment.
func (p *partition) cut() (watermark uint64, busy []actor.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[actor.Address]uint64{}
	for a, c := range p.cells {
		if pin, yes := c.busy(); yes {
			all[a] = pin
		}
	}
	return inLease(p.low(), all)
}

// inLease gives what a lease says of busy actors. One that finds no place in the list keeps the watermark below the first
// message that made it busy.
func inLease(watermark uint64, all map[actor.Address]uint64) (uint64, []actor.Address) {
	busy := slices.Collect(maps.Keys(all))
	if len(busy) > maxStragglers {
		slices.SortFunc(busy, func(a, b actor.Address) int { return cmp.Compare(all[a], all[b]) })
		watermark = min(watermark, max(all[busy[maxStragglers]], 1)-1)
		busy = busy[:maxStragglers]
	}
	return watermark, busy
}

// cell gives the actor's cell, which is made when there is none.
func (p *partition) cell(a actor.Address) *cell {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cellOf(a)
}

// cellOf is cell for one who holds p.mu.
func (p *partition) cellOf(a actor.Address) *cell {
	c := p.cells[a]
	if c == nil {
		c = newCell(p, a)
		p.cells[a] = c
	}
	return c
}

// evict drops the cells that have been idle for a while.
func (p *partition) evict(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, c := range p.cells {
		if c.evict(now.Add(-idleAfter)) {
			delete(p.cells, a)
		}
	}
}

// look asks the server how far the inbox has been read, so that a partition where nothing happens does
// not keep the others' messages.
func (p *partition) look(ctx context.Context) {
	if p.read == nil || time.Since(p.looked) < lookEvery {
		return
	}
	p.looked = time.Now()
	if seq, _, err := p.read.CaughtUp(ctx); err == nil {
		p.caughtUp(seq)
	}
}

// drain stops reading and waits, for at most d, until everything that was read is settled. On a connection that is
// closed for good nothing will be.
func (p *partition) drain(d time.Duration) {
	if p.read == nil {
		return
	}
	p.halt()
	p.until(time.Now().Add(d), p.empty)
}

// until waits for ok, for the end of the partition or for the deadline.
func (p *partition) until(deadline time.Time, ok func() bool) {
	for time.Now().Before(deadline) && p.ctx.Err() == nil && !ok() && !p.h.Conn.Closed() {
		sleep(p.ctx, time.Millisecond)
	}
}

func (p *partition) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots)+len(p.spilled) == 0
}

// close stops the partition: nothing more is read or decided. It returns when the turns under way have ended, with the
// actors that are busy as of then, and the jobs that go on; all others are abandoned.
func (p *partition) close() (busy map[actor.Address]uint64, going []*task) {
	p.mu.Lock()
	p.closed = true
	p.room.Broadcast()
	cells := p.cells
	p.cells = map[actor.Address]*cell{}
	p.mu.Unlock()
	p.rest()
	if !p.handing.Load() {
		p.quit()
	}
	if p.read != nil {
		<-p.done
	}
	busy = map[actor.Address]uint64{}
	for a, c := range cells {
		lent := c.close()
		going = append(going, lent...)
		if pin, yes := c.busy(); yes || len(lent) > 0 {
			busy[a] = pin
		}
	}
	return busy, going
}

// bad puts a message that can't be read into the dead letters, and says so in an event.
func (p *partition) bad(to actor.ID, subject, why string, data []byte) {
	for p.ctx.Err() == nil {
		_, err := p.h.deadLetter(to, why, subject, data).Wait(p.ctx)
		if err == nil || !passing(err) || !sleep(p.ctx, pause) {
			break
		}
	}
	p.h.event(to, to, "dead_letter", actor.EnvelopeID{}, deadContent(why))
}

// caughtUp says that every message up to seq has been delivered.
func (p *partition) caughtUp(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.slots) == 0 || p.slots[0].seq > seq {
		p.base = max(p.base, seq)
	}
}
