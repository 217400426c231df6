package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A deadLetter is what stands in the stream of dead letters: an envelope that its actor could not
// take, and why. Data is set when the envelope was JSON, Raw (base64) otherwise.
type deadLetter struct {
	Reason  string          `json:"reason"`
	Subject string          `json:"subject"`
	At      time.Time       `json:"at"`
	Data    json.RawMessage `json:"data,omitempty"`
	Raw     []byte          `json:"data_b64,omitempty"`
}

// DeadLetter keeps an envelope that the actor id could not take, for 30 days: the subject that it
// came by, its data, and the reason in words. One whose data is near the server's limit may be
// too_large; it is then kept without its data.
func (c *Conn) DeadLetter(names subjects.Names, id actor.ID, reason, subject string, data []byte) actor.Ack {
	letter := deadLetter{Reason: reason, Subject: subject, At: time.Now().UTC()}
	if utf8.Valid(data) && json.Valid(data) {
		letter.Data = data
	} else {
		letter.Raw = data
	}
	text, err := json.Marshal(letter)
	if err == nil && int64(len(text)) > c.MaxPayload() {
		letter.Data, letter.Raw = nil, nil
		letter.Reason += " (too large to keep its data)"
		text, err = json.Marshal(letter)
	}
	if err != nil {
		return refused(wrap("bus.DeadLetter", "encode", err))
	}
	return c.Send(names.Dead(id), text)
}

// A Dead is a dead letter as it is kept.
type Dead struct {
	Seq     uint64
	ID      actor.ID  // the actor that could not take it
	At      time.Time // when it was given up
	Reason  string
	Subject string // that it came by; "" when it did not come by itself, or is not known any more
	Data    []byte // as it came; nil when it was too large to keep
}

// EachDead calls fn with the dead letters of an actor, of all when id is "", oldest first, and stops at fn's error,
// which it returns as it is. Those that come meanwhile may be among them. What somebody else has put into the stream
// is left out.
func (c *Conn) EachDead(ctx context.Context, names subjects.Names, id actor.ID, fn func(Dead) error) error {
	const op = "bus.EachDead"
	filter := names.DeadFilter()
	if id != "" {
		filter = names.Dead(id)
	}
	s, err := c.JS.Stream(ctx, names.DeadStream())
	for seq := uint64(1); err == nil; seq++ {
		var m *jetstream.RawStreamMsg
		m, err = s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(filter))
		if err != nil {
			break
		}
		seq = m.Sequence
		if d, bad := readDead(names, m); bad == nil {
			if stop := fn(d); stop != nil {
				return stop
			}
		}
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	return wrap(op, "read "+names.DeadStream(), err)
}

// Dead reads a dead letter. The kind is not_found when there is none of that sequence, or no more.
func (c *Conn) Dead(ctx context.Context, names subjects.Names, seq uint64) (Dead, error) {
	const op = "bus.Dead"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	what := "dead letter " + strconv.FormatUint(seq, 10)
	if seq == 0 { // to the server, the last one
		return Dead{}, refuse(op, actor.NotFound, "%s: they count from 1", what)
	}
	s, err := c.JS.Stream(ctx, names.DeadStream())
	if err != nil {
		return Dead{}, wrap(op, what, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return Dead{}, wrap(op, what, err)
	}
	d, err := readDead(names, m)
	return d, wrap(op, what, err)
}

// DropDead deletes a dead letter. The kind is not_found when there is none of that sequence, or no more.
func (c *Conn) DropDead(ctx context.Context, names subjects.Names, seq uint64) error {
	const op = "bus.DropDead"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	if _, err := c.Dead(ctx, names, seq); err != nil {
		return err
	}
	s, err := c.JS.Stream(ctx, names.DeadStream())
	if err == nil {
		err = s.DeleteMsg(ctx, seq)
	}
	return wrap(op, "dead letter "+strconv.FormatUint(seq, 10), err)
}

func readDead(names subjects.Names, m *jetstream.RawStreamMsg) (Dead, error) {
	id, err := names.ParseDead(m.Subject)
	if err != nil {
		return Dead{}, err
	}
	var letter deadLetter
	if err := json.Unmarshal(m.Data, &letter); err != nil {
		return Dead{}, fmt.Errorf("it is not what is written here: %w", err)
	}
	d := Dead{Seq: m.Sequence, ID: id, At: letter.At, Reason: letter.Reason, Subject: letter.Subject, Data: letter.Raw}
	if letter.Data != nil {
		d.Data = letter.Data
	}
	return d, nil
}
