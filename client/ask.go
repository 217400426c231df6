package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

const (
	tryTimeout   = 5 * time.Second // for an answer, before the request is made again
	mergeTimeout = 2 * time.Minute // the same for a merge, which models take their time for
	firstPause   = 20 * time.Millisecond
	maxPause     = time.Second
)

// Do makes a request and gives its answer, which is of the type that the protocol has for it. The
// request's own id is its idempotency key; if it has none it gets the Client's, or a random one. An
// answer of type error is returned as an error. An AwaitReq is asked as it is, and once only unless no
// host was there.
func (c *Client) Do(ctx context.Context, req a2e.Request) (a2e.Message, error) {
	ctx, cancel := c.within(ctx, req)
	defer cancel()
	env := envelopeOf(req)
	if env.ID == "" {
		env.ID = c.key
	}
	if env.ID == "" {
		env.ID = newKey()
	}
	data, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, req, data)
}

// Check refuses a request that can't be sent, without sending it: TooLarge past what the server takes.
func (c *Client) Check(req a2e.Request) error {
	_, err := c.encode(req)
	return err
}

func (c *Client) encode(req a2e.Request) ([]byte, error) {
	data, err := a2e.Encode(req)
	if err != nil {
		return nil, fail(req, "", err)
	}
	if limit := c.cfg.Conn.MaxPayload(); limit > 0 && int64(len(data)) > limit {
		return nil, fail(req, actor.TooLarge, fmt.Errorf("the request has %d bytes, the server takes %d", len(data), limit))
	}
	return data, nil
}

// within gives a request the house's deadline if it brought none and does not wait.
func (c *Client) within(ctx context.Context, req a2e.Request) (context.Context, context.CancelFunc) {
	_, limited := ctx.Deadline()
	switch req.(type) {
	case *a2e.AwaitReq, *a2e.MergeReq:
		limited = true
	}
	if limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// ask sends the request until it is answered or ctx ends, with growing pauses between.
func (c *Client) ask(ctx context.Context, req a2e.Request, data []byte) (a2e.Message, error) {
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		msg, again, err := c.try(ctx, req, data)
		if err == nil || !again || ctx.Err() != nil {
			return msg, c.over(ctx, req, err)
		}
		if !pause(ctx, wait) {
			return nil, c.over(ctx, req, err)
		}
	}
}

// over words the last failure of a request. When time ran out it says what that time was spent on.
func (c *Client) over(ctx context.Context, req a2e.Request, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && actor.KindOf(err) != actor.Unavailable:
		return fail(req, actor.Timeout, fmt.Errorf("no answer in time: %w", context.Cause(ctx)))
	case errors.Is(ctx.Err(), context.Canceled):
		return fail(req, actor.Timeout, fmt.Errorf("%w: %w", context.Cause(ctx), err))
	}
	return fail(req, "", err)
}

// try sends the request once. again says that it may be sent once more.
func (c *Client) try(ctx context.Context, req a2e.Request, data []byte) (msg a2e.Message, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(req))
	defer cancel()
	answer, err := c.cfg.Conn.Request(ctx, c.cfg.Names.A2E(c.cfg.Agent), data)
	if err != nil {
		kind := actor.KindOf(err)
		_, waits := req.(*a2e.AwaitReq)
		return nil, kind == actor.Unavailable || kind == actor.Timeout && !waits, err
	}
	msg, err = a2e.DecodeAnswer(answer)
	if err != nil {
		return nil, false, &actor.Error{Kind: actor.RuntimeError, Err: fmt.Errorf("the answer: %w", err)}
	}
	if refused, ok := msg.(*a2e.Error); ok {
		return nil, refused.Code == actor.Unavailable, refused.Err()
	}
	return msg, false, nil
}

// patience is how long one try of a request may take.
func patience(req a2e.Request) time.Duration {
	switch m := req.(type) {
	case *a2e.MergeReq:
		return mergeTimeout
	case *a2e.AwaitReq:
		if m.TimeoutSeconds > 0 {
			return m.Timeout() + awaitGrace
		}
		return awaitMax
	}
	return tryTimeout
}

// envelopeOf is where a request keeps its envelope.
func envelopeOf(req a2e.Request) *a2e.Envelope {
	switch m := req.(type) {
	case *a2e.SpawnReq:
		return &m.Envelope
	case *a2e.DelegateReq:
		return &m.Envelope
	case *a2e.AwaitReq:
		return &m.Envelope
	case *a2e.MessageReq:
		return &m.Envelope
	case *a2e.ListReq:
		return &m.Envelope
	case *a2e.CancelReq:
		return &m.Envelope
	case *a2e.TerminateReq:
		return &m.Envelope
	case *a2e.MergeReq:
		return &m.Envelope
	}
	panic("client: a request of unknown type " + req.Type())
}

// answer asks, and takes the answer as the type that it must have.
func answer[T a2e.Message](ctx context.Context, c *Client, req a2e.Request) (T, error) {
	var want T
	msg, err := c.Do(ctx, req)
	if err != nil {
		return want, err
	}
	got, ok := msg.(T)
	if !ok {
		return want, fail(req, actor.RuntimeError, fmt.Errorf("the host answered with a %s", msg.Type()))
	}
	return got, nil
}

// fail says which request failed. The kind, the field and the id are those of the cause, unless
// another kind is given.
func fail(req a2e.Request, kind actor.Kind, err error) error {
	e := &actor.Error{Op: "client", Kind: kind, Err: err}
	if req != nil {
		e.Op = "client: " + req.Type()
	}
	if kind != "" {
		return e
	}
	e.Kind = actor.KindOf(err)
	if cause, ok := err.(*actor.Error); ok {
		e.ID, e.Field, e.Err = cause.ID, cause.Field, cause.Err
	}
	return e
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
