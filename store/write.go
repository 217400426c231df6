package store

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// expect makes the write fail unless the subject's last message has this sequence; 0 means that
// there must be none.
func expect(last uint64) nats.Header {
	return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(last, 10)}}
}

// publish sends m on its way. op and id go into the error; without op the error stays bare.
func (l *link) publish(op string, id actor.ID, m *nats.Msg) actor.Ack {
	return &ack{Ack: l.sender.SendMsg(m), op: op, id: id}
}

// put publishes the value of a key.
func (b bucket) put(op string, id actor.ID, key string, data []byte, header nats.Header) actor.Ack {
	return b.publish(op, id, &nats.Msg{Subject: b.domain + b.subject(key), Data: data, Header: header})
}

// save writes the JSON value of a key and waits until it is stored.
func (b bucket) save(ctx context.Context, op, key string, v any, header nats.Header) (rev uint64, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, fault(op, "", err)
	}
	return b.put(op, "", key, data, header).Wait(ctx)
}

// remove marks a key as deleted.
func (b bucket) remove(op, key string) actor.Ack {
	return b.publish(op, "", &nats.Msg{
		Subject: b.domain + b.subject(key),
		Header:  nats.Header{operationHeader: {operationDelete}},
	})
}

// An ack is a publish under way, whose error says what was being done.
type ack struct {
	actor.Ack
	op string
	id actor.ID

	once  sync.Once
	final error // once it has failed
}

// Wait implements [actor.Ack].
func (a *ack) Wait(ctx context.Context) (uint64, error) {
	seq, err := a.Ack.Wait(ctx)
	if err == nil || actor.KindOf(err) == actor.Timeout { // of ctx: the answer may still come
		return seq, fault(a.op, a.id, err)
	}
	a.once.Do(func() { a.final = fault(a.op, a.id, err) })
	return 0, a.final
}

// invalid is a write that was never sent.
type invalid struct{ err error }

// Wait implements [actor.Ack].
func (i invalid) Wait(context.Context) (uint64, error) { return 0, i.err }
