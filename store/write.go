package store

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// noRetry switches off the client library's own retry, which would store this message after others
// that were sent later.
var noRetry = jetstream.WithRetryAttempts(0)

// expect makes the write fail unless the subject's last message has this sequence; 0 means that
// there must be none.
func expect(last uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequencePerSubject(last)
}

// publish sends m on its way. op and id go into the error; without op the error stays bare.
func (l *link) publish(op string, id actor.ID, m *nats.Msg, opts ...jetstream.PublishOpt) actor.Ack {
	future, err := l.js.PublishMsgAsync(m, append(opts, noRetry)...)
	if err != nil {
		return refused{fault(op, id, err)}
	}
	return &ack{future: future, done: make(chan struct{}), op: op, id: id}
}

// put publishes the value of a key.
func (b bucket) put(op string, id actor.ID, key string, data []byte, opts ...jetstream.PublishOpt) actor.Ack {
	return b.publish(op, id, &nats.Msg{Subject: b.domain + b.subject(key), Data: data}, opts...)
}

// save writes the JSON value of a key and waits until it is stored.
func (b bucket) save(ctx context.Context, op, key string, v any, opts ...jetstream.PublishOpt) (rev uint64, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, fault(op, "", err)
	}
	return b.put(op, "", key, data, opts...).Wait(ctx)
}

// remove marks a key as deleted.
func (b bucket) remove(op, key string) actor.Ack {
	return b.publish(op, "", &nats.Msg{
		Subject: b.domain + b.subject(key),
		Header:  nats.Header{operationHeader: {operationDelete}},
	})
}

// An ack is a publish whose answer is on its way.
type ack struct {
	future jetstream.PubAckFuture
	done   chan struct{} // closed when seq and err are set
	seq    uint64
	err    error
	op     string
	id     actor.ID
}

// Wait is safe for several goroutines: the future answers only one of them, which tells the others.
func (a *ack) Wait(ctx context.Context) (uint64, error) {
	if a.settled() {
		return a.seq, a.err
	}
	limit, cancel := within(ctx, callDeadline)
	defer cancel()
	select {
	case stored := <-a.future.Ok():
		a.settle(stored.Sequence, nil)
	case err := <-a.future.Err():
		a.settle(0, err)
	case <-a.done:
	case <-limit.Done():
		if a.settled() {
			break
		}
		if err := ctx.Err(); err != nil {
			return 0, fault(a.op, a.id, err)
		}
		return 0, fault(a.op, a.id, nats.ErrTimeout) // the house deadline
	}
	return a.seq, a.err
}

// settled reports whether the answer is there, and takes it in.
func (a *ack) settled() bool {
	select {
	case stored := <-a.future.Ok():
		a.settle(stored.Sequence, nil)
	case err := <-a.future.Err():
		a.settle(0, err)
	case <-a.done:
	default:
		return false
	}
	return true
}

func (a *ack) settle(seq uint64, err error) {
	a.seq, a.err = seq, fault(a.op, a.id, err)
	close(a.done)
}

// refused is a write that was never sent.
type refused struct{ err error }

func (r refused) Wait(context.Context) (uint64, error) { return 0, r.err }
