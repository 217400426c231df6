package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/subjects"
)

// A stored is a record with its place in the journal stream.
type stored struct {
	seq uint64
	actor.Record
}

// A life is a thread as its journal tells it.
type life struct {
	id      actor.ID
	birth   agent.Birth
	records []stored
	states  []*agent.Thread // after each record
	entries []actor.Entry
	ends    map[uint64]actor.Entry // of sessions that have ended
	opened  map[uint64]int64       // when each session was opened, as far as a record shows it
}

func (l *life) last() *agent.Thread { return l.states[len(l.states)-1] }

// An inspection is all that there is once nothing moves any more.
type inspection struct {
	t       *testing.T
	calls   []*call
	lives   map[actor.ID]*life
	hosts   map[actor.ID][]stored
	mail    map[string][]byte // by subject
	entries map[actor.ID]agent.Entry
	raw     map[actor.ID]string // registry entries as they are
	keys    map[string][]byte
	wrong   map[string]int // violations by rule
}

// violation tells of a broken promise. Of one rule the first few are enough.
func (x *inspection) violation(rule, format string, args ...any) {
	x.t.Helper()
	if x.wrong[rule]++; x.wrong[rule] <= 4 {
		x.t.Errorf(rule+": "+format, args...)
	}
}

func (s *scene) inspect() {
	s.t.Helper()
	x := &inspection{
		t: s.t, calls: s.book.all(), lives: map[actor.ID]*life{}, hosts: map[actor.ID][]stored{}, mail: map[string][]byte{},
		entries: map[actor.ID]agent.Entry{}, raw: map[actor.ID]string{}, keys: map[string][]byte{}, wrong: map[string]int{},
	}
	records := x.read(s)
	x.checkCalls()
	x.checkSpawns()
	x.checkTasks()
	x.checkNotes()
	x.checkAwaits()
	x.checkStops()
	x.checkJournals()
	x.checkSessions()
	x.checkInstances()
	x.checkTrees()
	x.checkEnvelopes(records)
	x.checkEffects(s.names, records)
	x.checkRegistry()
	x.checkOutside(s)
	for rule, n := range x.wrong {
		s.t.Logf("%d times: %s", n, rule)
	}
	sessions, mails := 0, len(x.mail)
	for _, l := range x.lives {
		sessions += len(l.ends)
	}
	s.t.Logf("%d calls, %d threads, %d sessions, %d records, %d mails", len(x.calls), len(x.lives), sessions, len(records), mails)
}

// A placed record belongs to an actor.
type placed struct {
	stored
	of actor.Address
}

// read reads everything, and gives all records in the order in which they were written.
func (x *inspection) read(s *scene) (all []placed) {
	x.t.Helper()
	s.each(s.names.JournalStream(), func(m stream) {
		a, err := s.names.ParseJournal(m.subject)
		if err != nil {
			x.t.Fatal(err)
		}
		r := placed{stored: stored{seq: m.seq}, of: a}
		if err := agent.Unpack(m.data, &r.Record); err != nil {
			x.t.Fatalf("record %d of %s: %v", m.seq, a, err)
		}
		all = append(all, r)
		if a.Host {
			x.hosts[a.ID] = append(x.hosts[a.ID], r.stored)
			return
		}
		l := x.lives[a.ID]
		if l == nil {
			l = &life{id: a.ID, ends: map[uint64]actor.Entry{}, opened: map[uint64]int64{}}
			x.lives[a.ID] = l
		}
		l.add(x, r.stored)
	})
	s.each(s.names.MailStream(), func(m stream) {
		if _, twice := x.mail[m.subject]; twice {
			x.violation("mail is delivered once", "%s is there twice", m.subject)
		}
		x.mail[m.subject] = m.data
	})
	s.each(s.names.DeadStream(), func(m stream) {
		x.violation("nothing ends in the dead letters", "%s: %s", m.subject, brief(string(m.data)))
	})
	s.each(subjects.KVStream(s.names.KeysBucket()), func(m stream) { x.keys[m.subject] = m.data })
	bucket := s.names.RegistryBucket()
	s.each(subjects.KVStream(bucket), func(m stream) {
		_, _, child, err := subjects.ParseRegistryKey(m.subject[len(subjects.KVSubject(bucket, "")):])
		var e agent.Entry
		if err == nil {
			err = json.Unmarshal(m.data, &e)
		}
		if err != nil {
			x.t.Fatalf("registry entry %s: %v", m.subject, err)
		}
		x.entries[child], x.raw[child] = e, string(m.data)
	})
	return all
}

// add takes the next record of a thread.
func (l *life) add(x *inspection, r stored) {
	if len(l.records) == 0 {
		if err := agent.Unpack(r.Delta, &l.birth); err != nil {
			x.t.Fatalf("birth of %s: %v", l.id, err)
		}
	}
	l.records = append(l.records, r)
	first := l.records[0].Record
	state, err := agent.Load(&l.records[len(l.records)-1].Record, r.seq, &first)
	if err != nil {
		x.t.Fatalf("record %d of %s: %v", r.seq, l.id, err)
	}
	l.states = append(l.states, state)
	l.entries = append(l.entries, r.Entries...)
	for _, e := range r.Entries {
		if e.Kind == actor.EntryEnd {
			if before, twice := l.ends[e.Session]; twice {
				x.violation("a session ends once", "session %d of %s ended with %s and again, in record %d, with %s", e.Session, l.id, before.Name, r.seq, e.Name)
			}
			l.ends[e.Session] = e
		}
	}
	if n, _, _, _ := state.At(); n > 0 && l.opened[n] == 0 {
		l.opened[n] = r.At
	}
}

// A stream message as it is stored.
type stream struct {
	seq     uint64
	subject string
	data    []byte
}

// each calls fn with every message of a stream, in order.
func (s *scene) each(name string, fn func(stream)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := s.conn.JS.Stream(ctx, name)
	if err != nil {
		s.t.Fatalf("read %s: %v", name, err)
	}
	if st.CachedInfo().State.Msgs == 0 {
		return
	}
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.t.Fatalf("read %s: %v", name, err)
	}
	messages, err := c.Messages()
	if err != nil {
		s.t.Fatalf("read %s: %v", name, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			s.t.Fatalf("read %s: %v", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			s.t.Fatalf("read %s: %v", name, err)
		}
		fn(stream{meta.Sequence.Stream, m.Subject(), m.Data()})
		if meta.NumPending == 0 {
			return
		}
	}
}

// rest waits until no thread works and nothing is written any more, or until patience ends; what then
// still moves is for the inspection to tell.
func (s *scene) rest() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var before uint64
	for quiet := 0; quiet < 8; quiet++ {
		now, busy := s.written(ctx)
		if now != before || busy {
			before, quiet = now, 0
		}
		if !pause(ctx, 250*time.Millisecond) {
			return
		}
	}
}

// written gives a sum that grows with everything written, and says whether a thread has a session open.
func (s *scene) written(ctx context.Context) (sum uint64, busy bool) {
	for _, name := range []string{s.names.JournalStream(), s.names.InboxStream(), s.names.MailStream()} {
		st, err := s.conn.JS.Stream(ctx, name)
		if err != nil {
			return 0, true
		}
		sum += st.CachedInfo().State.LastSeq
	}
	for a := range agents {
		entries, err := s.store.Registry.Tree(ctx, agentID(a))
		if err != nil {
			return 0, true
		}
		for _, e := range entries {
			var entry agent.Entry
			busy = busy || json.Unmarshal(e.Data, &entry) != nil || entry.A2E() == a2e.Running || entry.A2E() == a2e.Waiting
		}
	}
	return sum, busy
}

// inOrder walks through the threads in the order of their births.
func (x *inspection) inOrder() []*life {
	lives := make([]*life, 0, len(x.lives))
	for _, l := range x.lives {
		lives = append(lives, l)
	}
	slices.SortFunc(lives, func(a, b *life) int { return cmp.Compare(a.records[0].seq, b.records[0].seq) })
	return lives
}
