package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

const (
	maxBatch      = 512       // envelopes of one turn
	maxBatchBytes = 192 << 10 // of their bodies
	maxUnsent     = 4         // records that are sent together
	lingerTime    = 200 * time.Microsecond
)

// A recorded is a record with its sequence in the journal.
type recorded struct {
	seq uint64
	*actor.Record
}

// A cell is an actor in memory.
type cell struct {
	p    *partition
	addr actor.Address

	mu      sync.Mutex
	ctl     []actor.Envelope // waiting, of lanes ctl and job
	queue   []actor.Envelope // waiting, of the others
	bytes   int              // of the queue
	over    overflow         // waiting in the stream, behind the queue
	running bool             // a goroutine takes turns
	more    chan struct{}    // closed when something comes while the goroutine lingers; nil while it does not
	again   bool             // a turn is due without envelopes
	gone    bool             // evicted or closed
	most    int              // envelopes of a batch; fewer after a record that was too large
	single  bool             // decide one message at a time
	good    int              // turns that were recorded since
	idle    time.Time        // since when there is nothing to do
	ended   chan struct{}    // closed when the last turn has ended, once gone
	jobs    map[uint64]*task
	timers  map[string]armed
	durable map[string]int64 // timers that were written to the bus, and their times
	owed    bool             // what was recorded last may not be sent, and no message will come again for it
	wake    *time.Timer
	pin     uint64             // the first message that made the actor busy
	remotes map[uint64]*remote // jobs that workers elsewhere carry out
	status  atomic.Value       // of a thread, as of its last turn: an a2e.Status
	alive   atomic.Int64       // when a job last gave a sign of life; microseconds since 1970
	lining  atomic.Int64       // jobs that wait for a place
	working atomic.Int64       // jobs that have one

	// The rest belongs to the goroutine that takes turns.
	redrive bool // the last record may not have been sent
	known   bool // this cell has recorded something
	machine actor.Machine
	seq     uint64 // of the last record
	base    uint64 // of the record that the table is read from
	full    uint64 // of the record at which the table being written begins
	rev     uint64 // of the registry entry
	stale   bool   // the entry may have a later revision
	kept    kept   // answers that the record holds
	cursor  actor.Cursor
	sent    chan struct{}       // closed when everything recorded is sent; nil when it is
	unsent  []recorded          // records that are not sent, oldest first
	spawned map[actor.ID][]byte // what the event of each birth that is being sent tells
	ledger  ledger
	history history
	poison  poison
	sorry   sorry
	seat    bool // it holds what was read again

	rereading *rereading // nil: there is none
}

func newCell(p *partition, a actor.Address) *cell {
	return &cell{
		p: p, addr: a, most: maxBatch, idle: time.Now(), ended: make(chan struct{}),
		jobs: map[uint64]*task{}, timers: map[string]armed{}, durable: map[string]int64{},
	}
}

// run takes turns until there is nothing to do.
func (c *cell) run() {
	ctx := c.p.ctx
	var again pace
	for {
		var err error
		if c.dry() {
			if err = c.reread(ctx); err != nil && ctx.Err() == nil {
				again.failed(ctx, c.report(&again, err, "messages that were left in the inbox"))
				continue
			}
		}
		batch, ok := c.take()
		if !ok {
			return
		}
		batches, began := [][]actor.Envelope{batch}, time.Now()
		if err == nil {
			err = c.turns(ctx, &batches)
		}
		if err == nil {
			if again.failures > 0 {
				c.succeeded()
			}
			again = pace{}
			c.breathe(ctx, time.Since(began))
			continue
		}
		if ctx.Err() != nil {
			c.shut()
			continue // take ends the goroutine
		}
		c.machine, c.unsent = nil, nil // whatever was recorded is read again
		c.redrive = true
		c.giveBack(slices.Concat(batches...))
		if err == errTooMany {
			continue
		}
		if errors.Is(err, actor.Conflict) {
			if !c.p.stillOurs(ctx) {
				c.p.stop()
			}
			continue
		}
		c.failed(began)
		c.apologise()
		again.failed(ctx, c.report(&again, err, "a turn"))
	}
}

// turns takes a batch through decide, record, send and settle. A crash between any two of them replays
// the envelopes and decides nothing twice: what was recorded is only sent again, under the same
// envelope ids.
//
// When a turn has started jobs in this process and these are over in no time, the next turn is decided
// and recorded first, and both are sent together. batches gets what was taken in addition.
func (c *cell) turns(ctx context.Context, batches *[][]actor.Envelope) error {
	batch := (*batches)[0]
	switch err := c.load(ctx); {
	case err == errNoThread:
		return c.bounce(ctx, batch)
	case err != nil:
		return err
	}
	for {
		jobs, err := c.turn(ctx, batch)
		if err != nil {
			return err
		}
		if !jobs || len(c.unsent) >= maxUnsent {
			break
		}
		if batch = c.linger(); batch == nil {
			break
		}
		*batches = append(*batches, batch)
	}
	if err := c.sendAll(ctx); err != nil {
		return err
	}
	for _, b := range *batches {
		c.settle(b)
	}
	return nil
}

// turn decides and records a batch, and whatever the machine goes on with by itself. It reports whether
// jobs were started.
func (c *cell) turn(ctx context.Context, batch []actor.Envelope) (jobs bool, err error) {
	c.p.h.counters.turns.Add(1)
	fresh, replays := batch, []actor.Effect(nil)
	if err := c.condemn(batch); err != nil {
		return false, err
	}
	if c.poison.of(batch) == "" {
		if fresh, replays, err = c.sift(ctx, batch); err != nil {
			return false, c.hopeless(batch, err)
		}
	}
	resumed := c.redrive
	for more := c.due(fresh, replays); more; fresh, replays, resumed = nil, nil, false {
		turn, err := c.decide(ctx, fresh, resumed && !c.known)
		if err != nil {
			return false, err
		}
		turn.Effects = append(turn.Effects, replays...)
		record, err := c.record(ctx, fresh, &turn)
		if err != nil {
			return false, err
		}
		c.unsent = append(c.unsent, recorded{c.seq, record})
		if c.sent == nil {
			c.sent = make(chan struct{})
		}
		c.known = true
		if t, ok := c.machine.(*agent.Thread); ok {
			c.status.Store(t.Status())
		}
		c.start(&turn, firstSeq(batch))
		jobs = len(turn.Jobs) > 0
		if more = turn.More; more {
			if err := c.sendAll(ctx); err != nil {
				return false, err
			}
		}
	}
	return jobs, nil
}

// linger waits a moment for the answers of jobs of this process, and takes what came.
func (c *cell) linger() []actor.Envelope {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ctl)+len(c.queue) == 0 {
		more := make(chan struct{})
		c.more = more
		c.mu.Unlock()
		t := time.NewTimer(lingerTime)
		select {
		case <-more:
		case <-t.C:
		}
		t.Stop()
		c.mu.Lock()
		c.more = nil
	}
	if c.gone {
		return nil
	}
	return c.cut()
}

// due reports whether a turn has to be recorded: for envelopes, for answers that are given again, or as
// the fence of an actor that was just loaded to go on.
func (c *cell) due(fresh []actor.Envelope, replays []actor.Effect) bool {
	fence := c.redrive
	c.redrive = false
	return fence || len(fresh)+len(replays) > 0
}

// hopeless makes a suspect of a batch that asks for what can never be looked up.
func (c *cell) hopeless(batch []actor.Envelope, err error) error {
	if passing(err) {
		return err
	}
	return c.suspect(batch, actor.KindOf(err), err.Error(), maxPanics)
}

// decide asks the machine. A batch that makes it panic is decided again one by one; an envelope that
// does so three times is a dead letter, and fails what it met.
func (c *cell) decide(ctx context.Context, batch []actor.Envelope, resumed bool) (turn actor.Turn, err error) {
	in := actor.Input{Now: time.Now(), Batch: batch, Resumed: resumed, Queued: c.p.h.MaxQueued}
	in.Alive = c.sign(in.Now)
	if why := c.poison.of(batch); why != "" {
		return c.deadLetter(in, why), nil
	}
	if err := c.p.h.lookUp(ctx, c.addr, c.machine.Needs(batch), &in); err != nil {
		return turn, c.hopeless(batch, err)
	}
	defer func() {
		if r := recover(); r != nil {
			c.p.h.Log.Error().Str("actor", c.addr.String()).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a decision panicked")
			err = c.suspect(batch, actor.RuntimeError, fmt.Sprintf("panic: %v", r), 1)
		}
	}()
	return c.machine.Decide(in), nil
}

// record appends the turn to the journal. This is the commit.
func (c *cell) record(ctx context.Context, batch []actor.Envelope, turn *actor.Turn) (*actor.Record, error) {
	head, err := c.machine.Head()
	if err != nil {
		return nil, err
	}
	cursor, took := c.taken(batch)
	answers := c.kept.next(turn, c.addr.Host)
	base := c.base
	if turn.Rebase {
		base = c.full
		if turn.Full {
			base = 0 // the record is its own base
		}
	}
	r := &actor.Record{
		V: actor.RecordVersion, At: time.Now().UnixMicro(), By: c.p.h.Member, Cursor: cursor, Rev: c.rev, Base: base,
		Head: head, Delta: turn.Delta, Took: took, Entries: turn.Entries, Effects: turn.Effects,
		Answers: answers.list, Spilled: answers.spilled,
	}
	for _, u := range c.unsent {
		r.Unsent = append(r.Unsent, u.seq)
	}
	data := agent.Pack(r)
	if len(data) > actor.MaxRecord && c.halve(batch) {
		return nil, errTooMany
	}
	if len(data) > actor.MaxRecord {
		return nil, c.suspect(batch, actor.TooLarge, fmt.Sprintf("a record of %d bytes", len(data)), maxPanics)
	}
	seq, err := c.p.h.Store.Journal.Append(c.addr, c.seq, data).Wait(ctx)
	if err != nil {
		if errors.Is(err, actor.Conflict) {
			c.p.h.counters.conflicts.Add(1)
		}
		return nil, err
	}
	c.kept = answers
	c.recorded(seq, r, batch, turn)
	return r, nil
}

// taken gives the cursor behind a batch, and the ids of its envelopes.
func (c *cell) taken(batch []actor.Envelope) (cursor actor.Cursor, took []actor.Taken) {
	cursor = c.cursor
	for i := range batch {
		e := &batch[i]
		if at := cursor.Of(e.Lane); e.Seq > *at {
			*at = e.Seq
		}
		if !e.ID.IsZero() {
			took = append(took, actor.Taken{From: e.From, ID: e.ID})
		}
	}
	return cursor, took
}

// recorded notes a turn that stands in the journal.
func (c *cell) recorded(seq uint64, r *actor.Record, batch []actor.Envelope, turn *actor.Turn) {
	c.p.h.counters.recorded(turn, len(batch))
	c.p.wrote(seq)
	if turn.Full {
		c.full = seq
	}
	if c.base = r.Base; r.Base == 0 && c.addr.Host {
		c.base = seq
	}
	c.seq, c.cursor = seq, r.Cursor
	for i := range batch {
		c.ledger.add(&batch[i])
	}
	for _, a := range c.kept.fresh {
		c.ledger.answered(a.Key)
	}
	c.history.add(turn.Entries)
	c.wellDone()
}

// settle lets the inbox forget the envelopes.
func (c *cell) settle(batch []actor.Envelope) {
	for i := 0; i < len(batch); {
		n := i + 1
		for n < len(batch) && batch[n].Seq == batch[i].Seq {
			n++
		}
		if batch[i].Seq != 0 {
			c.p.settled(batch[i].Seq, n-i)
		}
		i = n
	}
	c.p.held.Add(-int64(weight(batch)))
	c.unpin()
	c.finished(batch)
}

func firstSeq(batch []actor.Envelope) uint64 {
	var first uint64
	for i := range batch {
		if s := batch[i].Seq; s != 0 && (first == 0 || s < first) {
			first = s
		}
	}
	return first
}
