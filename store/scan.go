package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	smallScan = 16 // so many messages are cheaper to get one by one than by a consumer

	// How many messages may be on their way to us. The server cuts off a connection with 64 MiB
	// pending; records and chunks are at most half a MiB.
	largeMessages = 64
	smallMessages = 1024

	everything = uint64(math.MaxUint64) // as the end of a scan: all there is

	consumerDeadline = 2 * time.Second        // to create or remove a consumer
	consumerForgot   = 10 * time.Second       // when the server drops one that nobody reads
	heartbeat        = 500 * time.Millisecond // twice that without one, and the consumer is given up
	silence          = time.Second            // without a message, and a reader looks what is wrong
)

var (
	errBroken = errors.New("the consumer broke off") // the rest can be read by another
	errDone   = errors.New("done")                   // ends a scan from inside, without an error

	errCaughtUp = errors.New("the consumer has no more")
)

// A scan reads the messages of a stream that match filter, from a sequence up to and including
// another, in order.
type scan struct {
	filter   string
	from, to uint64
	window   int
}

// scan calls fn for each message of sc and returns fn's error at once; errDone just ends it. It
// alternates between the leader, which alone says that there are no more, and a consumer, which is
// quick. Each message is told once, whatever happens to leaders and connections meanwhile.
func (s stream) scan(ctx context.Context, sc scan, fn func(stored) error) error {
	sc.from = max(sc.from, 1)
	var stop error // fn's
	take := func(m stored) error {
		if m.Seq > sc.to {
			return errDone
		}
		sc.from = m.Seq + 1
		if stop = fn(m); stop != nil {
			return stop
		}
		if m.Seq == sc.to {
			return errDone
		}
		return nil
	}
	for {
		err := s.oneByOne(ctx, &sc, take)
		if err == nil {
			err = s.bulk(ctx, &sc, take)
		}
		switch {
		case errors.Is(err, errDone):
			return nil
		case stop != nil:
			return stop
		case !errors.Is(err, errBroken) && !errors.Is(err, errCaughtUp):
			return err
		case ctx.Err() != nil:
			return &unanswered{s.name, errors.Join(ctx.Err(), err)}
		}
	}
}

// oneByOne gets a few messages from the leader. It returns errDone when there are no more.
func (s stream) oneByOne(ctx context.Context, sc *scan, take func(stored) error) error {
	for range smallScan {
		m, err := s.get(ctx, query{Seq: sc.from, Next: sc.filter})
		if errors.Is(err, errNoMessage) {
			return errDone
		}
		if err == nil {
			err = take(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bulk reads on through a consumer until it has no more. Whether that is all only the leader knows:
// the consumer may sit on a replica that lags, and a message that is overwritten before it is read
// comes back further on, while it moves not even counted.
func (s stream) bulk(ctx context.Context, sc *scan, take func(stored) error) error {
	return s.follow(ctx, *sc, false, func(m stored, pending uint64) error {
		err := take(m)
		if err == nil && pending == 0 {
			err = errCaughtUp
		}
		return err
	})
}

// follow reads from sc.from on through a consumer of its own and calls fn with each message and the
// number of those behind it, until fn returns an error. errBroken means that messages may have been
// missed after the last one that fn saw. Unless patient it does not wait for messages to come:
// errCaughtUp means that there were none, and silence is errBroken.
func (s stream) follow(ctx context.Context, sc scan, patient bool, fn func(stored, uint64) error) error {
	name := nuid.Next()
	defer s.forget(ctx, name)
	consumer, err := s.consumer(ctx, name, sc)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if !patient && consumer.CachedInfo().NumPending == 0 {
		return errCaughtUp
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(sc.window),
		jetstream.PullExpiry(10*heartbeat), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()

	var got, owed uint64 // consumer sequences: received, and known to be sent
	for {
		m, err := messages.Next(jetstream.NextMaxWait(silence))
		if errors.Is(err, nats.ErrTimeout) && patient {
			if owed, err = s.audit(ctx, consumer, got, owed); err == nil {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != got+1 {
			return fmt.Errorf("%w: a gap behind its message %d", errBroken, got)
		}
		got++
		err = fn(stored{
			Subject: m.Subject(), Seq: meta.Sequence.Stream, Time: meta.Timestamp.UTC(), Data: m.Data(),
			marker: m.Headers() != nil && isMarker(m.Headers()),
		}, meta.NumPending)
		if err != nil {
			return err
		}
	}
}

func (s stream) consumer(ctx context.Context, name string, sc scan) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, consumerDeadline)
	defer cancel()
	return s.js.CreateConsumer(ctx, s.name, jetstream.ConsumerConfig{
		Name:              name,
		FilterSubject:     sc.filter,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       sc.from,
		AckPolicy:         jetstream.AckNonePolicy,
		Replicas:          1,
		MemoryStorage:     true,
		InactiveThreshold: consumerForgot,
	})
}

// audit asks what a silent consumer has sent. A message that was sent before the last audit and has
// not come yet never will.
func (s stream) audit(ctx context.Context, c jetstream.Consumer, got, owed uint64) (uint64, error) {
	if owed > got {
		return 0, fmt.Errorf("messages %d to %d of the consumer were lost", got+1, owed)
	}
	ctx, cancel := context.WithTimeout(ctx, consumerDeadline)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	return info.Delivered.Consumer, nil
}

// forget removes a consumer, also after ctx has ended. What it cannot remove the server forgets.
func (s stream) forget(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), consumerDeadline)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, s.name, name)
}
