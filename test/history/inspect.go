package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

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

// An inspection looks for what is wrong with records.
type inspection struct {
	*Records
	lives   map[actor.ID]*life
	hosts   map[actor.ID][]stored
	mail    map[string][]byte // by subject
	entries map[actor.ID]agent.Entry
	wrong   Violations
}

// Violations are broken promises, by rule.
type Violations map[string][]string

func (x *inspection) violation(rule, format string, args ...any) {
	x.wrong[rule] = append(x.wrong[rule], fmt.Sprintf(format, args...))
}

// String tells the first few of each rule.
func (v Violations) String() string {
	var b strings.Builder
	for _, rule := range slices.Sorted(maps.Keys(v)) {
		fmt.Fprintf(&b, "%s (%d times)\n", rule, len(v[rule]))
		for _, text := range v[rule][:min(4, len(v[rule]))] {
			fmt.Fprintf(&b, "   %s\n", text)
		}
	}
	return b.String()
}

// Inspect holds records against every rule. What it finds wrong with records that were read while something
// still moved may be right a little later.
func Inspect(r *Records) Violations {
	x := &inspection{
		Records: r, lives: map[actor.ID]*life{}, hosts: map[actor.ID][]stored{}, mail: map[string][]byte{},
		entries: map[actor.ID]agent.Entry{}, wrong: Violations{},
	}
	if !x.sort() {
		return x.wrong
	}
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
	x.checkDepth()
	x.checkEnvelopes()
	x.checkOrder()
	x.checkEffects()
	x.checkRegistry()
	x.checkSeen()
	x.checkOutside()
	return x.wrong
}

// Told says what there is, for people.
func (r *Records) Told() string {
	threads, sessions := map[actor.ID]bool{}, 0
	for _, p := range r.Journal {
		if !p.of.Host {
			threads[p.of.ID] = true
		}
		for _, e := range p.Entries {
			if e.Kind == actor.EntryEnd {
				sessions++
			}
		}
	}
	return fmt.Sprintf("%d calls, %d threads, %d sessions, %d records, %d mails", len(r.Calls), len(threads), sessions, len(r.Journal), len(r.Mail))
}

// sort puts everything in its place. What can't be read at all ends the inspection.
func (x *inspection) sort() bool {
	const readable = "everything can be read"
	for _, p := range x.Journal {
		if p.of.Host {
			x.hosts[p.of.ID] = append(x.hosts[p.of.ID], p.stored)
			continue
		}
		l := x.lives[p.of.ID]
		if l == nil {
			l = &life{id: p.of.ID, ends: map[uint64]actor.Entry{}, opened: map[uint64]int64{}}
			x.lives[p.of.ID] = l
		}
		if err := l.add(x, p.stored); err != nil {
			x.violation(readable, "record %d of %s: %v", p.seq, p.of, err)
		}
	}
	for _, m := range x.Mail {
		if _, twice := x.mail[m.Subject]; twice {
			x.violation("mail is delivered once", "%s is there twice", m.Subject)
		}
		x.mail[m.Subject] = m.Data
	}
	for _, m := range x.Dead {
		x.violation("nothing ends in the dead letters", "%s: %s", m.Subject, brief(string(m.Data)))
	}
	for id, data := range x.Registry {
		var e agent.Entry
		if err := json.Unmarshal(data, &e); err != nil {
			x.violation(readable, "registry entry of %s: %v", id, err)
		}
		x.entries[id] = e
	}
	return x.wrong[readable] == nil
}

// add takes the next record of a thread.
func (l *life) add(x *inspection, r stored) error {
	if len(l.records) == 0 {
		if err := agent.Unpack(r.Delta, &l.birth); err != nil {
			return err
		}
	}
	first := r.Record
	if len(l.records) > 0 {
		first = l.records[0].Record
	}
	state, err := agent.Load(&r.Record, r.seq, &first)
	if err != nil {
		return err
	}
	l.records = append(l.records, r)
	l.states = append(l.states, state)
	l.entries = append(l.entries, r.Entries...)
	for _, e := range r.Entries {
		if e.Kind == actor.EntryEnd {
			if before, twice := l.ends[e.Session]; twice {
				x.violation("a session ends once", "session %d of %s ended with %s and again, in record %d, with %s", e.Session, l.id, before.Name, r.seq, e.Name)
				continue
			}
			l.ends[e.Session] = e
		}
	}
	if n, _, _, _ := state.At(); n > 0 && l.opened[n] == 0 {
		l.opened[n] = r.At
	}
	return nil
}

// inOrder walks through the threads in the order of their births.
func (x *inspection) inOrder() []*life {
	return slices.SortedFunc(maps.Values(x.lives), func(a, b *life) int { return cmp.Compare(a.records[0].seq, b.records[0].seq) })
}
