package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// Send publishes to a stream and returns at once, or waits while 65,536 publishes of this connection
// are under way. Messages of one connection are stored in the order in which they were sent, but for
// those that are not stored at all: see Failure in the package's documentation. The message has no
// headers. The kinds of the Ack are those of [actor.Ack]; no server, no leader and no answer within
// 5 seconds are unavailable.
func (c *Conn) Send(subject string, data []byte) actor.Ack {
	return c.SendMsg(&nats.Msg{Subject: subject, Data: data})
}

// SendExpect is Send on the condition that last is the sequence of the last message of that subject,
// 0 when there must be none. Otherwise the kind is conflict; on a replicated stream also while
// another write to the subject is under way.
func (c *Conn) SendExpect(subject string, last uint64, data []byte) actor.Ack {
	return c.SendMsg(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(last, 10)},
	}})
}

// SendMsg is Send with the message's headers. It takes the message's reply subject for itself.
func (c *Conn) SendMsg(m *nats.Msg) actor.Ack { return c.sender.send(m) }

// A sender publishes to streams without waiting, and without the client library's retries: they
// would store a later message before an earlier one.
type sender struct {
	nc     *nats.Conn
	prefix string // of the reply subjects
	sub    *nats.Subscription
	room   chan struct{} // one for each publish under way
	stop   chan struct{}

	closing sync.Once
	mu      sync.Mutex
	next    uint64
	flying  map[uint64]*ack
}

func newSender(nc *nats.Conn) (*sender, error) {
	s := &sender{
		nc: nc, prefix: nc.NewInbox() + ".", room: make(chan struct{}, maxUnacked), stop: make(chan struct{}), flying: map[uint64]*ack{},
	}
	var err error
	if s.sub, err = nc.Subscribe(s.prefix+"*", s.answer); err != nil {
		return nil, err
	}
	if err := s.sub.SetPendingLimits(-1, -1); err != nil { // bounded by room
		return nil, err
	}
	go s.expire()
	return s, nil
}

func (s *sender) send(m *nats.Msg) actor.Ack {
	a := &ack{subject: m.Subject, at: time.Now(), life: s.nc.Stats().Reconnects, done: make(chan struct{})}
	s.room <- struct{}{}
	s.mu.Lock()
	s.next++
	n := s.next
	s.flying[n] = a
	s.mu.Unlock()
	m.Reply = s.prefix + strconv.FormatUint(n, 36)
	if err := s.nc.PublishMsg(m); err != nil {
		s.settle(n, 0, err)
	}
	return a
}

// settle gives the publish n its outcome, if it has none yet.
func (s *sender) settle(n, seq uint64, err error) {
	s.mu.Lock()
	a := s.flying[n]
	delete(s.flying, n)
	s.mu.Unlock()
	if a == nil {
		return
	}
	a.seq = seq
	if err != nil {
		a.err = wrap("bus.Send", "publish to "+a.subject, err)
	}
	close(a.done)
	<-s.room
}

// answer takes an acknowledgement from the server.
func (s *sender) answer(m *nats.Msg) {
	n, err := strconv.ParseUint(m.Subject[len(s.prefix):], 36, 64)
	if err != nil {
		return // not one of ours
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		s.settle(n, 0, jetstream.ErrNoStreamResponse)
		return
	}
	if seq, ok := quickAck(m.Data); ok {
		s.settle(n, seq, nil)
		return
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		s.settle(n, 0, fmt.Errorf("an acknowledgement that can't be read: %w", err))
	case answer.Error != nil:
		s.settle(n, 0, answer.Error)
	case answer.Seq == 0:
		s.settle(n, 0, jetstream.ErrInvalidJSAck)
	default:
		s.settle(n, answer.Seq, nil)
	}
}

// quickAck reads the usual form, {"stream":"NAME", "seq":N} and nothing more, without the cost of a
// JSON decoder.
func quickAck(data []byte) (seq uint64, ok bool) {
	const head, middle = `{"stream":"`, `"seq":`
	if len(data) < len(head)+len(middle)+4 || string(data[:len(head)]) != head || data[len(data)-1] != '}' {
		return 0, false
	}
	at := len(data) - 2
	for scale := uint64(1); at > 0 && data[at] >= '0' && data[at] <= '9' && scale != 0; at, scale = at-1, scale*10 {
		seq += uint64(data[at]-'0') * scale
	}
	at++
	if at < len(middle) || string(data[at-len(middle):at]) != middle {
		return 0, false
	}
	return seq, seq > 0
}

func (s *sender) close() { s.closing.Do(func() { close(s.stop) }) }

// expire fails what got no answer in time, until the connection is closed.
func (s *sender) expire() {
	tick := time.NewTicker(publishTimeout / 5)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			s.fail(nats.ErrConnectionClosed, func(*ack) bool { return true })
			return
		case now := <-tick.C:
			s.fail(jetstream.ErrAsyncPublishTimeout, func(a *ack) bool { return now.Sub(a.at) > publishTimeout })
		}
	}
}

// fail gives those publishes that lost says are lost their outcome.
func (s *sender) fail(err error, lost func(*ack) bool) {
	s.mu.Lock()
	var numbers []uint64
	for n, a := range s.flying {
		if lost(a) {
			numbers = append(numbers, n)
		}
	}
	s.mu.Unlock()
	for _, n := range numbers {
		s.settle(n, 0, err)
	}
}

// disconnected fails what was published on a connection that is lost: the acknowledgements will not
// come on another. NATS tells of the loss at some time after it; the next life may have begun.
func (s *sender) disconnected() {
	lost := s.nc.Stats().Reconnects
	down := !s.nc.IsConnected()
	now := s.nc.Stats().Reconnects
	if lost != now || !down {
		lost = now - 1
	}
	if lost <= now {
		s.fail(nats.ErrDisconnected, func(a *ack) bool { return a.life <= lost })
	}
}

// An ack is a publish under way.
type ack struct {
	subject string
	at      time.Time
	life    uint64        // the connection's, which ends when it is lost
	done    chan struct{} // closed when seq and err are set
	seq     uint64
	err     error
}

// Wait implements [actor.Ack]. The kind is timeout when ctx ends first; the answer may still come.
func (a *ack) Wait(ctx context.Context) (uint64, error) {
	select {
	case <-a.done:
		return a.seq, a.err
	default:
	}
	select {
	case <-a.done:
		return a.seq, a.err
	case <-ctx.Done():
		return 0, wrap("bus.Send", "wait for the acknowledgement of "+a.subject, ctx.Err())
	}
}

// refused is the ack of what was never published.
func refused(err error) *ack {
	a := &ack{err: err, done: make(chan struct{})}
	close(a.done)
	return a
}
