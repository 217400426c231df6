package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/troupehq/troupe/actor"
)

const flushTimeout = 5 * time.Second

// Publish sends a message that no stream keeps: an event, or the answer to a request. It does not
// wait for the server. The kind is too_large past [Conn.MaxPayload], unavailable while disconnected.
func (c *Conn) Publish(subject string, data []byte) error {
	return wrap("bus.Publish", "publish to "+subject, c.NC.Publish(subject, data))
}

// Request sends a message and gives the first answer, within 5 seconds if ctx has no deadline. The
// kind is unavailable when nobody listens, timeout when nobody answers in time, too_large past
// [Conn.MaxPayload]. A service's own refusal is schema_violation for its codes 400 to 499, else
// runtime_error, and is a [ServiceError] below that.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	return c.RequestWith(ctx, subject, nil, data)
}

// RequestWith is Request with headers.
func (c *Conn) RequestWith(ctx context.Context, subject string, header map[string][]string, data []byte) ([]byte, error) {
	const op = "bus.Request"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	var answer *nats.Msg
	var err error
	if header == nil {
		answer, err = c.NC.RequestWithContext(ctx, subject, data)
	} else {
		answer, err = c.NC.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: header, Data: data})
	}
	if err != nil {
		return nil, wrap(op, "request to "+subject, err)
	}
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		kind := actor.RuntimeError
		if code[0] == '4' {
			kind = actor.SchemaViolation
		}
		return nil, refuse(op, kind, "request to %s: %w", subject, &ServiceError{code, answer.Header.Get(micro.ErrorHeader), answer.Data})
	}
	return answer.Data, nil
}

// A ServiceError is the refusal of a NATS micro service, as it came: its two headers and what it sent with
// them.
type ServiceError struct {
	Code        string
	Description string
	Data        []byte
}

// Error is the code and the description.
func (e *ServiceError) Error() string { return e.Code + ": " + e.Description }

// Service gives the three parts, for packages that can't name the type.
func (e *ServiceError) Service() (code, description string, data []byte) {
	return e.Code, e.Description, e.Data
}

// Subscribe calls fn with every message that is published to a subject from now on, which may hold
// wildcards; the server knows of it when Subscribe returns. fn is called one message at a time, in
// order. Messages that come while the connection is down are missed, as are those that pile up
// while fn is slow: events are live only. A call that is under way may outlast stop.
func (c *Conn) Subscribe(subject string, fn func(subject string, data []byte)) (stop func(), err error) {
	return c.subscribe("bus.Subscribe", subject, "", fn)
}

func (c *Conn) subscribe(op, subject, group string, fn func(subject string, data []byte)) (stop func(), err error) {
	var stopped atomic.Bool
	sub, err := c.NC.QueueSubscribe(subject, group, func(m *nats.Msg) {
		if !stopped.Load() {
			fn(m.Subject, m.Data)
		}
	})
	if err != nil {
		return nil, wrap(op, "subscribe to "+subject, err)
	}
	stop = func() {
		stopped.Store(true)
		// It fails only when the connection is closed, and the subscription with it.
		_ = sub.Unsubscribe()
	}
	if err := c.flush(flushTimeout); err != nil {
		stop()
		return nil, wrap(op, "subscribe to "+subject, err)
	}
	return stop, nil
}

// flush waits until the server has all that was sent before. A connection that is lost meanwhile and made again
// is flushed again: what was subscribed on it is subscribed on the next one, too.
func (c *Conn) flush(within time.Duration) error {
	until := time.Now().Add(within)
	for {
		err := c.NC.FlushTimeout(max(time.Until(until), time.Millisecond))
		if !errors.Is(err, nats.ErrConnectionClosed) || c.Closed() || time.Now().After(until) {
			return err
		}
		pause(context.Background(), reconnectSpray)
	}
}

// Share is Subscribe for several processes that share the messages: each goes to one of those that name the same group.
func (c *Conn) Share(subject, group string, fn func(subject string, data []byte)) (stop func(), err error) {
	return c.subscribe("bus.Share", subject, group, fn)
}

// NewInbox gives a subject of this connection's own to be answered on.
func (c *Conn) NewInbox() string { return c.NC.NewInbox() }
