package host

import (
	"errors"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

const (
	maxPanics  = 3  // that one message may cause, before it is a dead letter
	goodTurns  = 16 // after which a cell that decided messages one by one takes batches again
	bareWeight = 2 * maxPanics
)

// A poison counts what went wrong with an inbox message that can't be decided. The envelopes of one message
// stand or fall together.
type poison struct {
	seq   uint64
	id    actor.EnvelopeID
	count int
	kind  actor.Kind
	why   string
}

// of says why the batch, which is one message or nothing, is not to be decided; "" if it is.
func (p *poison) of(batch []actor.Envelope) string {
	if p.count < maxPanics || !oneMessage(batch) || !p.is(batch) {
		return ""
	}
	return p.why
}

func (p *poison) is(batch []actor.Envelope) bool {
	if len(batch) == 0 {
		return p.seq == 0 && p.id.IsZero()
	}
	return p.seq == batch[0].Seq && p.id == batch[0].ID
}

func (p *poison) clear() { *p = poison{} }

// oneMessage reports whether all of a batch came in one message.
func oneMessage(batch []actor.Envelope) bool {
	return len(batch) <= 1 || batch[0].Seq != 0 && batch[0].Seq == batch[len(batch)-1].Seq
}

// suspect notes that batch could not be decided or recorded. One of several messages is found by
// deciding them one by one.
func (c *cell) suspect(batch []actor.Envelope, kind actor.Kind, why string, weight int) error {
	c.mu.Lock()
	c.single, c.good = true, 0
	c.mu.Unlock()
	if !oneMessage(batch) {
		return errors.New(why)
	}
	p := poison{kind: kind, why: why}
	if len(batch) > 0 {
		p.seq, p.id = batch[0].Seq, batch[0].ID
	}
	if c.poison.is(batch) {
		p.count = c.poison.count
	}
	p.count += weight
	c.poison = p
	return errors.New(why)
}

// deadLetter gives up on the message of the batch: it goes to the dead letters, what it met fails, and
// whoever asked is told. A message from outside fails nothing but itself. If even the record of that is too
// large, only that the message was taken is recorded.
func (c *cell) deadLetter(in actor.Input, why string) actor.Turn {
	var turn actor.Turn
	if len(in.Batch) == 0 || in.Batch[0].Lane != actor.LaneA && in.Batch[0].Lane != actor.LaneB {
		turn = c.machine.Fail(in, string(c.poison.kind)+": "+why)
	}
	if c.poison.count >= bareWeight {
		c.p.h.Log.Error().Str("actor", c.addr.String()).Str("why", why).Msg("a message is dropped: there is no room to say more of it")
		return turn
	}
	for i := range in.Batch {
		e := &in.Batch[i]
		dead := agent.DeadEffect(c.addr, why, e)
		if len(dead.Body) > actor.MaxInline/len(in.Batch) {
			dead.Body, dead.Lane = nil, ""
		}
		turn.Effects = append(turn.Effects, dead)
		err := &actor.Error{ID: c.addr.ID, Kind: c.poison.kind, Err: errors.New(why)}
		agent.Reply(&turn, e, a2e.NewError(agent.RequestOf(e.Asker), in.Now, err), false)
	}
	return turn
}

// errTooMany says that a batch was more than one record can hold.
var errTooMany = errors.New("too many envelopes for one record")

// halve makes batches smaller, if this one was more than one message.
func (c *cell) halve(batch []actor.Envelope) bool {
	if oneMessage(batch) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(1, len(batch)/2)
	return true
}

// wellDone notes a turn that was recorded: after some of them batches are taken again.
func (c *cell) wellDone() {
	c.poison.clear()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = min(2*c.most, maxBatch)
	if c.good++; c.good >= goodTurns {
		c.single = false
	}
}
