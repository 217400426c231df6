package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
)

// A DeadLetter is a message that its recipient could not take. At most one of Data, Envelope and Raw is set.
type DeadLetter struct {
	Seq      uint64          `json:"seq"`
	ID       actor.ID        `json:"id"` // the recipient
	At       time.Time       `json:"at"`
	Reason   string          `json:"reason"`
	From     actor.ID        `json:"from,omitempty"`
	Lane     actor.Lane      `json:"lane,omitempty"`     // with From, if it is known how it came
	Data     json.RawMessage `json:"data,omitempty"`     // as it came, if that is JSON
	Envelope json.RawMessage `json:"envelope,omitempty"` // the runtime's own, made readable
	Raw      []byte          `json:"data_b64,omitempty"`

	dead bus.Dead
}

// letter makes what is kept readable.
func (c *Client) letter(d bus.Dead) DeadLetter {
	l := DeadLetter{Seq: d.Seq, ID: d.ID, At: d.At, Reason: d.Reason, dead: d}
	if route, err := c.cfg.Names.ParseInbox(d.Subject); err == nil {
		l.From, l.Lane = route.From, route.Lane
	}
	if len(d.Data) == 0 {
		return l
	}
	if utf8.Valid(d.Data) && json.Valid(d.Data) {
		l.Data = d.Data
	} else if text, err := agent.ReadableEnvelope(d.Data); err == nil {
		l.Envelope = text
	} else {
		l.Raw = d.Data
	}
	return l
}

// DeadLetters lists the dead letters of a recipient, of all when id is "", that were given up at a time or later,
// oldest first. It needs the right to read the stream of dead letters, as do the functions below.
func (c *Client) DeadLetters(ctx context.Context, id actor.ID, since time.Time) ([]DeadLetter, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	all := []DeadLetter{}
	err := c.cfg.Conn.EachDead(ctx, c.cfg.Names, id, func(d bus.Dead) error {
		if !d.At.Before(since) {
			all = append(all, c.letter(d))
		}
		return nil
	})
	return all, err
}

// DeadLetter reads one. NotFound means that there is none, or no more.
func (c *Client) DeadLetter(ctx context.Context, seq uint64) (DeadLetter, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	d, err := c.cfg.Conn.Dead(ctx, c.cfg.Names, seq)
	return c.letter(d), err
}

// DropDeadLetter deletes one. NotFound means that there is none, or no more.
func (c *Client) DropDeadLetter(ctx context.Context, seq uint64) error {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	return c.cfg.Conn.DropDead(ctx, c.cfg.Names, seq)
}

// ReplayDeadLetter sends a dead letter to the inbox that it came to, as a new message, and then deletes it. What came by
// the lanes of the runtime is refused as a Conflict unless forced: who sent it may long have gone on without it. A
// letter of which it is not known how it came, or whose data was not kept, is a Conflict always. When the process ends
// in between, the message was sent and the letter is still there.
func (c *Client) ReplayDeadLetter(ctx context.Context, seq uint64, force bool) error {
	const op = "client.ReplayDeadLetter"
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	l, err := c.DeadLetter(ctx, seq)
	if err != nil {
		return err
	}
	conflict := func(why string) error {
		return &actor.Error{Op: op, ID: l.ID, Kind: actor.Conflict, Err: fmt.Errorf("dead letter %d %s", seq, why)}
	}
	data := l.dead.Data
	switch open := l.Lane == actor.LaneA || l.Lane == actor.LaneB; {
	case l.Lane == "":
		return conflict("does not say by which inbox it came")
	case len(data) == 0:
		return conflict("was kept without its data")
	case !open && !force:
		return conflict(fmt.Sprintf("is the runtime's own, from lane %s: it can only be forced", l.Lane))
	case !open:
		data = agent.Anew(data)
	}
	if _, err := c.cfg.Conn.Send(l.dead.Subject, data).Wait(ctx); err != nil {
		return &actor.Error{Op: op, ID: l.ID, Kind: actor.KindOf(err), Err: err}
	}
	if err := c.cfg.Conn.DropDead(ctx, c.cfg.Names, seq); err != nil && !errors.Is(err, actor.NotFound) {
		return err
	}
	return nil
}
