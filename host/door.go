package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// maxAwait is how long a request may wait that asks for no limit.
const maxAwait = 10 * time.Minute

const (
	doorWorkers = 64       // requests at a time that need more than one message to be sent
	doorWaiting = 2048     // of these that wait or are served; of one caller an eighth
	doorGathers = 1024     // awaits for several at a time; of one caller a sixteenth
	maxMeta     = 16 << 10 // bytes of a message's metadata

	// storeTime is within what a request has to be stored. It is less than the patience of most who ask: that they may
	// try again is to be told while they listen.
	storeTime = 4 * time.Second
)

// A visit is one request at the door.
type visit struct {
	h      *Host
	caller actor.ID
	env    a2e.Envelope
	reply  string
	asker  actor.Asker
}

// serveDoor answers A2E requests until ctx ends.
func (h *Host) serveDoor(ctx context.Context) error {
	workers := make(chan struct{}, doorWorkers)
	waiting, gathers := newCrowd(doorWaiting, doorWaiting/8), newCrowd(doorGathers, doorGathers/16)
	handle := func(r bus.Request) {
		v := &visit{h: h, caller: r.Agent, reply: r.Reply}
		req, err := a2e.Decode(r.Data)
		if err != nil {
			v.env = a2e.DecodeEnvelope(r.Data)
			v.fail(err)
			return
		}
		countOne(&h.counters.mu, &h.counters.requests, req.Type())
		v.env = req.Env()
		v.asker = actor.Asker{Reply: r.Reply, Request: v.env.ID, Version: v.env.Version}
		if quick(req, r) {
			v.serve(ctx, req)
			return
		}
		if m, ok := req.(*a2e.AwaitReq); ok && m.Mode != "" {
			v.among(gathers, func() { v.serve(ctx, m) }) // it takes as long as what it waits for
			return
		}
		v.among(waiting, func() {
			workers <- struct{}{}
			defer func() { <-workers }()
			v.serve(ctx, req)
		})
	}
	return h.patiently(ctx, "the door", func() error {
		return h.Conn.ServeA2E(ctx, h.Names, h.Version, func() { close(h.open) }, handle)
	})
}

// quick reports whether a request becomes one message without a look at anything else.
func quick(req a2e.Request, r bus.Request) bool {
	if IsThread(r.Agent) || len(r.Data) > actor.MaxInline {
		return false
	}
	switch m := req.(type) {
	case *a2e.SpawnReq:
		return m.Definition == "" && m.Agent.MemoryScope != a2e.MemorySnapshot
	case *a2e.DelegateReq, *a2e.CancelReq, *a2e.ExtendReq, *a2e.TerminateReq, *a2e.MergeReq:
		return true
	case *a2e.AwaitReq:
		return m.Mode == ""
	case *a2e.MessageReq:
		return m.FromSubagentID == r.Agent && m.ToSubagentID != r.Agent
	}
	return false
}

// among serves the request beside the others of a crowd, or refuses it. It never blocks.
func (v *visit) among(c *crowd, serve func()) {
	if err := c.enter(v.caller); err != nil {
		v.fail(err)
		return
	}
	v.h.background.Go(func() {
		defer c.leave(v.caller)
		serve()
	})
}

func (v *visit) serve(ctx context.Context, req a2e.Request) {
	err := v.route(ctx, req)
	if err != nil && ctx.Err() != nil { // it may be no more than that
		err = &actor.Error{Op: "host.serve", Kind: actor.Unavailable, Err: errors.New("this host is about to end; ask again")}
	}
	if err != nil {
		v.fail(err)
	}
}

// fail answers with an error.
func (v *visit) fail(err error) {
	countOne(&v.h.counters.mu, &v.h.counters.refused, actor.KindOf(err))
	v.answer(a2e.NewError(v.env, time.Now(), err))
}

func (v *visit) answer(msg a2e.Message) {
	if v.reply == "" {
		return
	}
	data, err := a2e.Encode(msg)
	if limit := v.h.Conn.MaxPayload(); err == nil && int64(len(data)) > limit {
		large := &actor.Error{Kind: actor.TooLarge, Err: fmt.Errorf("the answer has %d bytes, more than the server takes; ask for less at a time", len(data))}
		data, err = a2e.Encode(a2e.NewError(v.env, time.Now(), large))
	}
	if err != nil {
		v.h.Log.Error().Err(err).Msg("an answer can't be encoded")
		return
	}
	v.h.reply(v.reply, data)
}

// route turns a request into an envelope to the actor that it concerns.
func (v *visit) route(ctx context.Context, req a2e.Request) error {
	switch m := req.(type) {
	case *a2e.SpawnReq:
		if m.Definition != "" {
			return v.compose(ctx, m)
		}
		spawn := &agent.Spawn{Parent: m.ParentAgentID, Root: m.RootAgentID, Config: m.Agent}
		if m.Agent.MemoryScope == a2e.MemorySnapshot {
			var err error
			if spawn.Snapshot, err = v.snapshot(ctx, cmp.Or(m.ParentAgentID, v.caller)); err != nil {
				return err
			}
		}
		return v.toHost(ctx, agent.KindSpawn, m, spawn)
	case *a2e.DelegateReq:
		return v.delegate(ctx, m)
	case *a2e.AwaitReq:
		return v.await(ctx, m)
	case *a2e.MessageReq:
		return v.message(ctx, m)
	case *a2e.ListReq:
		resp, err := v.list(ctx, m)
		if err == nil {
			v.answer(resp)
		}
		return err
	case *a2e.CancelReq:
		return v.toHost(ctx, agent.KindCancel, nil, &agent.Target{ID: m.SubagentID})
	case *a2e.TerminateReq:
		return v.toHost(ctx, agent.KindTerminate, nil, &agent.Target{ID: m.SubagentID, Detach: m.Teardown == a2e.TeardownDetach})
	case *a2e.ExtendReq:
		body := agent.Extend{By: max(1, int64(m.Seconds*1e6))}
		return v.send(ctx, v.h.Names.Inbox(m.SubagentID, actor.LaneQueue, v.caller), v.caller, agent.KindExtend, m, &body)
	case *a2e.MergeReq:
		if n := idBytes(m.SubagentIDs); n > actor.MaxInline {
			return &actor.Error{Kind: actor.TooLarge, Field: "subagent_ids", Err: fmt.Errorf("%d bytes of ids, at most %d are taken", n, actor.MaxInline)}
		}
		return v.toHost(ctx, agent.KindMerge, m, &agent.Merge{IDs: m.SubagentIDs, Strategy: m.Strategy})
	}
	return &actor.Error{Kind: actor.InvalidMessage, Field: "type", Err: fmt.Errorf("%s is not served", req.Type())}
}

func idBytes(ids []actor.ID) (n int) {
	for _, id := range ids {
		n += len(id) + 1
	}
	return n
}

// snapshot takes the snapshot that a child begins with. Of a parent that is not the caller's there is none: the host will
// say so.
func (v *visit) snapshot(ctx context.Context, parent actor.ID) (string, error) {
	l, err := v.h.lineage(ctx, parent)
	if errors.Is(err, actor.NotFound) || err == nil && !l.Under(v.caller) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return v.h.snapshotFor(ctx, parent)
}

// toHost sends an envelope to the host of the caller's tree. keyed is the request if its id is an
// idempotency key.
func (v *visit) toHost(ctx context.Context, kind string, keyed a2e.Request, body any) error {
	l, err := v.h.lineage(ctx, v.caller)
	if err != nil {
		return v.caller404(err)
	}
	return v.send(ctx, v.h.Names.Inbox(l.Root(), actor.LaneHost, v.caller), v.caller, kind, keyed, body)
}

func (v *visit) caller404(err error) error {
	if errors.Is(err, actor.NotFound) {
		return &actor.Error{ID: v.caller, Kind: actor.NotFound, Err: fmt.Errorf("the caller %s does not exist", v.caller)}
	}
	return err
}

// send puts an envelope into an inbox. It is answered by the actor that takes it, not here.
func (v *visit) send(_ context.Context, subject string, from actor.ID, kind string, keyed a2e.Request, body any) error {
	env := actor.Envelope{From: from, Kind: kind, Asker: v.asker, Body: agent.Pack(body)}
	if keyed != nil && v.env.ID != "" {
		env.Key = v.key(keyed)
	}
	data := seal([]actor.Envelope{env})
	if limit := v.h.Conn.MaxPayload(); int64(len(data)) > limit {
		return &actor.Error{Kind: actor.TooLarge, Err: fmt.Errorf("%d bytes are more than the server takes", len(data))}
	}
	ack := v.h.Conn.Send(subject, data)
	v.h.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		defer cancel()
		_, err := ack.Wait(ctx)
		v.h.noteFull(err)
		switch {
		case bus.AtLimit(err):
			v.fail(&actor.Error{Kind: actor.InboxFull, Err: err})
		case err != nil:
			v.fail(&actor.Error{Kind: actor.Unavailable, Err: err})
		}
	})
	return nil
}

// key is the request's idempotency key: caller, type and id, and a digest of all that is not the
// envelope.
func (v *visit) key(req a2e.Request) actor.Key {
	bare, err := a2e.Encode(withoutEnvelope(req))
	if err != nil {
		bare = []byte(err.Error())
	}
	sum := sha256.Sum256(bare)
	return actor.Key{
		ID:     subjects.IdempotencyKey(v.caller, req.Type(), v.env.ID),
		Digest: hex.EncodeToString(sum[:16]),
	}
}

func withoutEnvelope(req a2e.Request) a2e.Request {
	switch m := req.(type) {
	case *a2e.SpawnReq:
		bare := *m
		bare.Envelope = a2e.Envelope{}
		bare.ScopedEnv = maps.Clone(m.ScopedEnv)
		for name := range bare.ScopedEnv {
			bare.ScopedEnv[name] = json.RawMessage("null") // a digest of a value could be guessed
		}
		return &bare
	case *a2e.DelegateReq:
		bare := *m
		bare.Envelope = a2e.Envelope{}
		return &bare
	case *a2e.MessageReq:
		bare := *m
		bare.Envelope = a2e.Envelope{}
		return &bare
	case *a2e.ExtendReq:
		bare := *m
		bare.Envelope = a2e.Envelope{}
		return &bare
	case *a2e.MergeReq:
		bare := *m
		bare.Envelope = a2e.Envelope{}
		return &bare
	}
	return req
}

func (v *visit) delegate(ctx context.Context, m *a2e.DelegateReq) error {
	task, err := agent.EncodeTask(m.Task)
	if err != nil {
		return err
	}
	if len(task.JSON) > actor.MaxInline {
		if err := v.mine(ctx, "subagent_id", m.SubagentID); err != nil {
			return err // before anything is stored
		}
	}
	if task, err = v.h.shrink(ctx, task); err != nil {
		return err
	}
	body := agent.Delegate{Name: m.Task.Name, Task: task}
	return v.send(ctx, v.h.Names.Inbox(m.SubagentID, actor.LaneQueue, v.caller), v.caller, agent.KindDelegate, m, &body)
}

// mine checks that id is a subagent of the caller.
func (v *visit) mine(ctx context.Context, field string, id actor.ID) error {
	l, err := v.h.lineage(ctx, id)
	if err == nil && l.Under(v.caller) {
		return nil
	}
	if err == nil || errors.Is(err, actor.NotFound) {
		return &actor.Error{ID: id, Kind: actor.NotFound, Field: field, Err: fmt.Errorf("not a subagent of %s", v.caller)}
	}
	return err
}

func (v *visit) message(ctx context.Context, m *a2e.MessageReq) error {
	caller, err := v.h.lineage(ctx, v.caller)
	if err != nil {
		return v.caller404(err)
	}
	if m.FromSubagentID != v.caller {
		from, err := v.h.lineage(ctx, m.FromSubagentID)
		if err != nil && !errors.Is(err, actor.NotFound) {
			return err
		}
		if err != nil || !from.Under(v.caller) {
			return &actor.Error{ID: m.FromSubagentID, Kind: actor.NotFound, Field: "from_subagent_id", Err: fmt.Errorf("neither %s nor a subagent of it", v.caller)}
		}
	}
	if caller.Outside && m.ToSubagentID == caller.Root() {
		return v.mail(ctx, m)
	}
	if to, err := v.h.lineage(ctx, m.ToSubagentID); len(m.Message.Content) > actor.MaxInline && (err != nil || to.Root() != caller.Root()) {
		return &actor.Error{ID: m.ToSubagentID, Kind: actor.NotFound, Field: "to_subagent_id", Err: fmt.Errorf("not in the tree of %s", caller.Root())}
	}
	content, err := v.h.shrink(ctx, actor.Value{JSON: m.Message.Content})
	if err != nil {
		return err
	}
	body := agent.Message{Root: caller.Root(), Type: m.Message.Type, Content: content, Meta: agent.EncodeMeta(m.Message)}
	if len(body.Meta) > maxMeta {
		return &actor.Error{Kind: actor.TooLarge, Field: "message.metadata", Err: fmt.Errorf("has more than %d bytes", maxMeta)}
	}
	return v.send(ctx, v.h.Names.Inbox(m.ToSubagentID, actor.LaneQueue, m.FromSubagentID), m.FromSubagentID, agent.KindMessage, m, &body)
}

// mail delivers a message to the agent outside that is the root.
func (v *visit) mail(ctx context.Context, m *a2e.MessageReq) error {
	name := subjects.IdempotencyKey(v.caller, m.Type(), v.env.ID)
	if v.env.ID == "" {
		name = fmt.Sprint("at-", time.Now().UnixNano())
	}
	data, err := a2e.Encode(withoutEnvelope(m))
	if err != nil {
		return err
	}
	subject := v.h.Names.Mail(m.ToSubagentID, m.FromSubagentID, "message-"+name)
	if _, err := v.h.Conn.SendExpect(subject, 0, data).Wait(ctx); err != nil && !errors.Is(err, actor.Conflict) {
		return err
	}
	v.answer(&a2e.MessageResp{Envelope: a2e.Answer(v.env, time.Now()), Delivered: true})
	return nil
}

// await sends an await to the thread; one for several is gathered here.
func (v *visit) await(ctx context.Context, m *a2e.AwaitReq) error {
	caller, err := v.h.lineage(ctx, v.caller)
	if err != nil {
		return v.caller404(err)
	}
	ids := m.SubagentIDs
	if m.Mode == "" {
		ids = []actor.ID{m.SubagentID}
	}
	for _, id := range ids {
		if caller.Under(id) {
			return &actor.Error{ID: id, Kind: actor.AwaitCycle, Field: "subagent_id", Err: errors.New("it would wait for itself or for an ancestor")}
		}
	}
	wait := m.Timeout()
	if wait == 0 {
		wait = maxAwait
	}
	if m.Mode != "" {
		return v.gather(ctx, m, wait)
	}
	body := agent.Await{Until: time.Now().Add(wait).UnixMicro()}
	return v.send(ctx, v.h.Names.Inbox(m.SubagentID, actor.LaneQueue, v.caller), v.caller, agent.KindAwait, nil, &body)
}
