package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// patience is within what a request that is made once more at the end has to be answered.
const patience = 60 * time.Second

// Records are all that there is once nothing moves any more: what Inspect goes by.
type Records struct {
	Names   subjects.Names
	MaxLive int // live subagents of a tree

	Calls    []*Call
	Journal  []Placed // all records, in the order in which they were written
	Mail     []Message
	Dead     []Message
	Keys     map[string][]byte // kept answers, by subject
	Registry map[actor.ID][]byte
	Seen     []Sight // of the registry, while the history went on

	Listed  map[actor.ID]a2e.Status // as LIST has it
	Awaited map[actor.ID]a2e.Message
}

// A Placed record has its place in the journal stream and belongs to an actor.
type Placed struct {
	stored
	of actor.Address
}

// A stored is a record with its place in the journal stream.
type stored struct {
	seq uint64
	actor.Record
}

// A Message is one of a stream.
type Message struct {
	Subject string
	Data    []byte
}

// A Sight is an entry of the registry as somebody saw it who watches.
type Sight struct {
	ID    actor.ID
	Entry agent.Entry
}

// A Source is a namespace that can be read from outside.
type Source struct {
	Conn    *bus.Conn
	Store   *store.Store
	Names   subjects.Names
	Book    *Book
	Agents  []actor.ID // outside
	MaxLive int        // live subagents of a tree

	mu   sync.Mutex
	seen []Sight
}

// Watch looks at the registry until ctx ends.
func (s *Source) Watch(ctx context.Context) error {
	err := s.Store.Registry.Watch(ctx, "", func(e store.Entry, deleted bool) {
		var entry agent.Entry
		if deleted || json.Unmarshal(e.Data, &entry) != nil {
			return // entries that can't be read are seen in the end
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, Sight{e.Child, entry})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Read reads everything.
func (s *Source) Read(ctx context.Context) (*Records, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := &Records{
		Names: s.Names, MaxLive: s.MaxLive, Calls: s.Book.all(),
		Keys: map[string][]byte{}, Registry: map[actor.ID][]byte{}, Awaited: map[actor.ID]a2e.Message{},
	}
	s.mu.Lock()
	r.Seen = append(r.Seen, s.seen...)
	s.mu.Unlock()
	keep := func(to *[]Message) func(uint64, Message) error {
		return func(_ uint64, m Message) error { *to = append(*to, m); return nil }
	}
	err := errors.Join(
		s.each(ctx, s.Names.JournalStream(), r.addRecord),
		s.each(ctx, s.Names.MailStream(), keep(&r.Mail)),
		s.each(ctx, s.Names.DeadStream(), keep(&r.Dead)),
		s.each(ctx, subjects.KVStream(s.Names.KeysBucket()), func(_ uint64, m Message) error { r.Keys[m.Subject] = m.Data; return nil }),
		s.each(ctx, subjects.KVStream(s.Names.RegistryBucket()), r.addEntry),
	)
	if err != nil {
		return nil, err
	}
	if r.Listed, err = s.list(ctx); err != nil {
		return nil, err
	}
	for id, root := range r.atRest() {
		// An error stays what it is: the inspection tells of it.
		if r.Awaited[id], err = s.Book.Ask(ctx, root, &a2e.AwaitReq{SubagentID: id, TimeoutSeconds: 5}); err != nil {
			return nil, fmt.Errorf("await %s: %w", id, err)
		}
	}
	return r, nil
}

func (r *Records) addRecord(seq uint64, m Message) error {
	a, err := r.Names.ParseJournal(m.Subject)
	if err != nil {
		return err
	}
	p := Placed{stored: stored{seq: seq}, of: a}
	if err := agent.Unpack(m.Data, &p.Record); err != nil {
		return fmt.Errorf("record %d of %s: %w", seq, a, err)
	}
	r.Journal = append(r.Journal, p)
	return nil
}

func (r *Records) addEntry(_ uint64, m Message) error {
	prefix := subjects.KVSubject(r.Names.RegistryBucket(), "")
	_, _, child, err := subjects.ParseRegistryKey(m.Subject[len(prefix):])
	if err != nil {
		return fmt.Errorf("registry entry %s: %w", m.Subject, err)
	}
	r.Registry[child] = m.Data
	return nil
}

// atRest gives the threads that wait for nothing, with their roots.
func (r *Records) atRest() map[actor.ID]actor.ID {
	rest := map[actor.ID]actor.ID{}
	for id, data := range r.Registry {
		var e agent.Entry
		if json.Unmarshal(data, &e) == nil && e.A2E() != a2e.Running && e.A2E() != a2e.Waiting {
			rest[id] = e.RootAgentID
		}
	}
	return rest
}

// list asks as the agents do.
func (s *Source) list(ctx context.Context) (map[actor.ID]a2e.Status, error) {
	listed := map[actor.ID]a2e.Status{}
	for _, a := range s.Agents {
		for page := (&a2e.ListReq{}); ; {
			msg, err := s.Book.Ask(ctx, a, page)
			resp, ok := msg.(*a2e.ListResp)
			if !ok {
				return nil, fmt.Errorf("list as %s: %v: %w", a, msg, err)
			}
			for _, info := range resp.Subagents {
				listed[info.SubagentID] = info.Status
			}
			if resp.Cursor == "" {
				break
			}
			page = &a2e.ListReq{Cursor: resp.Cursor}
		}
	}
	return listed, nil
}

// stream asks for a stream until somebody answers: a question that comes while there is no leader is not answered
// at all.
func (s *Source) stream(ctx context.Context, name string) (st jetstream.Stream, err error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		st, err = s.Conn.JS.Stream(attempt, name)
		cancel()
		if err == nil || !pause(ctx, retryPause) {
			return st, err
		}
	}
}

// each calls fn with every message of a stream, in order.
func (s *Source) each(ctx context.Context, name string, fn func(uint64, Message) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", name, err)
		}
	}()
	st, err := s.stream(ctx, name)
	if err != nil || st.CachedInfo().State.Msgs == 0 {
		return err
	}
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := fn(meta.Sequence.Stream, Message{m.Subject(), m.Data()}); err != nil || meta.NumPending == 0 {
			return err
		}
	}
}

// Busy gives a sum that grows with everything written, and says whether a thread has a session open.
func (s *Source) Busy(ctx context.Context) (written uint64, busy bool) {
	for _, name := range []string{s.Names.JournalStream(), s.Names.InboxStream(), s.Names.MailStream()} {
		st, err := s.stream(ctx, name)
		if err != nil {
			return 0, true
		}
		written += st.CachedInfo().State.LastSeq
	}
	for _, a := range s.Agents {
		entries, err := s.Store.Registry.Tree(ctx, a)
		if err != nil {
			return 0, true
		}
		for _, e := range entries {
			var entry agent.Entry
			busy = busy || json.Unmarshal(e.Data, &entry) != nil || entry.A2E() == a2e.Running || entry.A2E() == a2e.Waiting
		}
	}
	return written, busy
}

// Rest waits until no thread works and nothing was written for a time, or until ctx ends; what then still
// moves is for the inspection to tell.
func (s *Source) Rest(ctx context.Context, quiet time.Duration) {
	const looks = 8
	var before uint64
	for n := 0; n < looks; n++ {
		now, busy := s.Busy(ctx)
		if now != before || busy {
			before, n = now, 0
		}
		if !pause(ctx, quiet/looks) {
			return
		}
	}
}
