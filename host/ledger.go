package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

const (
	maxTaken = 65_536  // ids of envelopes in memory
	maxKeys  = 1 << 20 // idempotency keys of one actor in memory
	lookUps  = 32      // answers that are looked up at the same time
)

// A ledger knows the envelopes that an actor took. An id's J is the sequence of the record that sent it:
// at or above the floor the ids in memory say whether it was taken; below it the actor's journal
// after J does. No clock and no window is involved.
type ledger struct {
	floor uint64
	taken map[actor.Taken]struct{}
	keys  map[uint64]struct{} // hashes of the idempotency keys that were answered
	all   bool                // keys has every one that the actor ever answered
}

func newLedger(floor uint64, all bool) ledger {
	return ledger{floor: floor, all: all, taken: map[actor.Taken]struct{}{}, keys: map[uint64]struct{}{}}
}

func (l *ledger) add(e *actor.Envelope) {
	if !e.ID.IsZero() {
		l.taken[actor.Taken{From: e.From, ID: e.ID}] = struct{}{}
	}
}

// trim forgets the ids in memory once they are many. seq is that of the last record.
func (l *ledger) trim(seq uint64) {
	if len(l.taken) > maxTaken {
		clear(l.taken)
		l.floor = seq
	}
}

func (l *ledger) answered(key string) {
	if len(l.keys) >= maxKeys {
		clear(l.keys)
		l.all = false
	}
	l.keys[hashOf(key)] = struct{}{}
}

// new reports whether key was certainly not answered before.
func (l *ledger) new(key string) bool {
	_, maybe := l.keys[hashOf(key)]
	return l.all && !maybe
}

func hashOf(key string) uint64 { return maphash.String(seed, key) }

var seed = maphash.MakeSeed()

const (
	maxKept      = 8    // answers in a thread's record
	maxKeptBytes = 1024 // of one of them
	keepAnswers  = 24 * time.Hour
)

// kept is the latest answers of a thread, which stand in its records: most threads are asked few
// things, and these need no write and no look-up of their own. What has no room there spills into
// the bucket of keys, as all answers of a host do.
type kept struct {
	list    []actor.Answered
	spilled bool
	fresh   []actor.Answered // those of the present turn
}

func (k kept) find(key string) ([]byte, bool) {
	for i := range k.list {
		if k.list[i].Key == key {
			return k.list[i].Body, true
		}
	}
	return nil, false
}

// next gives what the record of turn keeps. It takes the answers that stay here out of the turn's
// effects, and adds those that have to leave.
func (k kept) next(turn *actor.Turn, isHost bool) kept {
	isAnswer := func(e actor.Effect) bool { return e.Kind == actor.EffectAnswer }
	if len(k.list) == 0 && !slices.ContainsFunc(turn.Effects, isAnswer) {
		return kept{spilled: k.spilled}
	}
	now := time.Now()
	n := kept{spilled: k.spilled, list: slices.DeleteFunc(slices.Clone(k.list), func(a actor.Answered) bool {
		return now.Sub(time.UnixMicro(a.At)) > keepAnswers
	})}
	var effects []actor.Effect
	for i, e := range turn.Effects {
		if e.Kind != actor.EffectAnswer {
			if !isHost || i == 0 || !replies(&turn.Effects[i-1], &e) {
				effects = append(effects, e)
				continue
			}
			effects[len(effects)-1].Asker.Reply = e.Name
			continue
		}
		a := actor.Answered{Key: e.Name, At: now.UnixMicro(), Body: e.Body}
		n.fresh = append(n.fresh, a)
		if isHost || len(e.Body) > maxKeptBytes {
			n.spilled = true
			effects = append(effects, e)
			continue
		}
		n.list = append(n.list, a)
	}
	for len(n.list) > maxKept {
		n.spilled = true
		effects = append(effects, actor.Effect{Kind: actor.EffectAnswer, Name: n.list[0].Key, Body: n.list[0].Body})
		n.list = n.list[1:]
	}
	turn.Effects = effects
	return n
}

// replies reports whether the effect e publishes what the one before it keeps as an answer. A host's record then holds
// it once: an answer with an asker is published as well, where replies are. A program that does not know of that leaves
// it out when it sends the record again, and the asker gets the answer when it asks again.
func replies(before, e *actor.Effect) bool {
	if before.Kind != actor.EffectAnswer || e.Kind != actor.EffectReply {
		return false
	}
	var s agent.Stored
	return agent.Unpack(before.Body, &s) == nil && bytes.Equal(s.JSON, e.Body)
}

// seen reports whether the envelope was taken before. reach has been called for its batch.
func (l *ledger) seen(t actor.Taken) bool {
	_, ok := l.taken[t]
	return ok
}

// farther is by how much more than needed the ledger is extended, so that it is done seldom.
const farther = 4096

// reach makes the ledger know of every envelope of a batch whether it was taken: for ids below the floor it
// reads the actor's journal down to the lowest, once, and lowers the floor.
func (c *cell) reach(ctx context.Context, batch []actor.Envelope) error {
	l := &c.ledger
	l.trim(c.seq)
	lowest := l.floor
	for i := range batch {
		if e := &batch[i]; !e.ID.IsZero() && e.Seq > *c.cursor.Of(e.Lane) {
			lowest = min(lowest, e.ID.J)
		}
	}
	if lowest >= l.floor {
		return nil
	}
	lowest -= min(lowest, farther)
	err := c.p.h.Store.Journal.Range(ctx, c.addr, lowest+1, c.seq, func(m store.Message) error {
		r, err := decodeRecord(m)
		if err != nil {
			return err
		}
		for _, t := range r.Took {
			l.taken[t] = struct{}{}
		}
		return nil
	})
	if err == nil {
		l.floor = lowest
	}
	return err
}

// replay finds the answer to a request that was answered before: the same one again, or a conflict if
// the key came with another body. found is what lookUpAnswers found.
func (c *cell) replay(e *actor.Envelope, found map[string]agent.Stored) (*actor.Effect, error) {
	s, ok := found[e.Key.ID]
	if !ok {
		return nil, nil
	}
	if s.Digest != e.Key.Digest {
		err := &actor.Error{Kind: actor.Conflict, Field: "id", Err: errors.New("the id was used for another request")}
		msg := a2e.NewError(agent.RequestOf(e.Asker), e.At, err)
		msg.Retryable = false // not under this id
		data, encodeErr := a2e.Encode(msg)
		if encodeErr != nil {
			return nil, encodeErr
		}
		s = agent.Stored{IsError: true, JSON: data}
	}
	effect := agent.AnswerEffect(e, s.JSON, s.IsError)
	return &effect, nil
}

// lookUpAnswers finds the answers to the keys of a batch: in the record, or in the bucket of keys, where
// only those are looked for that may be there.
func (c *cell) lookUpAnswers(ctx context.Context, batch []actor.Envelope) (map[string]agent.Stored, error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		first error
		found = map[string]agent.Stored{}
		room  = make(chan struct{}, lookUps)
	)
	for i := range batch {
		key := batch[i].Key.ID
		if key == "" || c.ledger.new(key) {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			s, ok, err := c.stored(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				found[key] = s
			}
			if first == nil {
				first = err
			}
			<-room
		})
	}
	wg.Wait()
	return found, first
}

func (c *cell) stored(ctx context.Context, key string) (s agent.Stored, found bool, err error) {
	data, found := c.kept.find(key)
	for _, e := range c.effects(actor.EffectAnswer) { // recorded, and not in the bucket yet
		if e.Name == key {
			data, found = e.Body, true
		}
	}
	if !found {
		if data, found, err = c.p.h.Store.Keys.Get(ctx, key); err != nil || !found {
			return s, false, err
		}
	}
	if err := agent.Unpack(data, &s); err != nil {
		return s, false, fmt.Errorf("answer %s: %w", key, err)
	}
	return s, true, nil
}

// A history is the entries of a thread, as far as they are in memory.
type history struct {
	complete bool // nothing before the entries is missing
	entries  []actor.Entry
	bytes    int
}

// maxHistory is how many bytes of history a thread keeps in memory; a longer one is read when needed.
const maxHistory = 1 << 20

func (h *history) add(entries []actor.Entry) {
	if !h.complete {
		return
	}
	for i := range entries {
		h.bytes += len(entries[i].Content.JSON) + len(entries[i].Meta) + overhead
	}
	if h.bytes > maxHistory {
		*h = history{}
		return
	}
	h.entries = append(h.entries, entries...)
}
