package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
)

// Subscribe calls fn with every event of the agent's tree from now on, one at a time, until stop is
// called; no call is under way any more when stop returns, so fn must not call it. Events are live:
// those that are told while the connection is down are missed.
func (c *Client) Subscribe(fn func(a2e.Event)) (stop func(), err error) {
	var mu sync.Mutex
	stopped := false
	unsubscribe, err := c.cfg.Conn.Subscribe(c.cfg.Names.EventTree(c.cfg.Root), func(_ string, data []byte) {
		msg, err := a2e.DecodeAnswer(data)
		event, ok := msg.(*a2e.Event)
		if err != nil || !ok {
			return // a stranger's: the runtime publishes nothing else there
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			fn(*event)
		}
	})
	if err != nil {
		return nil, err
	}
	return func() {
		unsubscribe()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}, nil
}

// Watch is Subscribe until ctx ends; then it returns nil.
func (c *Client) Watch(ctx context.Context, fn func(a2e.Event)) error {
	stop, err := c.Subscribe(fn)
	if err != nil {
		return err
	}
	<-ctx.Done()
	stop()
	return nil
}

// Entries reads the registry's entries of a whole tree, in creation order. An empty root is the
// agent's own.
func (c *Client) Entries(ctx context.Context, root actor.ID) ([]agent.Entry, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	stored, err := c.store.Registry.Tree(ctx, cmp.Or(root, c.cfg.Root))
	if err != nil {
		return nil, err
	}
	entries := make([]agent.Entry, 0, len(stored))
	for _, s := range stored {
		e, err := decodeEntry(s)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b agent.Entry) int { return cmp.Compare(a.Order, b.Order) })
	return entries, nil
}

// WatchEntries calls fn with every entry of a tree and then with every change, one at a time, until
// ctx ends; then it returns nil. Of an entry that changes quickly the last state is always told, those
// before may be left out; none is told after a newer one. An empty root is the agent's own tree.
func (c *Client) WatchEntries(ctx context.Context, root actor.ID, fn func(agent.Entry)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var broken error
	newest := map[actor.ID]uint64{}
	err := c.store.Registry.Watch(ctx, cmp.Or(root, c.cfg.Root), func(s store.Entry, deleted bool) {
		if deleted || broken != nil || s.Rev <= newest[s.Child] {
			return
		}
		newest[s.Child] = s.Rev
		e, err := decodeEntry(s)
		if err != nil {
			broken = err
			cancel(err)
			return
		}
		fn(e)
	})
	if broken != nil || ctx.Err() != nil {
		return broken
	}
	return err
}

func decodeEntry(s store.Entry) (agent.Entry, error) {
	var e agent.Entry
	if err := json.Unmarshal(s.Data, &e); err != nil {
		return e, &actor.Error{Op: "client: read the registry", ID: s.Child, Kind: actor.RuntimeError, Err: err}
	}
	return e, nil
}

// A Delivery is one piece of the agent's mail: the outcome of a session of a child, or a message that
// one of the agent's subagents sent it.
type Delivery struct {
	Seq        uint64 // its place in the mail
	From       actor.ID
	At         time.Time
	Completion *a2e.AwaitResp  // or nil
	Message    *a2e.MessageReq // or nil
}

// Mail calls fn with all mail of the agent behind a place in it, 0 being the beginning, and then with
// what comes, each exactly once and in order, until ctx ends; then it returns nil. Whoever keeps the
// last Seq that it has dealt with can go on from there. Mail is kept for 7 days.
func (c *Client) Mail(ctx context.Context, after uint64, fn func(Delivery)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error
	err := c.cfg.Conn.ReadMail(ctx, c.cfg.Names, c.cfg.Agent, after+1, func(m bus.Mail) {
		if ctx.Err() != nil {
			return
		}
		d, err := c.open(ctx, m)
		if err != nil {
			if ctx.Err() == nil {
				broken = err
			}
			cancel()
			return
		}
		fn(d)
	})
	if broken != nil {
		return broken
	}
	return err
}

// open reads one mail.
func (c *Client) open(ctx context.Context, m bus.Mail) (Delivery, error) {
	d := Delivery{Seq: m.Seq, From: m.From, At: m.Time}
	msg, err := a2e.DecodeAnswer(m.Data)
	if resp, ok := msg.(*a2e.AwaitResp); ok && err == nil {
		d.Completion = resp
		return d, c.inlineAwait(ctx, resp)
	}
	req, err := a2e.Decode(m.Data)
	if message, ok := req.(*a2e.MessageReq); ok && err == nil {
		d.Message = message
		message.Message.Content, err = c.inline(ctx, message.Message.Content)
		return d, err
	}
	return d, &actor.Error{Op: "client: read the mail", ID: m.From, Kind: actor.RuntimeError, Err: fmt.Errorf("mail %d is neither a completion nor a message", m.Seq)}
}
