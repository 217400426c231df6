package bus

import (
	"context"
	"time"

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
