package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A Send tries to get the answer to a conversation once. say is told the text so far, as often as Send likes.
// What goes wrong is a [*Failure], or an error of the HTTP client. An Answer beside an error counts for its
// Usage only.
type Send func(ctx context.Context, c *Conversation, say func(text string)) (*Answer, error)

// A Client takes steps at one provider. It is safe for concurrent use.
type Client struct {
	name     string // "anthropic"
	variable string // what to set when there is no key
	Config          // with its defaults
	http     *http.Client
	secrets  secrets
	wait     func(ctx context.Context, d time.Duration) error
}

// New makes a client of the provider called name, whose models are name/…; variable is the environment
// variable that users set the key with. A key or an address that can't be one is a schema_violation.
func New(name, variable string, c Config) (*Client, error) {
	c, err := c.withDefaults(name + ".New")
	if err != nil {
		return nil, err
	}
	return &Client{
		name: name, variable: variable, Config: c,
		http:    watched(c.Transport, c.First, c.Idle),
		secrets: secretsOf(c.Key),
		wait:    wait,
	}, nil
}

// HTTP is what the provider's SDK has to use: it ends calls that are silent for too long, and refuses answers
// that are no event streams.
func (c *Client) HTTP() *http.Client { return c.http }

// Step takes a step by as many tries of send as it needs and the Config allows. What the provider told of the cost of
// tries that failed, or were broken off with ctx, is in the Response, beside an error as well.
func (c *Client) Step(ctx context.Context, r *model.Request, send Send) (*model.Response, error) {
	if c.Key == "" && c.BaseURL == "" {
		return nil, c.failed(r, actor.Unauthorized, fmt.Errorf("there is no API key: set %s for the process that runs this model", c.variable))
	}
	talk, err := Converse(r, c.name, c.MaxTokens)
	if err != nil {
		return nil, c.failed(r, actor.SchemaViolation, err)
	}
	var spent model.Usage
	say := c.progress(r)
	for try := 1; ; try++ {
		answer, err := c.try(ctx, talk, send, say)
		if answer != nil {
			answer.Usage.USD, _ = c.Prices.Cost(r.Config.Model, answer.Usage) // each try is a request of its own
			spent.Add(answer.Usage)
		}
		if err == nil {
			return c.response(r, talk, answer, &spent), nil
		}
		f := failureOf(err)
		if ctx.Err() != nil {
			return costs(spent), c.interrupted(ctx, r)
		}
		if try >= c.Tries || !f.passing() {
			return costs(spent), c.gaveUp(r, f, try)
		}
		if c.wait(ctx, c.pause(try, f.After)) != nil {
			return costs(spent), c.interrupted(ctx, r)
		}
	}
}

// costs is what a step that came to nothing cost, as far as the provider told it; nil if it told nothing.
func costs(spent model.Usage) *model.Response {
	if spent == (model.Usage{}) {
		return nil
	}
	return &model.Response{Usage: &spent}
}

// try is one call of send, under a context of its own.
func (c *Client) try(ctx context.Context, talk *Conversation, send Send, say func(string)) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return send(ctx, talk, say)
}

// pause is how long to wait after a try: what the provider asked for, or what doubles; never more than MaxWait.
// Chance keeps those who failed together from coming back together.
func (c *Client) pause(try int, asked time.Duration) time.Duration {
	d := c.Backoff << min(try-1, 20)
	if d <= 0 || d > c.MaxWait {
		d = c.MaxWait
	}
	d -= time.Duration(rand.Float64() * float64(d) / 2)
	if asked > 0 {
		d = asked + time.Duration(rand.Float64()*float64(asked)/10)
	}
	return min(d, c.MaxWait)
}

// wait waits, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// gaveUp words the failure that ends a step.
func (c *Client) gaveUp(r *model.Request, f *Failure, tries int) error {
	err := errors.New(f.Error())
	kind := f.kind()
	switch {
	case kind == actor.Unauthorized && f.Status == http.StatusUnauthorized:
		err = fmt.Errorf("%w (the key is the one of %s)", err, c.variable)
	case f.passing():
		err = fmt.Errorf("%w (tried %d times)", err, tries)
	}
	return c.failed(r, kind, err)
}

// failed is an error of a step. What it wraps is a text of ours, with no key in it.
func (c *Client) failed(r *model.Request, kind actor.Kind, err error) error {
	return &actor.Error{Op: c.name + ".Step", ID: r.Thread, Kind: kind, Err: errors.New(c.secrets.hide(err.Error()))}
}

// interrupted tells that ctx ended.
func (c *Client) interrupted(ctx context.Context, r *model.Request) error {
	kind := actor.RuntimeError
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = actor.Timeout
	}
	return &actor.Error{Op: c.name + ".Step", ID: r.Thread, Kind: kind, Err: ctx.Err()}
}
