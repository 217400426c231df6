package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// errNoThread says that a thread has no journal: nobody has ever been born under its id.
var errNoThread = errors.New("there is no such thread")

// load activates the actor: it reads the last record, and for a host the records since the table was
// last whole. An actor that may not have sent its last record sends it again, and goes on with
// its jobs and timers.
func (c *cell) load(ctx context.Context) error {
	if c.machine != nil {
		return nil
	}
	last, err := c.last(ctx)
	if c.addr.Host && errors.Is(err, actor.NotFound) {
		c.machine = NewTree(c.addr.ID, c.p.h.Limits)
		c.seq, c.base, c.rev, c.cursor, c.redrive = 0, 0, 0, actor.Cursor{}, false
		c.ledger, c.kept = newLedger(0, true), kept{}
		return nil
	}
	if errors.Is(err, actor.NotFound) {
		return errNoThread
	}
	if err != nil {
		return err
	}
	r, err := decodeRecord(last)
	if err != nil {
		return err
	}
	machine, err := c.restore(ctx, r, last.Seq)
	if err != nil {
		return err
	}
	c.seq, c.base, c.full, c.rev, c.cursor = last.Seq, r.Base, 0, r.Rev, r.Cursor
	c.stale = len(r.Unsent) > 0 || slices.ContainsFunc(r.Effects, func(e actor.Effect) bool { return e.Kind == actor.EffectRegistry })
	if r, ok := c.p.h.revisions.take(c.addr.ID); ok && r.j >= last.Seq {
		c.rev, c.stale = r.rev, false
	}
	if c.base == 0 && c.addr.Host {
		c.base = last.Seq
	}
	newborn := r.Cursor == (actor.Cursor{}) && !c.addr.Host && len(r.Took) == 0
	c.ledger = newLedger(last.Seq, !r.Spilled && !c.addr.Host)
	c.kept = kept{list: r.Answers, spilled: r.Spilled}
	for _, a := range r.Answers {
		c.ledger.answered(a.Key)
	}
	c.history = history{complete: newborn}
	mark := c.p.watermark()
	if c.redrive = c.redrive || (r.Cursor.Ctl > mark || r.Cursor.Queue > mark) && !c.p.sentHere(r, last.Seq); c.redrive {
		if err := c.sendAgain(ctx, machine, r, last.Seq); err != nil {
			c.machine = nil
			return err
		}
		c.resume()
	}
	c.machine = machine
	c.remember()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm(machine.Wake())
	return nil
}

// sendAgain sends what may not have been sent: the last record, and those before it that it names.
func (c *cell) sendAgain(ctx context.Context, m actor.Machine, last *actor.Record, seq uint64) error {
	c.machine, c.unsent = m, nil
	for _, u := range last.Unsent {
		message, _, err := c.p.h.Store.Journal.At(ctx, u)
		if err != nil {
			return err
		}
		r, err := decodeRecord(message)
		if err != nil {
			return err
		}
		c.unsent = append(c.unsent, recorded{u, r})
	}
	c.unsent = append(c.unsent, recorded{seq, last})
	return c.sendAll(ctx)
}

// last reads the last record. The birth of a thread that this process has just made need not be read: if it
// is no longer the last record, the next append is refused, and then the journal is read.
func (c *cell) last(ctx context.Context) (store.Message, error) {
	if m, ok := c.p.h.births.take(c.addr.ID); ok && !c.addr.Host {
		return m, nil
	}
	return c.p.h.Store.Journal.Last(ctx, c.addr)
}

// restore makes the machine from the last record.
func (c *cell) restore(ctx context.Context, last *actor.Record, seq uint64) (actor.Machine, error) {
	if !c.addr.Host {
		return c.restoreThread(ctx, last, seq)
	}
	tree := NewTree(c.addr.ID, c.p.h.Limits)
	if last.Base == 0 {
		return tree, tree.Apply(last)
	}
	err := c.p.h.Store.Journal.Range(ctx, c.addr, last.Base, seq, func(m store.Message) error {
		r, err := decodeRecord(m)
		if err != nil {
			return err
		}
		return tree.Apply(r)
	})
	return tree, err
}

func (c *cell) restoreThread(ctx context.Context, last *actor.Record, seq uint64) (actor.Machine, error) {
	at, err := agent.BirthSeq(last)
	if err != nil {
		return nil, err
	}
	birth := last
	if at != 0 {
		m, _, err := c.p.h.Store.Journal.At(ctx, at)
		if err != nil {
			return nil, err
		}
		if birth, err = decodeRecord(m); err != nil {
			return nil, err
		}
	}
	return agent.Load(last, seq, birth)
}

func decodeRecord(m store.Message) (*actor.Record, error) {
	r, err := agent.UnpackRecord(m.Data)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", m.Seq, err)
	}
	return r, nil
}

// resume starts again what the actor waits for.
func (c *cell) resume() {
	jobs, timers := c.machine.Outstanding()
	c.start(&actor.Turn{Jobs: jobs, Timers: timers}, 0)
}

// sift drops the envelopes that were decided before and finds the answers to requests that were
// answered before.
func (c *cell) sift(ctx context.Context, batch []actor.Envelope) (fresh []actor.Envelope, replays []actor.Effect, err error) {
	if err := c.reach(ctx, batch); err != nil {
		return nil, nil, err
	}
	answers, err := c.lookUpAnswers(ctx, batch)
	if err != nil {
		return nil, nil, err
	}
	fresh = make([]actor.Envelope, 0, len(batch))
	here := map[actor.Taken]bool{} // what was sent again may be in the batch twice
	for i := range batch {
		e := &batch[i]
		if e.Seq != 0 && e.Seq <= *c.cursor.Of(e.Lane) {
			continue
		}
		if e.Kind == kindCheck {
			c.checked(e)
			continue
		}
		if e.Kind == kindWorker {
			if ok, err := c.admit(ctx, e); err != nil {
				return nil, nil, err
			} else if !ok {
				continue
			}
		}
		if t := (actor.Taken{From: e.From, ID: e.ID}); !e.ID.IsZero() {
			if c.ledger.seen(t) || here[t] {
				continue
			}
			here[t] = true
		}
		if e.Key.ID != "" {
			again, err := c.replay(e, answers)
			if err != nil {
				return nil, nil, err
			}
			if again != nil {
				if !e.Asker.IsZero() {
					replays = append(replays, *again)
				}
				continue
			}
		}
		if err := c.shrink(ctx, e); err != nil {
			return nil, nil, err
		}
		fresh = append(fresh, *e)
	}
	return fresh, replays, nil
}

// shrink puts a large message that came straight into the inbox into a blob.
func (c *cell) shrink(ctx context.Context, e *actor.Envelope) error {
	if e.Kind != agent.KindMessage || len(e.Body) <= actor.MaxInline {
		return nil
	}
	var m agent.Message
	if agent.Unpack(e.Body, &m) != nil {
		return nil // Decide will say so
	}
	var err error
	if m.Content, err = c.p.h.shrink(ctx, m.Content); err != nil {
		return err
	}
	e.Body = agent.Pack(&m)
	return nil
}
