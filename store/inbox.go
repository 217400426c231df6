package store

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// Inbox reads messages of an actor's inbox a second time, for an owner that had no room for them when they came.
type Inbox struct {
	log   stream
	names subjects.Names
}

// A Letter is a message of an inbox.
type Letter struct {
	Seq  uint64
	Lane actor.Lane
	From actor.ID
	Time time.Time
	Data []byte
}

// Range calls fn with the messages to an actor, and to the host of its tree, from a sequence up to and including another,
// in order and each once. It stops when fn returns false. What was deleted meanwhile is left out; whether there is no
// more the leader says, so that a replica that lags hides nothing. fn may take its time, and the Data that it gets is its
// own. There is no deadline but that of ctx.
func (i *Inbox) Range(ctx context.Context, partition int, to actor.ID, from, upto uint64, fn func(Letter) bool) error {
	err := i.log.scan(ctx, scan{i.names.InboxOf(partition, to), from, upto, largeMessages}, func(m stored) error {
		_, route, err := i.names.ParseStoredInbox(m.Subject)
		if err == nil && !fn(Letter{m.Seq, route.Lane, route.From, m.Time, m.Data}) {
			return errDone
		}
		return nil
	})
	return fault("store.Inbox.Range", to, err)
}

// FirstAbove tells when the first message of a partition above a sequence was stored; ok is false when there is none.
func (i *Inbox) FirstAbove(ctx context.Context, partition int, seq uint64) (at time.Time, ok bool, err error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	m, err := i.log.get(ctx, query{Seq: seq + 1, Next: i.names.InboxPartition(partition)})
	if errors.Is(err, errNoMessage) {
		return at, false, nil
	}
	return m.Time, err == nil, fault("store.Inbox.FirstAbove", "", err)
}
