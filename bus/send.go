package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// once switches off the library's own retries, which store a later message before an earlier one,
// and lets a publisher that has too many under way wait as long as an acknowledgement may take.
var once = []jetstream.PublishOpt{jetstream.WithRetryAttempts(0), jetstream.WithStallWait(publishTimeout)}

// Send publishes to a stream and returns at once, or waits while 65,536 publishes of this connection
// are under way. Messages of one connection are stored in the order in which they were sent, but for
// those that are not stored at all: see Failure in the package's documentation. The message has no
// headers. The kinds of the Ack are those of [actor.Ack]; no server, no leader and no answer within
// 5 seconds are unavailable.
func (c *Conn) Send(subject string, data []byte) actor.Ack {
	return c.publish(&nats.Msg{Subject: subject, Data: data}, once)
}

// SendExpect is Send on the condition that last is the sequence of the last message of that subject,
// 0 when there must be none. Otherwise the kind is conflict; on a replicated stream also while
// another write to the subject is under way.
func (c *Conn) SendExpect(subject string, last uint64, data []byte) actor.Ack {
	return c.publish(&nats.Msg{Subject: subject, Data: data},
		append(once[:len(once):len(once)], jetstream.WithExpectLastSequencePerSubject(last)))
}

func (c *Conn) publish(m *nats.Msg, opts []jetstream.PublishOpt) actor.Ack {
	future, err := c.JS.PublishMsgAsync(m, opts...)
	if err != nil {
		return &ack{subject: m.Subject, done: true, err: wrap("bus.Send", "publish to "+m.Subject, err)}
	}
	return &ack{subject: m.Subject, future: future}
}

// An ack is a publish under way.
type ack struct {
	subject string

	mu     sync.Mutex // held while waiting, which the publish timeout bounds
	future jetstream.PubAckFuture
	done   bool
	seq    uint64
	err    error
}

// Wait implements [actor.Ack]. The kind is timeout when ctx ends first; the answer may still come.
// Several waiters take turns, so the second may wait past the end of its context, for the 5 seconds
// at most in which every publish is answered.
func (a *ack) Wait(ctx context.Context) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return a.seq, a.err
	}
	select {
	case stored := <-a.future.Ok():
		a.seq = stored.Sequence
	case err := <-a.future.Err():
		a.err = wrap("bus.Send", "publish to "+a.subject, err)
	case <-ctx.Done():
		return 0, wrap("bus.Send", "wait for the acknowledgement of "+a.subject, ctx.Err())
	}
	a.done, a.future = true, nil
	return a.seq, a.err
}
