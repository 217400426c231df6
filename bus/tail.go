package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/troupehq/troupe/actor"
)

const (
	pullBatch     = 2048                    // messages asked for ahead of delivery
	pullBytes     = 4 << 20                 // and bytes, unless two of the largest messages are more
	pullExpiry    = 30 * time.Second        // of a request for messages
	heartbeat     = time.Second             // of an idle consumer
	silence       = 5 * heartbeat / 2       // without anything: the consumer is taken for lost
	createTimeout = 2 * time.Second         // of a consumer; its node may just have died
	deleteTimeout = time.Second             // of a consumer, on exit
	idleConsumer  = 10 * time.Second        // after which the server drops a consumer by itself
	retryWait     = 50 * time.Millisecond   // after the second failure in a row, then doubling
	retryWaitMax  = 1000 * time.Millisecond // at most
	missingAfter  = 5 * time.Second         // a stream that is not found for so long does not exist
)

var (
	errGap          = errors.New("a gap in the consumer's numbering")
	errSilence      = errors.New("no heartbeat from the consumer")
	errReconnecting = errors.New("the connection broke")
)

// A tail follows a stream from a sequence on, through one consumer at a time: ack-none, in memory,
// without replicas. Nothing depends on the consumer: when anything about it is in doubt, another one
// begins behind the last message delivered.
type tail struct {
	conn    *Conn
	stream  string
	filter  string
	next    uint64 // the first sequence that was not delivered yet
	deliver func(m *nats.Msg, p position)
	retry   func(error) // told why a consumer was given up
}

// serve delivers until ctx ends, then returns nil. It fails only when the connection is closed or
// the stream does not exist.
func (t *tail) serve(ctx context.Context) error {
	nc := t.conn.NC
	status := nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(status)
	var wait time.Duration
	var missing time.Time
	for {
		before := t.next
		err := t.session(ctx, status)
		if ctx.Err() != nil {
			return nil
		}
		if nc.IsClosed() {
			return wrap("bus.Serve", "read "+t.stream, nats.ErrConnectionClosed)
		}
		switch {
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) > missingAfter:
			return wrap("bus.Serve", "read "+t.stream, err)
		}
		t.retry(wrap("bus.Serve", "read "+t.stream, err))
		if t.next > before {
			wait = 0
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(max(2*wait, retryWait), retryWaitMax)
	}
}

// session delivers through one consumer until ctx ends or the consumer is in doubt.
func (t *tail) session(ctx context.Context, status <-chan nats.Status) error {
	if err := t.connected(ctx, status); err != nil {
		return err
	}
	name := nuid.Next()
	defer t.drop(ctx, name)
	if err := t.create(ctx, name); err != nil {
		return err
	}
	nc := t.conn.NC
	// Room for what is asked for, and for the heartbeats that come while Deliver blocks.
	msgs := make(chan *nats.Msg, 2*pullBatch+256)
	sub, err := nc.ChanSubscribe(nc.NewInbox(), msgs)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	// It fails only when the connection is closed, and the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()
	s := &session{tail: t, inbox: sub.Subject, subject: t.conn.api + "CONSUMER.MSG.NEXT." + t.stream + "." + name}
	s.bytes = max(pullBytes, 2*int(nc.MaxPayload()))
	return s.run(ctx, msgs, status)
}

// connected waits for the connection and forgets what happened to it before.
func (t *tail) connected(ctx context.Context, status <-chan nats.Status) error {
	for {
		select {
		case <-status:
			continue
		default:
		}
		if t.conn.NC.IsConnected() {
			return nil
		}
		if t.conn.NC.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-status:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *tail) create(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	_, err := t.conn.JS.CreateConsumer(ctx, t.stream, jetstream.ConsumerConfig{
		Name:              name,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       t.next,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     t.filter,
		InactiveThreshold: idleConsumer,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return fmt.Errorf("create a consumer: %w", err)
	}
	return nil
}

// drop deletes a consumer. On exit it waits for that. When another one is to follow it does not:
// whatever made this one doubtful may keep the answer away, too. What can't be deleted now goes by
// itself after a while, so errors end here.
func (t *tail) drop(ctx context.Context, name string) {
	if ctx.Err() == nil {
		_ = t.conn.NC.Publish(t.conn.api+"CONSUMER.DELETE."+t.stream+"."+name, nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if t.conn.NC.IsConnected() {
		_ = t.conn.JS.DeleteConsumer(ctx, t.stream, name)
	}
}

// A session is the life of one consumer.
type session struct {
	*tail
	inbox   string // where the consumer delivers to
	subject string // where messages are asked for
	bytes   int
	asked   int    // messages asked for and neither received nor refused
	last    uint64 // the consumer's number of the last message received
}

// run asks for messages and delivers them. It waits for nothing else while there are messages.
func (s *session) run(ctx context.Context, msgs <-chan *nats.Msg, status <-chan nats.Status) error {
	watchdog := time.NewTimer(silence)
	defer watchdog.Stop()
	for ctx.Err() == nil {
		if err := s.ask(); err != nil {
			return err
		}
		var m *nats.Msg
		select {
		case m = <-msgs:
		default:
			watchdog.Reset(silence)
			select {
			case m = <-msgs:
			case <-watchdog.C:
				return errSilence
			case <-status:
				return errReconnecting
			case <-ctx.Done():
				return nil
			}
		}
		if err := s.receive(m); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for another batch when less than half of one is still to come.
func (s *session) ask() error {
	if s.asked >= pullBatch/2 {
		return nil
	}
	n := pullBatch - s.asked
	request := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`,
		n, s.bytes, pullExpiry, heartbeat)
	if err := s.conn.NC.PublishRequest(s.subject, s.inbox, request); err != nil {
		return fmt.Errorf("ask for messages: %w", err)
	}
	s.asked += n
	return nil
}

// receive takes what came to the inbox: a message under its own subject, or word from the server.
func (s *session) receive(m *nats.Msg) error {
	if m.Subject == s.inbox {
		return s.word(m)
	}
	p, err := parsePosition(m.Reply)
	if err != nil {
		return err
	}
	s.asked--
	if p.consumer != s.last+1 {
		return errGap
	}
	s.last = p.consumer
	if p.stream < s.next {
		return nil // delivered through an earlier consumer
	}
	s.deliver(m, p)
	s.next = p.stream + 1
	return nil
}

// word is the server's word on a request for messages: a heartbeat, or that it came to an end.
func (s *session) word(m *nats.Msg) error {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	if code == "100" {
		if delivered, ok := number(m.Header.Get("Nats-Last-Consumer")); ok && delivered > s.last {
			return errGap
		}
		return nil
	}
	left, ok := number(m.Header.Get("Nats-Pending-Messages"))
	if !ok {
		return &actor.Error{Op: "bus.Serve", Kind: actor.Unavailable, Err: fmt.Errorf("the consumer is gone: %s %s", code, text)}
	}
	s.asked = max(0, s.asked-int(left))
	return nil
}
