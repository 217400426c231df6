package host

import (
	"errors"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// maxPanics is how often one envelope may make a decision panic before it is a dead letter.
const maxPanics = 3

// A poison counts what went wrong with an envelope that can't be decided.
type poison struct {
	seq   uint64
	id    actor.EnvelopeID
	count int
	kind  actor.Kind
	why   string
}

// of says why the batch, which is one envelope or none, is not to be decided; "" if it is.
func (p *poison) of(batch []actor.Envelope) string {
	if p.count < maxPanics || len(batch) > 1 || !p.is(batch) {
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

// suspect notes that batch could not be decided or recorded. One of several envelopes is found by
// deciding them one by one.
func (c *cell) suspect(batch []actor.Envelope, kind actor.Kind, why string, weight int) error {
	c.mu.Lock()
	c.single = true
	c.mu.Unlock()
	if len(batch) > 1 {
		return errors.New(why)
	}
	p := poison{kind: kind, why: why}
	if len(batch) == 1 {
		p.seq, p.id = batch[0].Seq, batch[0].ID
	}
	if c.poison.is(batch) {
		p.count = c.poison.count
	}
	p.count += weight
	c.poison = p
	return errors.New(why)
}

// deadLetter gives up on the one envelope of the batch: it goes to the dead letters, what it met fails,
// and whoever asked is told. A body that would make this record too large as well is left out.
func (c *cell) deadLetter(in actor.Input, why string) actor.Turn {
	turn := c.machine.Fail(in, string(c.poison.kind)+": "+why)
	if len(in.Batch) == 1 {
		e := &in.Batch[0]
		dead := actor.Effect{Kind: actor.EffectDead, To: c.addr, Name: why, Body: e.Body}
		if len(dead.Body) > actor.MaxInline {
			dead.Body = nil
		}
		turn.Effects = append(turn.Effects, dead)
		err := &actor.Error{ID: c.addr.ID, Kind: c.poison.kind, Err: errors.New(why)}
		agent.Reply(&turn, e, a2e.NewError(agent.RequestOf(e.Asker), in.Now, err), false)
	}
	c.mu.Lock()
	c.single = false
	c.mu.Unlock()
	return turn
}
