package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// maxListBytes is how large an answer to LIST gets before it is paged.
const maxListBytes = 512 << 10

func (v *visit) list(ctx context.Context, m *a2e.ListReq) (*a2e.ListResp, error) {
	caller, err := v.h.lineage(ctx, v.caller)
	if err != nil {
		return nil, v.caller404(err)
	}
	resp, err := v.h.list(ctx, caller, m)
	if err != nil {
		return nil, err
	}
	resp.Envelope = a2e.Answer(v.env, time.Now())
	return resp, nil
}

// list answers LIST: the caller's descendants in creation order, as far as the filters want them.
func (h *Host) list(ctx context.Context, caller actor.Lineage, m *a2e.ListReq) (*a2e.ListResp, error) {
	after, err := parseCursor(m.Cursor)
	if err != nil {
		return nil, err
	}
	entries, err := h.descendants(ctx, caller)
	if err != nil {
		return nil, err
	}
	resp := &a2e.ListResp{Subagents: []a2e.SubagentInfo{}}
	size := 0
	for i := range entries {
		e := &entries[i]
		if e.Order <= after ||
			len(m.Status) > 0 && !slices.Contains(m.Status, e.A2E()) ||
			m.ParentAgentID != "" && m.ParentAgentID != e.ParentAgentID {
			continue
		}
		size += e.size
		if n := len(resp.Subagents); n > 0 && (size > maxListBytes || m.Limit > 0 && n >= m.Limit) {
			resp.Cursor = strconv.FormatUint(after, 10)
			break
		}
		after = e.Order
		resp.Subagents = append(resp.Subagents, e.Info())
	}
	return resp, nil
}

func parseCursor(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, &actor.Error{Kind: actor.SchemaViolation, Field: "cursor", Err: fmt.Errorf("%q did not come from a list", s)}
	}
	return n, nil
}

// A listed entry knows how large it is.
type listed struct {
	agent.Entry
	size int
}

// descendants reads the registry entries of everything below caller, in creation order.
func (h *Host) descendants(ctx context.Context, caller actor.Lineage) ([]listed, error) {
	stored, err := h.Store.Registry.Tree(ctx, caller.Root())
	if err != nil {
		return nil, err
	}
	parents := make(map[actor.ID]actor.ID, len(stored))
	for _, e := range stored {
		parents[e.Child] = e.Parent
	}
	entries := make([]listed, 0, len(stored))
	for _, s := range stored {
		if caller.ID != caller.Root() && !slices.Contains(ancestors(parents, s.Child), caller.ID) {
			continue
		}
		e := listed{size: len(s.Data)}
		if err := json.Unmarshal(s.Data, &e.Entry); err != nil {
			return nil, fmt.Errorf("registry entry of %s: %w", s.Child, err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b listed) int { return cmp.Compare(a.Order, b.Order) })
	return entries, nil
}

// listJob answers LIST for a thread's tool.
func (h *Host) listJob(ctx context.Context, caller actor.Lineage, body []byte) agent.JobAnswer {
	msg, err := h.listFor(ctx, caller, body)
	if err != nil {
		msg = a2e.NewError(a2e.Envelope{}, time.Now(), err)
	}
	return h.answered(ctx, msg)
}

func (h *Host) listFor(ctx context.Context, caller actor.Lineage, body []byte) (a2e.Message, error) {
	req, err := a2e.Decode(body)
	if err != nil {
		return nil, err
	}
	m, ok := req.(*a2e.ListReq)
	if !ok {
		return nil, fmt.Errorf("a list job with a %s", req.Type())
	}
	var resp *a2e.ListResp
	err = h.steadily(ctx, "a list", func() (err error) {
		resp, err = h.list(ctx, caller, m)
		return err
	})
	return resp, err
}

// answered is a message as the outcome of a job.
func (h *Host) answered(ctx context.Context, msg a2e.Message) agent.JobAnswer {
	data, err := a2e.Encode(msg)
	if err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	v, err := h.kept(ctx, data)
	if err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	a := agent.JobAnswer{Content: v}
	if e, ok := msg.(*a2e.Error); ok {
		a.Err = string(e.Code)
	}
	return a
}

// kept is what a job found as a value, in a blob if it is large.
func (h *Host) kept(ctx context.Context, data []byte) (v actor.Value, err error) {
	err = h.steadily(ctx, "what a job found", func() (err error) {
		v, err = h.shrink(ctx, actor.Value{JSON: data})
		return err
	})
	return v, err
}

// entriesOf decodes registry entries, in creation order.
func entriesOf(stored []store.Entry) ([]agent.Entry, error) {
	entries := make([]agent.Entry, len(stored))
	for i, s := range stored {
		if err := json.Unmarshal(s.Data, &entries[i]); err != nil {
			return nil, fmt.Errorf("registry entry of %s: %w", s.Child, err)
		}
	}
	slices.SortFunc(entries, func(a, b agent.Entry) int { return cmp.Compare(a.Order, b.Order) })
	return entries, nil
}
