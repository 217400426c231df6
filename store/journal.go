package store

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A Message is one record of a journal as it was stored. Seq is its sequence in the journal stream,
// which all journals share: it orders records of different actors, too.
type Message struct {
	Seq  uint64
	Time time.Time
	Data []byte
}

// A Journal holds the records of all actors of a namespace.
type Journal struct {
	log   stream
	names subjects.Names
}

// Append records data as the next message of a's journal, whose last message must have the sequence
// last; 0 means that it must be the first. The sequence that Wait gives is what the next Append
// names. Conflict means that somebody else has recorded since, or is recording now. Messages of one
// journal that are appended one after the other are stored in that order or not at all; appends to
// different journals do not wait for one another.
func (j *Journal) Append(a actor.Address, last uint64, data []byte) actor.Ack {
	return j.log.publish("store.Journal.Append", a.ID, &nats.Msg{Subject: j.names.Journal(a), Data: data, Header: expect(last)})
}

// Last reads the last record of a's journal. NotFound means that a has none.
func (j *Journal) Last(ctx context.Context, a actor.Address) (Message, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	m, err := j.log.get(ctx, query{Last: j.names.Journal(a)})
	if err != nil {
		return Message{}, fault("store.Journal.Last", a.ID, err)
	}
	return message(m), nil
}

// At reads the record with a sequence, and says whose it is. NotFound means that there is none.
func (j *Journal) At(ctx context.Context, seq uint64) (Message, actor.Address, error) {
	const op = "store.Journal.At"
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	if seq == 0 { // to the server, no sequence at all
		return Message{}, actor.Address{}, fault(op, "", errNoMessage)
	}
	m, err := j.log.get(ctx, query{Seq: seq})
	if err != nil {
		return Message{}, actor.Address{}, fault(op, "", fmt.Errorf("sequence %d: %w", seq, err))
	}
	a, err := j.names.ParseJournal(m.Subject)
	if err != nil {
		return Message{}, actor.Address{}, fault(op, "", fmt.Errorf("sequence %d: %w", seq, err))
	}
	return message(m), a, nil
}

// Range calls fn with the records of a's journal from the sequence from up to and including to, in
// order and each once, and stops at fn's error, which it returns as it is. The record at to must
// exist and be a's: Range does not end before it has seen it, so that a replica that lags behind is
// waited for. NotFound means that there is no such record; fn may have seen earlier ones. When from
// is behind to there is nothing to do. The Data that fn gets is its own.
func (j *Journal) Range(ctx context.Context, a actor.Address, from, to uint64, fn func(Message) error) error {
	const op = "store.Journal.Range"
	if from > to {
		return nil
	}
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	var seen uint64
	var stop error
	err := j.log.scan(ctx, scan{j.names.Journal(a), from, to, largeMessages}, func(m stored) error {
		seen = m.Seq
		stop = fn(message(m))
		return stop
	})
	switch {
	case stop != nil:
		return stop
	case err == nil && seen != to:
		err = errNoMessage
	}
	if err != nil {
		return fault(op, a.ID, fmt.Errorf("sequences %d to %d: %w", from, to, err))
	}
	return nil
}

func message(m stored) Message { return Message{Seq: m.Seq, Time: m.Time, Data: m.Data} }
