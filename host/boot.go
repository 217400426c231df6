package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// A Variables is what a creation waits for (S1 §5.2).
type Variables struct {
	Required []string // all that the agent requires
	Missing  []string // those that had no value
}

// A Booted is a child whose creation had waited.
type Booted struct {
	ID           actor.ID
	Reference    string
	Relationship string
}

// A MissingVariables lists variables that still have no value.
type MissingVariables struct{ Missing []string }

// Error names them.
func (m *MissingVariables) Error() string { return "missing " + strings.Join(m.Missing, ", ") }

// Variables tells what a request waits for. The Kind is not_found for one that is unknown or another parent's, and gone
// when it was used or has expired.
func (h *Host) Variables(ctx context.Context, parent actor.ID, request string) (Variables, error) {
	_, d, _, err := h.deferredOf(ctx, parent, request)
	return Variables{Required: d.Required, Missing: d.Missing}, err
}

func (h *Host) deferredOf(ctx context.Context, parent actor.ID, request string) (rev uint64, d deferred, l actor.Lineage, err error) {
	if l, err = h.lineage(ctx, parent); err != nil {
		return 0, d, l, err
	}
	r, err := h.Store.Requests.Get(ctx, parent, request)
	if err != nil {
		return 0, d, l, err
	}
	return r.Rev, d, l, json.Unmarshal(r.Payload, &d)
}

// Boot gives a request the values that it waits for, and has the parent create the child as it was asked to. The values
// go to the child only, and stand in no message. A request can be used once; one that fails stays open. The Kinds are
// those of Variables, subagent_env_required when a value is missing still (with a [MissingVariables]), schema_violation
// for a value that nobody asked for, max_instances, quota_exceeded, depth_exceeded, thread_terminated, conflict while
// another use of it is under way, and unavailable.
func (h *Host) Boot(ctx context.Context, parent actor.ID, request string, values map[string]string) (Booted, error) {
	rev, d, l, err := h.deferredOf(ctx, parent, request)
	if err != nil {
		return Booted{}, err
	}
	for name := range values {
		if !slices.Contains(d.Missing, name) {
			return Booted{}, &actor.Error{Kind: actor.SchemaViolation, Field: "values." + name, Err: errors.New("is not missing")}
		}
	}
	if missing := lacking(d.Missing, sortedNames(values)); len(missing) > 0 {
		return Booted{}, &actor.Error{Kind: actor.EnvRequired, Field: "values", Err: &MissingVariables{missing}}
	}
	d.Prepare.Extra = store.Borrowed(request)
	if err := h.Store.Env.Set(ctx, d.Prepare.Extra, values); err != nil {
		return Booted{}, err
	}
	answer, err := h.askBoot(ctx, l, request, &d.Prepare)
	if k := actor.KindOf(err); k != actor.Unavailable && k != actor.Timeout { // else the parent may be about to copy them
		h.forget(d.Prepare.Extra)
	}
	if err != nil {
		return Booted{}, err
	}
	if err := h.Store.Requests.Use(ctx, parent, request, rev); err != nil && !errors.Is(err, actor.Gone) && !errors.Is(err, actor.Conflict) {
		return Booted{}, err // the parent gives the same answer to another try
	}
	return answer, nil
}

// askBoot asks the parent, which answers the same to each try of one request.
func (h *Host) askBoot(ctx context.Context, l actor.Lineage, request string, p *agent.Prepare) (b Booted, err error) {
	data, err := h.relay(ctx, func(ctx context.Context, reply string) error {
		env := actor.Envelope{
			From: l.ID, Kind: agent.KindBoot, Asker: actor.Asker{Reply: reply}, Body: agent.Pack(p),
			Key: actor.Key{ID: subjects.IdempotencyKey(l.ID, "variables", request), Digest: request},
		}
		_, err := h.Conn.Send(h.Names.Inbox(l.ID, actor.LaneQueue, l.ID), seal([]actor.Envelope{env})).Wait(ctx)
		return err
	})
	if err != nil {
		return b, err
	}
	var told struct {
		Code         actor.Kind `json:"code"`
		Message      string     `json:"message"`
		Reference    string     `json:"reference"`
		Relationship string     `json:"relationship"`
	}
	if err := json.Unmarshal(data, &told); err != nil {
		return b, fmt.Errorf("the parent's answer: %w", err)
	}
	if told.Code != "" {
		return b, &actor.Error{ID: l.ID, Kind: told.Code, Err: errors.New(told.Message)}
	}
	return Booted{ID: agent.IDOf(told.Reference), Reference: told.Reference, Relationship: told.Relationship}, nil
}
