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
	firstRepeat = time.Second     // after a try without an answer another follows,
	maxRepeat   = 2 * time.Second // and then others
	tryTimeout  = 30 * time.Second
	firstPause  = 20 * time.Millisecond // after a try that found nobody
	maxPause    = time.Second
	lookEvery   = 250 * time.Millisecond

	// A merge takes models their time, and its host keeps every try until then.
	mergeRepeat  = 20 * time.Second
	mergeTimeout = 2 * time.Minute
)

// Do makes a request and gives its answer, which is of the type that the protocol has for it. The
// request's own id is its idempotency key; if it has none it gets the Client's, or a random one. An
// answer of type error is returned as an error. An AwaitReq is made as several that wait a few
// seconds each, until its own time is over, or ctx ends if it has none.
func (c *Client) Do(ctx context.Context, req a2e.Request) (a2e.Message, error) {
	env := envelopeOf(req)
	if env.ID == "" {
		env.ID = c.key
	}
	if env.ID == "" {
		env.ID = newKey()
	}
	ctx, cancel := c.within(ctx, req)
	defer cancel()
	next, err := c.tries(ctx, req)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, req, next)
}

// tries gives what makes each try of a request.
func (c *Client) tries(ctx context.Context, req a2e.Request) (next func() (try, error), err error) {
	if m, ok := req.(*a2e.AwaitReq); ok {
		return c.awaits(ctx, m), nil
	}
	data, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	t := try{data: data, patience: tryTimeout, repeat: maxRepeat, last: true}
	if _, ok := req.(*a2e.MergeReq); ok {
		t.patience, t.repeat = mergeTimeout, mergeRepeat
	}
	return func() (try, error) { return t, nil }, nil
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

// within gives a request the house's deadline if it brought none and does not wait, and one that waits
// its own.
func (c *Client) within(ctx context.Context, req a2e.Request) (context.Context, context.CancelFunc) {
	switch m := req.(type) {
	case *a2e.AwaitReq:
		if m.Timeout() > 0 {
			return context.WithTimeout(ctx, m.Timeout()+awaitGrace)
		}
		return context.WithCancel(ctx)
	case *a2e.MergeReq:
		return context.WithCancel(ctx)
	}
	if _, limited := ctx.Deadline(); limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// A try is one time that a request is sent.
type try struct {
	data     []byte
	patience time.Duration // how long its answer is listened for
	repeat   time.Duration // after which another follows, at the latest
	last     bool          // a host that tells of a timeout has the last word
}

// An outcome is how a try ended. again says that another may end otherwise.
type outcome struct {
	msg   a2e.Message
	again bool
	err   error
}

// ask sends the request until it is answered or ctx ends; the first answer wins. A try without an
// answer is still listened to while others follow it: a host that is frozen, or cut off, takes its
// share of the requests until the server drops it, and its answer to one may come yet. The connection's
// return from a loss is a reason for a try, too: the answer may have been sent meanwhile.
func (c *Client) ask(ctx context.Context, req a2e.Request, next func() (try, error)) (a2e.Message, error) {
	tries, cancel := context.WithCancel(ctx)
	s := c.newAsking()
	defer s.close()
	defer cancel()
	for {
		select {
		case <-s.due.C:
			t, err := next()
			if err != nil {
				return nil, err
			}
			s.send(tries, t)
		case o := <-s.outcomes:
			s.open--
			switch {
			case o.err == nil:
				return o.msg, nil
			case !o.again:
				return nil, fail(req, "", o.err)
			case ctx.Err() == nil:
				s.failed(o.err)
			}
		case <-s.look.C:
			s.lookForLoss()
		case <-ctx.Done():
			return nil, over(ctx, req, s.err)
		}
	}
}

// over is the error of a request whose time ran out, and says what that time was spent on. err is that
// of the last try, or nil if there was no answer at all.
func over(ctx context.Context, req a2e.Request, err error) error {
	switch {
	case actor.KindOf(err) != actor.Unavailable:
		return fail(req, actor.Timeout, fmt.Errorf("no answer in time: %w", context.Cause(ctx)))
	case errors.Is(ctx.Err(), context.Canceled):
		return fail(req, actor.Timeout, fmt.Errorf("%w: %w", context.Cause(ctx), err))
	}
	return fail(req, "", err)
}

// try sends the request once.
func (c *Client) try(ctx context.Context, t try) outcome {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	answer, err := c.cfg.Conn.Request(ctx, c.cfg.Names.A2E(c.cfg.Agent), t.data)
	if err != nil {
		kind := actor.KindOf(err)
		return outcome{nil, kind == actor.Unavailable || kind == actor.Timeout, err}
	}
	msg, err := a2e.DecodeAnswer(answer)
	if err != nil {
		return outcome{nil, false, &actor.Error{Kind: actor.RuntimeError, Err: fmt.Errorf("the answer: %w", err)}}
	}
	if refused, ok := msg.(*a2e.Error); ok {
		return outcome{nil, refused.Code == actor.Unavailable || refused.Code == actor.Timeout && !t.last, refused.Err()}
	}
	return outcome{msg, false, nil}
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
	case *a2e.ExtendReq:
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
