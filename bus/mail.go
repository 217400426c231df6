package bus

import (
	"context"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A Mail is a completion that was left for an owner outside.
type Mail struct {
	Seq     uint64 // its place in the mail stream
	From    actor.ID
	Session string
	Time    time.Time
	Data    []byte // a SUBAGENT_AWAIT_RESP
}

// ReadMail calls deliver with each mail of an agent from a stream sequence on, 0 being the beginning,
// then with each that comes, once and in order, until ctx ends; then it returns nil. Mail is kept
// for 7 days. Its errors are those of [Reader.Serve].
func (c *Conn) ReadMail(ctx context.Context, names subjects.Names, agent actor.ID, from uint64, deliver func(Mail)) error {
	t := tail{
		conn:   c,
		stream: names.MailStream(),
		filter: names.MailAgent(agent),
		next:   max(from, 1),
		retry:  func(error) {},
		deliver: func(m *nats.Msg, p position) {
			// Only the runtime writes mail. What does not parse is a stranger's and for nobody.
			if _, sender, session, err := names.ParseMail(m.Subject); err == nil {
				deliver(Mail{Seq: p.stream, From: sender, Session: session, Time: time.Unix(0, p.time), Data: m.Data})
			}
		},
	}
	return t.serve(ctx)
}

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
