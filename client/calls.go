package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
)

// A SpawnRequest says what to spawn and where.
type SpawnRequest struct {
	Agent  a2e.SubagentConfig // zero fields are the defaults of the specification
	Parent actor.ID           // the agent itself if empty, else a descendant of it

	// With Definition the subagent is an instance of that agent; of Agent only the name counts, which people
	// read. Arguments is an object that meets the agent's schema, or nothing. ScopedEnv is kept for the caller,
	// and given to the instance.
	Definition string
	Arguments  json.RawMessage
	ScopedEnv  map[string]string
}

// Spawn makes a new subagent and gives its id.
func (c *Client) Spawn(ctx context.Context, r SpawnRequest) (actor.ID, error) {
	req := &a2e.SpawnReq{Agent: r.Agent, ParentAgentID: r.Parent, Definition: r.Definition, Arguments: r.Arguments}
	for name, value := range r.ScopedEnv {
		text, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		if req.ScopedEnv == nil {
			req.ScopedEnv = map[string]json.RawMessage{}
		}
		req.ScopedEnv[name] = text
	}
	resp, err := answer[*a2e.SpawnResp](ctx, c, req)
	if err != nil {
		return "", err
	}
	return resp.SubagentID, nil
}

// Delegate gives a subagent a task. Whether the subagent took it is in the answer: one that has a
// session open, or was terminated, does not.
func (c *Client) Delegate(ctx context.Context, id actor.ID, task a2e.TaskDefinition) (*a2e.DelegateResp, error) {
	return answer[*a2e.DelegateResp](ctx, c, &a2e.DelegateReq{SubagentID: id, Task: task})
}

// A Message is what one agent says to another.
type Message struct {
	From    actor.ID // the agent itself if empty, else a descendant of it
	To      actor.ID
	Type    string
	Content json.RawMessage // any JSON
}

func (c *Client) from(m Message) actor.ID {
	if m.From == "" {
		return c.cfg.Agent
	}
	return m.From
}

// Send queues a message, which the recipient's model sees before its next step; it opens no session.
// delivered means that it is durably queued, and is false for a terminated recipient.
func (c *Client) Send(ctx context.Context, m Message) (delivered bool, err error) {
	resp, err := answer[*a2e.MessageResp](ctx, c, &a2e.MessageReq{
		FromSubagentID: c.from(m), ToSubagentID: m.To,
		Message: a2e.MessagePayload{Type: m.Type, Content: m.Content},
	})
	return err == nil && resp.Delivered, err
}

// Answer answers what a person was asked: request is the Request of an [agent.Awaiting]. One that was answered or
// withdrawn meanwhile is a Conflict, one that nobody ever made NotFound.
func (c *Client) Answer(ctx context.Context, request string, content json.RawMessage) error {
	id, _, ok := agent.ParseAskID(request)
	if !ok {
		return &actor.Error{Op: "client.Answer", Kind: actor.NotFound, Field: "request", Err: fmt.Errorf("%q is not a request to a person", request)}
	}
	name, err := json.Marshal(request)
	if err != nil {
		return err
	}
	resp, err := answer[*a2e.MessageResp](ctx, c, &a2e.MessageReq{
		FromSubagentID: c.cfg.Agent, ToSubagentID: id,
		Message: a2e.MessagePayload{Type: "answer", Content: content, Metadata: map[string]json.RawMessage{agent.AnswersKey: name}},
	})
	if err == nil && !resp.Delivered {
		err = &actor.Error{Op: "client.Answer", ID: id, Kind: actor.ThreadTerminated, Err: errors.New("the thread is terminated")}
	}
	return err
}

// Publish puts a message into a thread's inbox without a host's word on it; an idle thread opens a
// session for it. It returns the message's place in the inbox stream once it is stored. It is tried
// once: an Unavailable one may have been stored all the same, and comes twice if it is published
// again. A message that the thread can't take becomes a dead letter. InboxFull means that the inbox stream has reached a limit
// that an operator has set.
func (c *Client) Publish(ctx context.Context, m Message) (seq uint64, err error) {
	const op = "client.Publish"
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	data, err := json.Marshal(struct {
		Type    string          `json:"type,omitempty"`
		Content json.RawMessage `json:"content"`
	}{m.Type, m.Content})
	if err != nil {
		return 0, &actor.Error{Op: op, ID: m.To, Kind: actor.SchemaViolation, Field: "content", Err: err}
	}
	seq, err = c.cfg.Conn.Send(c.cfg.Names.Inbox(m.To, actor.LaneA, c.from(m)), data).Wait(ctx)
	switch {
	case bus.AtLimit(err):
		return 0, &actor.Error{Op: op, ID: m.To, Kind: actor.InboxFull, Err: err}
	case err != nil:
		return 0, &actor.Error{Op: op, ID: m.To, Kind: actor.KindOf(err), Err: err}
	}
	return seq, nil
}

// A ListRequest filters a list. Zero fields do not.
type ListRequest struct {
	Status []a2e.Status
	Parent actor.ID
	Limit  int // of the whole list
}

// List gives the agent's subagents, all below it, in creation order.
func (c *Client) List(ctx context.Context, r ListRequest) ([]a2e.SubagentInfo, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	all := []a2e.SubagentInfo{}
	req := a2e.ListReq{Status: r.Status, ParentAgentID: r.Parent}
	for {
		if r.Limit > 0 {
			req.Limit = min(r.Limit-len(all), a2e.MaxListLimit)
		}
		page := req
		resp, err := answer[*a2e.ListResp](ctx, c, &page)
		if err != nil {
			return nil, err
		}
		all = append(all, resp.Subagents...)
		if resp.Cursor == "" || r.Limit > 0 && len(all) >= r.Limit {
			return all, nil
		}
		req.Cursor = resp.Cursor
	}
}

// Merge combines the results of the subagents that completed; the merged result lists the others as
// skipped. It waits as long as ctx allows.
func (c *Client) Merge(ctx context.Context, strategy a2e.Strategy, ids ...actor.ID) (json.RawMessage, error) {
	resp, err := answer[*a2e.MergeResp](ctx, c, &a2e.MergeReq{SubagentIDs: ids, Strategy: strategy})
	if err != nil {
		return nil, err
	}
	return c.inline(ctx, resp.MergedResult)
}

// Cancel stops a subagent and everything below it, or everything below the agent itself. It returns
// when all of them have stopped. The event is the protocol's own when there was something to stop for
// the try that was answered.
//
// It has no idempotency key: to stop what has stopped is nothing. But a try that a frozen host has taken
// is carried out when that host wakes up, which may be after Cancel has returned, and stops what was
// started there meanwhile. A task that was delegated after a Cancel may so end as CANCELED; delegated
// again, it runs. The same goes for a request that was given up when its context ended.
func (c *Client) Cancel(ctx context.Context, id actor.ID) (*a2e.Event, error) {
	return answer[*a2e.Event](ctx, c, &a2e.CancelReq{SubagentID: id})
}

// Terminate ends a subagent and everything below it for good, as Cancel stops it. A late try does no more
// than the first did, for what is terminated starts nothing.
func (c *Client) Terminate(ctx context.Context, id actor.ID) (*a2e.Event, error) {
	return answer[*a2e.Event](ctx, c, &a2e.TerminateReq{SubagentID: id})
}

// Extend gives a subagent that is at a task more time: its deadline, and the one for want of progress, come so much
// later. The event tells when they are, in microseconds since 1970. One that is at no task, or has no deadline, is a
// Conflict.
func (c *Client) Extend(ctx context.Context, id actor.ID, by time.Duration) (*a2e.Event, error) {
	return answer[*a2e.Event](ctx, c, &a2e.ExtendReq{SubagentID: id, Seconds: by.Seconds()})
}

// Detach terminates a subagent alone: what is below it lives on.
func (c *Client) Detach(ctx context.Context, id actor.ID) (*a2e.Event, error) {
	return answer[*a2e.Event](ctx, c, &a2e.TerminateReq{SubagentID: id, Teardown: a2e.TeardownDetach})
}
