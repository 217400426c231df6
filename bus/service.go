package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	drainTick  = 10 * time.Millisecond
	drainMax   = 2 * time.Second
	maxWaiting = 1 << 30 // bytes of requests that have arrived and wait for handle
)

// A Request is one SUBAGENT_* message that came as a NATS request. It is answered, when and by whom
// it may be, with [Conn.Publish] to Reply. Reply is empty when no answer is wanted, and safe to
// publish to otherwise.
type Request struct {
	Agent  actor.ID // who asks, by the subject, which permissions can pin
	Data   []byte
	Reply  string
	Header map[string][]string
}

// ServeA2E takes the requests of all agents, sharing them with every process that does the same, and
// passes each to handle. It runs until ctx ends, then takes no more, hands over those that have
// arrived, and returns nil; no call of handle begins later. It fails when it can't start:
// schema_violation for a version that is not like 1.2.3, unavailable without a connection.
//
// open is called once requests arrive. handle is called one request at a time and must not block: up
// to 1 GiB of requests wait for it, in any number, and what comes on top of that is dropped. The
// service is a NATS micro service named like the namespace: "nats micro ls" shows it. A request whose
// subject names no valid agent is answered with the service error 400, whose body is the error
// of the protocol; one whose reply subject the runtime must not publish to is dropped, since any
// answer would go there.
func (c *Conn) ServeA2E(ctx context.Context, names subjects.Names, version string, open func(), handle func(Request)) error {
	const op = "bus.ServeA2E"
	s := &service{names: names, handle: handle}
	ms, err := micro.AddService(c.NC, micro.Config{
		Name:        names.Namespace(),
		Version:     version,
		Description: "A2E subagents: SUBAGENT_* requests, one subject for each agent that asks",
	})
	if err != nil {
		return startError(op, err)
	}
	err = ms.AddEndpoint("a2e", s, micro.WithEndpointSubject(names.A2EAll()), micro.WithEndpointPendingLimits(-1, maxWaiting))
	if err == nil {
		err = c.flush(flushTimeout)
	}
	if err == nil {
		open()
		<-ctx.Done()
	}
	stopErr := ms.Stop()
	if err != nil {
		return startError(op, err)
	}
	s.drain(c)
	return wrap(op, "stop the service", stopErr)
}

func startError(op string, err error) error {
	if errors.Is(err, micro.ErrConfigValidation) {
		return refuse(op, actor.SchemaViolation, "start the service: %w", err)
	}
	return wrap(op, "start the service", err)
}

// A service is what stands between micro and handle.
type service struct {
	names  subjects.Names
	handle func(Request)

	mu     sync.Mutex // held during a call of handle
	calls  int
	closed bool
}

// Handle implements [micro.Handler].
func (s *service) Handle(r micro.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.closed || s.names.ReplyAllowed(r.Reply()) != nil {
		return
	}
	agent, err := s.names.ParseA2E(r.Subject())
	if err != nil {
		s.refuse(r, err)
		return
	}
	s.handle(Request{Agent: agent, Data: r.Data(), Reply: r.Reply(), Header: r.Headers()})
}

// refuse answers a request that is nobody's, for those who look at headers and for those who don't.
func (s *service) refuse(r micro.Request, why error) {
	if r.Reply() == "" {
		return
	}
	body, err := a2e.Encode(a2e.NewError(a2e.DecodeEnvelope(r.Data()), time.Now(), why))
	if err != nil {
		body = nil // the header still tells
	}
	// It fails only when the connection is down, and then nobody waits for it either.
	_ = r.Error("400", why.Error(), body)
}

// drain waits until the requests that have arrived are handed over: those behind a flush are in the
// subscription's queue, and micro does not say when that is empty, so it is when no more come out.
func (s *service) drain(c *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	// Without a connection nothing more arrives.
	_ = c.NC.FlushWithContext(ctx)
	for before := -1; before != s.count() && pause(ctx, drainTick); {
		before = s.count()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}
