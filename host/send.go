package host

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// passing reports whether a write that failed may succeed when it is tried again.
func passing(err error) bool {
	switch actor.KindOf(err) {
	case actor.TooLarge, actor.SchemaViolation, actor.Conflict:
		return false
	}
	return true
}

// A write is one effect on its way.
type write struct {
	try  func() actor.Ack
	done func(seq uint64, err error) error // takes the outcome; nil error: a conflict is not one
	ack  actor.Ack
	what []byte // for the dead letters, if it can't be sent
}

// sendAll brings about the effects of the unsent records, oldest first and stage by stage; all of a stage
// are acknowledged before the next begins. It returns only when everything is sent, or with ctx's error.
// What can never be sent is a dead letter.
func (c *cell) sendAll(ctx context.Context) error {
	for _, stage := range []func() []write{c.births, c.facts} {
		if err := c.flush(ctx, stage()); err != nil {
			return err
		}
	}
	for _, round := range c.messages() {
		if err := c.flush(ctx, round); err != nil {
			return err
		}
	}
	c.tell()
	c.unsent, c.spawned = nil, nil
	if c.sent != nil {
		close(c.sent)
		c.sent = nil
	}
	return nil
}

// tell publishes the events. A host answers here as well, each answer right before its own events: what
// the asker has the new thread do at once must not be told of before its birth is.
func (c *cell) tell() {
	root := c.root()
	for _, r := range c.unsent {
		var born []int // who is still to be told of
		told := slices.ContainsFunc(r.Effects, func(e actor.Effect) bool { return e.Kind == actor.EffectEvent && e.Name == spawnedEvent })
		tellBorn := func() {
			for _, i := range born {
				id := r.Effects[i].To.ID
				if content := c.spawned[id]; content != nil && !told { // else an older program recorded the event itself
					c.p.h.event(root, id, spawnedEvent, actor.EnvelopeID{J: r.seq, N: uint32(i)}, content)
				}
			}
			born = born[:0]
		}
		for i := range r.Effects {
			switch e := &r.Effects[i]; {
			case e.Kind == actor.EffectBirth:
				born = append(born, i)
				continue
			case e.Kind == actor.EffectEvent:
				c.p.h.event(root, e.To.ID, e.Name, actor.EnvelopeID{J: r.seq, N: uint32(i)}, e.Body)
			case e.Kind == actor.EffectReply && c.addr.Host:
				c.p.h.reply(e.Name, e.Body)
			case e.Kind == actor.EffectAnswer && e.Asker.Reply != "":
				c.p.h.replyKept(e)
			case e.Kind == actor.EffectAnswer:
				continue // its reply follows, if there is one
			}
			tellBorn()
		}
		tellBorn()
	}
}

func (c *cell) root() actor.ID {
	if c.addr.Host {
		return c.addr.ID
	}
	if t, ok := c.machine.(*agent.Thread); ok {
		return t.Lineage().Root()
	}
	return c.addr.ID
}

// flush publishes all writes, then waits for all, and tries those that failed again.
func (c *cell) flush(ctx context.Context, writes []write) error {
	for again := (pace{}); len(writes) > 0; {
		c.p.h.counters.sends.Add(uint64(len(writes)))
		for i := range writes {
			writes[i].ack = writes[i].try()
		}
		failed := writes[:0]
		var cause error
		for _, w := range writes {
			seq, err := w.ack.Wait(ctx)
			if w.done != nil {
				err = w.done(seq, err)
			}
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return ctx.Err()
			case !passing(err):
				c.p.h.Log.Error().Err(err).Str("actor", c.addr.String()).Msg("an effect can't be sent and is dropped")
				c.p.h.deadLetter(c.addr.ID, err.Error(), "", w.what)
			default:
				failed = append(failed, w)
				if err != errAgain {
					cause = err
				}
			}
		}
		if writes = failed; cause != nil && !again.failed(ctx, c.report(&again, cause, "what a turn sends")) {
			return ctx.Err()
		}
	}
	return nil
}

// births writes the registry entries of new threads; their births, in facts, tell the revisions.
func (c *cell) births() []write {
	var writes []write
	c.spawned = nil
	for r, e := range c.effects(actor.EffectBirth) {
		b, err := newborn(e.Body, r.At)
		if err != nil {
			c.p.h.Log.Error().Err(err).Str("actor", c.addr.String()).Msg("a birth can't be read")
			continue
		}
		data, l := b.thread.RegistryEntry(r.seq)
		if c.spawned == nil {
			c.spawned = map[actor.ID][]byte{}
		}
		c.spawned[l.ID] = spawnedContent(b.thread)
		writes = append(writes, write{
			try: func() actor.Ack { return c.p.h.Store.Registry.Put(l.Root(), l.Parent(), l.ID, 0, data) },
			done: func(seq uint64, err error) error {
				if errors.Is(err, actor.Conflict) { // sent before
					var there store.Entry
					there, err = c.p.h.Store.Registry.Get(c.p.ctx, l.Root(), l.Parent(), l.ID)
					seq = there.Rev
				}
				if errors.Is(err, actor.NotFound) { // and removed since, for it had been terminated for long
					e.Body = nil
					delete(c.spawned, l.ID)
					return nil
				}
				b.record.Rev = seq
				e.Body = agent.Pack(&b.record) // facts writes this
				return err
			},
		})
	}
	return writes
}

type birth struct {
	record actor.Record
	thread *agent.Thread
}

func newborn(body []byte, at int64) (*birth, error) {
	var b agent.Birth
	if err := agent.Unpack(body, &b); err != nil {
		return nil, err
	}
	record, err := agent.Born(b, at)
	if err != nil {
		return nil, err
	}
	thread, err := agent.Load(&record, 0, nil)
	return &birth{record, thread}, err
}

// facts are the writes of the first stage: births, the registry, notices to the host, stored answers.
func (c *cell) facts() []write {
	var (
		writes     []write
		registered bool
		notices    []actor.Envelope
		tree       actor.ID
	)
	for r, e := range c.effects() {
		switch e.Kind {
		case actor.EffectBirth:
			if e.Body == nil {
				continue
			}
			writes = append(writes, write{
				try: func() actor.Ack { return c.p.h.Store.Journal.Append(e.To, 0, e.Body) },
				done: func(seq uint64, err error) error {
					if err == nil {
						c.p.h.births.put(e.To.ID, store.Message{Seq: seq, Data: e.Body})
					}
					return already(seq, err)
				},
			})
		case actor.EffectRegistry:
			if !registered { // the newest entry is enough
				writes = append(writes, c.register(c.seq))
			}
			registered = true
		case actor.EffectNotice:
			notices, tree = append(notices, c.envelope(r, e)), e.To.ID
		case actor.EffectAnswer:
			writes = append(writes, write{
				try:  func() actor.Ack { return c.p.h.Store.Keys.Put(e.Name, e.Body) },
				done: already,
			})
		}
	}
	if len(notices) > 0 { // in one message: that a session has ended is not told before that it was opened
		writes = append(writes, write{try: func() actor.Ack { return c.p.h.notices.send(tree, notices) }})
	}
	return writes
}

// already takes a conflict for what it is where a write is made once: it was made before.
func already(_ uint64, err error) error {
	if errors.Is(err, actor.Conflict) {
		return nil
	}
	return err
}

// register puts the registry entry as of the present state, of journal sequence j. An entry that is
// newer stays.
func (c *cell) register(j uint64) write {
	data, l := c.machine.RegistryEntry(j)
	reg := c.p.h.Store.Registry
	return write{
		try: func() actor.Ack {
			if c.stale {
				if newer, err := c.revision(l, j); newer || err != nil {
					return over{c.rev, err}
				}
			}
			return reg.Put(l.Root(), l.Parent(), l.ID, c.rev, data)
		},
		done: func(seq uint64, err error) error {
			if c.stale = err != nil; c.stale && errors.Is(err, actor.Conflict) {
				return errAgain
			}
			c.rev = seq
			if err == nil {
				c.p.h.revisions.put(c.addr.ID, revision{seq, j})
			}
			return err
		},
	}
}

// errAgain makes a write be tried again at once.
var errAgain = &actor.Error{Op: "host.register", Kind: actor.Unavailable, Err: errors.New("the entry had another revision")}

// revision reads the revision of the registry entry, and whether it tells of j or later.
func (c *cell) revision(l actor.Lineage, j uint64) (newer bool, err error) {
	entry, err := c.p.h.Store.Registry.Get(c.p.ctx, l.Root(), l.Parent(), l.ID)
	c.rev = entry.Rev
	if errors.Is(err, actor.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var there agent.Entry
	return json.Unmarshal(entry.Data, &there) == nil && there.Seq >= j, nil
}

// over is a write that needs no waiting.
type over struct {
	seq uint64
	err error
}

// Wait gives the outcome.
func (o over) Wait(context.Context) (uint64, error) { return o.seq, o.err }

// maxBundle is how many bytes of envelopes go in one message.
const maxBundle = 512 << 10

// messages are the writes of the second stage. Envelopes for one lane of one inbox go in one message,
// so that none can overtake another; what does not fit goes in a later round.
func (c *cell) messages() [][]write {
	type route struct {
		to   actor.Address
		lane actor.Lane
	}
	var (
		rounds = make([][]write, 1)
		order  []route
		groups = map[route][]actor.Envelope{}
	)
	for r, e := range c.effects() {
		switch e.Kind {
		case actor.EffectSend:
			to := route{e.To, e.Lane}
			if groups[to] == nil {
				order = append(order, to)
			}
			groups[to] = append(groups[to], c.envelope(r, e))
		case actor.EffectMail:
			subject := c.p.h.Names.Mail(e.To.ID, c.addr.ID, e.Name)
			rounds[0] = append(rounds[0], write{
				what: e.Body,
				try:  func() actor.Ack { return c.p.h.Conn.SendExpect(subject, 0, e.Body) },
				done: already,
			})
		case actor.EffectReply:
			if !c.addr.Host {
				c.p.h.reply(e.Name, e.Body)
			}
		case actor.EffectDead:
			rounds[0] = append(rounds[0], write{try: func() actor.Ack { return c.p.h.dead(e) }})
		}
	}
	for _, to := range order {
		subject := c.p.h.Names.Inbox(to.to.ID, to.lane, c.addr.ID)
		for n, envs := range bundles(groups[to]) {
			data := seal(envs)
			if n == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[n] = append(rounds[n], write{what: data, try: func() actor.Ack { return c.p.h.Conn.Send(subject, data) }})
		}
	}
	return rounds
}

// bundles cuts envelopes into messages.
func bundles(envs []actor.Envelope) (cut [][]actor.Envelope) {
	from, size := 0, 0
	for i := range envs {
		if size += len(envs[i].Body); i > from && size > maxBundle {
			cut = append(cut, envs[from:i])
			from, size = i, len(envs[i].Body)
		}
	}
	return append(cut, envs[from:])
}

// effects walks through the effects of the unsent records that are of one of the kinds, or through all.
func (c *cell) effects(kinds ...actor.EffectKind) iter.Seq2[recorded, *actor.Effect] {
	return func(yield func(recorded, *actor.Effect) bool) {
		for _, r := range c.unsent {
			for i := range r.Effects {
				e := &r.Effects[i]
				if (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) && !yield(r, e) {
					return
				}
			}
		}
	}
}

// envelope makes the envelope of an effect. Its id is the record's sequence and the effect's place in it.
func (c *cell) envelope(r recorded, e *actor.Effect) actor.Envelope {
	n := 0
	for &r.Effects[n] != e {
		n++
	}
	return actor.Envelope{
		ID: actor.EnvelopeID{J: r.seq, N: uint32(n)}, From: c.addr.ID, Session: e.Session, Kind: e.Name, Asker: e.Asker, Body: e.Body,
	}
}

// reply publishes an answer. Whoever asked may be gone, or the connection: then there is nobody to tell.
func (h *Host) reply(subject string, data []byte) {
	if err := h.Names.ReplyAllowed(subject); err != nil {
		h.Log.Warn().Err(err).Msg("an answer is wanted where none may go")
		return
	}
	if err := h.Conn.Publish(subject, data); err != nil {
		h.Log.Debug().Err(err).Str("reply", subject).Msg("an answer was not sent")
	}
}

// replyKept publishes what an effect keeps.
func (h *Host) replyKept(e *actor.Effect) {
	var s agent.Stored
	if err := agent.Unpack(e.Body, &s); err != nil {
		h.Log.Error().Err(err).Str("key", e.Name).Msg("an answer can't be read")
		return
	}
	h.reply(e.Asker.Reply, s.JSON)
}

// event tells watchers. Its id is the place of the record that caused it in the journal.
func (h *Host) event(root, id actor.ID, name string, at actor.EnvelopeID, content []byte) {
	e := a2e.Event{SubagentID: id, Event: name, Content: content}
	if !at.IsZero() {
		e.Envelope = a2e.Envelope{ID: at.String(), Version: a2e.Version, A2E: a2e.Version, TS: float64(time.Now().UnixMicro()) / 1e6}
	}
	data, err := a2e.Encode(&e)
	if err == nil {
		err = h.Conn.Publish(h.Names.Event(root, id, name), data)
	}
	if err != nil {
		h.Log.Debug().Err(err).Str("event", name).Msg("an event was not sent")
	}
}

// dead keeps an envelope as it came, with the subject that it came by.
func (h *Host) dead(e *actor.Effect) actor.Ack {
	from, data, ok := agent.Sent(e.Lane, e.Body)
	if !ok || e.Lane == "" {
		return h.deadLetter(e.To.ID, e.Name, "", e.Body)
	}
	return h.deadLetter(e.To.ID, e.Name, h.Names.Inbox(e.To.ID, e.Lane, from), data)
}

func (h *Host) deadLetter(id actor.ID, why, subject string, data []byte) actor.Ack {
	h.counters.dead.Add(1)
	return h.Conn.DeadLetter(h.Names, id, why, subject, data)
}

func deadContent(why string) []byte {
	data, err := json.Marshal(struct {
		Reason string `json:"reason"`
	}{why})
	if err != nil {
		return nil
	}
	return data
}
