package host

import (
	"context"
	"fmt"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// bounce answers envelopes to a thread that does not exist, under their own ids, so that one that is
// bounced twice is taken once. There is no journal to record anything in.
func (c *cell) bounce(ctx context.Context, batch []actor.Envelope) error {
	var writes []write
	for i := range batch {
		if w := c.bounced(&batch[i]); w != nil {
			writes = append(writes, *w)
		}
	}
	if err := c.flush(ctx, writes); err != nil {
		return err
	}
	c.settle(batch)
	return nil
}

func (c *cell) bounced(e *actor.Envelope) *write {
	h := c.p.h
	why := &actor.Error{ID: c.addr.ID, Kind: actor.NotFound, Err: fmt.Errorf("there is no %s", c.addr.ID)}
	if !e.Asker.IsZero() {
		data, err := a2e.Encode(a2e.NewError(agent.RequestOf(e.Asker), e.At, why))
		if err != nil {
			return nil
		}
		effect := agent.AnswerEffect(e, data, true)
		if effect.Kind == actor.EffectReply {
			h.reply(effect.Name, effect.Body)
			return nil
		}
		return c.instead(e, effect.To, effect.Lane, agent.KindAnswer, effect.Body)
	}
	if e.Kind == agent.KindStop {
		var s agent.Stop
		if agent.Unpack(e.Body, &s) == nil {
			stopped := agent.Stopped{Cascade: s.Cascade, Status: a2e.Terminated}
			return c.instead(e, actor.Address{ID: e.From, Host: true}, actor.LaneHost, agent.KindStopped, agent.Pack(&stopped))
		}
	}
	if e.Seq == 0 {
		return nil
	}
	h.event(c.addr.ID, c.addr.ID, "dead_letter", actor.EnvelopeID{}, deadContent(why.Error()))
	effect := agent.DeadEffect(c.addr, why.Error(), e)
	return &write{try: func() actor.Ack { return h.dead(&effect) }}
}

// instead sends an envelope in the name of the thread that does not exist.
func (c *cell) instead(e *actor.Envelope, to actor.Address, lane actor.Lane, kind string, body []byte) *write {
	data := seal([]actor.Envelope{{ID: e.ID, From: c.addr.ID, Kind: kind, Body: body}})
	subject := c.p.h.Names.Inbox(to.ID, lane, c.addr.ID)
	return &write{what: data, try: func() actor.Ack { return c.p.h.Conn.Send(subject, data) }}
}
