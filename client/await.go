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
	awaitRepeat = 20 * time.Second         // between two tries, at the most
	awaitMax    = 20500 * time.Millisecond // that a host waits in one, so that they overlap
	awaitMin    = 10 * time.Millisecond
	awaitGrace  = 2 * time.Second // for the host's word that the time is over
)

// Await waits until the subagent's session has ended, and tells how. A subagent that never had a task
// is READY at once. Canceled or out of time, the error is a Timeout.
func (c *Client) Await(ctx context.Context, id actor.ID) (*a2e.AwaitResp, error) {
	resp, err := answer[*a2e.AwaitResp](ctx, c, &a2e.AwaitReq{SubagentID: id})
	if err != nil {
		return nil, err
	}
	return resp, c.inlineAwait(ctx, resp)
}

// awaits gives the tries of a request to wait: each waits until shortly after the next is due, or until
// the time is over. It is over when req says so, or when ctx ends.
func (c *Client) awaits(ctx context.Context, req *a2e.AwaitReq) func() (try, error) {
	end, limited := ctx.Deadline()
	if own := req.Timeout(); own > 0 && (!limited || time.Until(end) > own) {
		end, limited = time.Now().Add(own), true
	}
	return func() (try, error) {
		wait := awaitMax
		if limited {
			wait = max(min(wait, time.Until(end)), awaitMin)
		}
		one := *req
		one.TimeoutSeconds = wait.Seconds()
		data, err := c.encode(&one)
		return try{data: data, patience: wait + awaitGrace, repeat: awaitRepeat, last: wait < awaitMax}, err
	}
}

// AwaitAll waits for every subagent, and gives the answers in the order of ids. It fails as soon as
// one of them can't be awaited.
func (c *Client) AwaitAll(ctx context.Context, ids ...actor.ID) ([]a2e.AwaitResp, error) {
	resp, err := c.Gather(ctx, a2e.ModeAll, 0, ids...)
	if err != nil {
		return nil, err
	}
	return resp.Results, nil
}

// AwaitAny waits until one of the subagents completes, and gives its answer. When none does, the
// answer is FAILED and lists how each ended.
func (c *Client) AwaitAny(ctx context.Context, ids ...actor.ID) (*a2e.AwaitResp, error) {
	resp, err := c.Gather(ctx, a2e.ModeAny, 0, ids...)
	if err != nil || resp.Status != a2e.Completed {
		return resp, err
	}
	for i := range resp.Results {
		if r := &resp.Results[i]; r.SubagentID == resp.SubagentID {
			return r, nil
		}
	}
	return resp, nil
}

// Gather waits for several subagents: in mode all for each, in the others until as many completed as
// are needed, or too few are left for that. Its status is COMPLETED when enough did. Results are in
// the order of ids, each once, as far as they had come. Unlike a host, which would have to be asked
// again from the start, it survives that hosts come and go.
func (c *Client) Gather(ctx context.Context, mode a2e.Mode, quorum int, ids ...actor.ID) (*a2e.AwaitResp, error) {
	ids = distinct(ids)
	need, err := needed(mode, quorum, len(ids))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	type ended struct {
		at   int
		resp *a2e.AwaitResp
		err  error
	}
	outcomes := make(chan ended)
	for i, id := range ids {
		go func() {
			resp, err := c.Await(ctx, id)
			outcomes <- ended{i, resp, err}
		}()
	}
	left := len(ids)
	defer func() {
		cancel()
		for ; left > 0; left-- {
			<-outcomes
		}
	}()
	got := make([]*a2e.AwaitResp, len(ids))
	completed := 0
	for {
		o := <-outcomes
		left--
		if o.err != nil {
			return nil, o.err
		}
		got[o.at] = o.resp
		if o.resp.Status == a2e.Completed {
			completed++
		}
		if left == 0 || mode != a2e.ModeAll && (completed >= need || completed+left < need) {
			return gathered(got, completed, need), nil
		}
	}
}

// gathered combines the answers.
func gathered(got []*a2e.AwaitResp, completed, need int) *a2e.AwaitResp {
	resp := &a2e.AwaitResp{Status: a2e.Failed}
	for _, r := range got {
		if r == nil {
			continue
		}
		one := *r
		one.Envelope = a2e.Envelope{}
		resp.Results = append(resp.Results, one)
		if resp.SubagentID == "" && (one.Status == a2e.Completed || completed == 0) {
			resp.SubagentID = one.SubagentID
		}
	}
	if completed >= need {
		resp.Status = a2e.Completed
	} else {
		resp.Error = fmt.Sprintf("%d of the %d that were needed completed", completed, need)
	}
	return resp
}

// needed is how many have to complete.
func needed(mode a2e.Mode, quorum, ids int) (int, error) {
	refuse := func(field, why string) (int, error) {
		return 0, &actor.Error{Op: "client.Gather", Kind: actor.SchemaViolation, Field: field, Err: errors.New(why)}
	}
	switch {
	case ids == 0:
		return refuse("subagent_ids", "is empty")
	case mode == a2e.ModeAll:
		return ids, nil
	case mode == a2e.ModeAny:
		return 1, nil
	case mode != a2e.ModeQuorum:
		return refuse("mode", "is not any, all or quorum")
	case quorum < 1 || quorum > ids:
		return refuse("quorum", fmt.Sprintf("is not between 1 and %d", ids))
	}
	return quorum, nil
}

// distinct gives each id once, in order.
func distinct(ids []actor.ID) []actor.ID {
	seen := make(map[actor.ID]bool, len(ids))
	once := make([]actor.ID, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}
