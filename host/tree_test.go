package host

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// TestTreeIsItsRecords replays random histories, in which the full table is due at any time. Always
// the tree that its records restore is the live one; no spawn goes over the cap; every cascade ends
// with the last answer to its stops.
func TestTreeIsItsRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := &histories{t: t, stage: stage{registry: map[actor.ID]*actor.Known{}}, sent: map[actor.ID][]agent.Stop{}}
		h.journal = newJournal("parent_1", Limits{MaxDepth: 4, MaxLive: rapid.IntRange(1, 40).Draw(t, "cap")})
		h.every = 17
		for range rapid.IntRange(1, 100).Draw(t, "turns") {
			if rapid.IntRange(0, 15).Draw(t, "table is due") == 0 {
				h.tree.records = fullEvery
			}
			var batch []actor.Envelope
			for range rapid.IntRange(0, 3).Draw(t, "batch") {
				batch = append(batch, h.anything())
			}
			h.turn(batch)
			if rapid.IntRange(0, 30).Draw(t, "takeover") == 0 {
				h.takeover()
			}
		}
		h.answerAll()
		if n := len(h.tree.head.Cascades); n > 0 {
			t.Fatalf("all stops are answered, and %d cascades go on: %+v", n, h.tree.head.Cascades)
		}
	})
}

// histories makes up what threads and agents outside may send.
type histories struct {
	stage
	t    *rapid.T
	born []actor.ID
	sent map[actor.ID][]agent.Stop // not answered
}

func (h *histories) turn(batch []actor.Envelope) {
	h.t.Helper()
	live, opens := len(h.tree.members), false
	for _, e := range batch {
		opens = opens || e.Kind == agent.KindNotice && unpacked[agent.Notice](e.Body).Open
	}
	for more := true; more; batch = nil {
		turn := h.decide(batch)
		h.carryOut(&turn)
		if err := h.record(&turn); err != nil {
			h.t.Fatalf("record %d: %v", len(h.records), err)
		}
		more = turn.More
	}
	if n := len(h.tree.members); n > live && n > h.limits.MaxLive && !opens {
		h.t.Fatalf("%d threads are live, more than the %d allowed, and no notice was the reason", n, h.limits.MaxLive)
	}
	for _, c := range h.tree.head.Cascades {
		if c.Waiting < 0 || c.First && h.tree.rounds[c.N] == nil {
			h.t.Fatalf("a cascade counts wrongly: %+v", c)
		}
	}
}

func (h *histories) carryOut(turn *actor.Turn) {
	for i := range turn.Effects {
		switch e := &turn.Effects[i]; {
		case e.Kind == actor.EffectBirth:
			l := unpacked[agent.Birth](e.Body).Lineage
			h.registry[l.ID] = &actor.Known{Lineage: l, Found: true}
			h.born = append(h.born, l.ID)
		case e.Kind == actor.EffectSend && e.Name == agent.KindStop:
			h.sent[e.To.ID] = append(h.sent[e.To.ID], unpacked[agent.Stop](e.Body))
		}
	}
}

// takeover goes on with the tree that the records restore.
func (h *histories) takeover() {
	tree, err := h.restore()
	if err != nil {
		h.t.Fatalf("restore: %v", err)
	}
	h.tree, h.full = tree, 0
}

func (h *histories) some() actor.ID {
	return rapid.SampledFrom(append([]actor.ID{"parent_1", "sub_x"}, h.born...)).Draw(h.t, "id")
}

func (h *histories) anything() actor.Envelope {
	env := actor.Envelope{From: h.some(), Session: 1, Asker: actor.Asker{Reply: "r"}}
	switch n := rapid.IntRange(0, 9).Draw(h.t, "kind"); {
	case n < 4:
		env.Kind, env.Body = agent.KindSpawn, agent.Pack(&agent.Spawn{Parent: h.some(), Config: a2e.SubagentConfig{Name: "n"}.WithDefaults()})
		if n < 2 {
			env.From = "parent_1"
		}
	case n < 6:
		k := h.registry[env.From]
		if k == nil {
			k = &actor.Known{Lineage: actor.Lineage{ID: "sub_x", Ancestors: []actor.ID{"parent_1"}, Outside: true}}
		}
		env.From = k.ID
		env.Kind, env.Body = agent.KindNotice, agent.Pack(&agent.Notice{Lineage: k.Lineage, Session: rapid.Uint64Range(0, 5).Draw(h.t, "session"), Open: rapid.Bool().Draw(h.t, "open")})
	case n < 7:
		env.Kind = rapid.SampledFrom([]string{agent.KindCancel, agent.KindTerminate}).Draw(h.t, "stop")
		env.From, env.Body = "parent_1", agent.Pack(&agent.Target{ID: h.some()})
	case n < 8:
		env.Kind, env.Body = agent.KindMerge, agent.Pack(&agent.Merge{IDs: []actor.ID{"sub_x"}, Strategy: a2e.Voting})
	case n < 9 && len(h.tree.head.Merges) > 0:
		env.Kind, env.Body = agent.KindJob, agent.Pack(&agent.JobAnswer{N: h.tree.head.Merges[0].N, Err: "no"})
	default:
		if id := h.asked(); id != "" {
			return h.stopped(id)
		}
		env.Kind, env.Body = agent.KindStopped, agent.Pack(&agent.Stopped{Cascade: 999})
	}
	return env
}

// asked is a thread that has a stop to answer.
func (h *histories) asked() actor.ID {
	for _, id := range append([]actor.ID{"sub_x"}, h.born...) {
		if len(h.sent[id]) > 0 {
			return id
		}
	}
	return ""
}

// stopped answers a stop. A session of a thread always names the same threads, all below it.
func (h *histories) stopped(id actor.ID) actor.Envelope {
	s := h.sent[id][0]
	h.sent[id] = h.sent[id][1:]
	answer := agent.Stopped{Cascade: s.Cascade, Session: 1, Changed: true, Status: a2e.Cancelled}
	for _, other := range h.born {
		if k := h.registry[other]; k.Under(id) {
			answer.Opened = append(answer.Opened, other)
		}
	}
	return actor.Envelope{From: id, Kind: agent.KindStopped, Body: agent.Pack(&answer)}
}

func (h *histories) answerAll() {
	for range 100_000 {
		id := h.asked()
		if id == "" {
			return
		}
		h.turn([]actor.Envelope{h.stopped(id)})
	}
	h.t.Fatalf("the cascades send stops without end")
}

// TestFullTableInParts: a table that is too large for one record is written in several, while threads come
// and go. Until the last is there, the records since the table before restore the tree.
func TestFullTableInParts(t *testing.T) {
	t.Parallel()
	const many = 5 * fullPart / (2 * rowBytes)
	s := &stage{registry: map[actor.ID]*actor.Known{}}
	s.journal = newJournal("parent_1", Limits{MaxDepth: 1, MaxLive: 2 * many})
	turn := func(batch ...actor.Envelope) actor.Turn {
		turn := s.decide(batch)
		if err := s.record(&turn); err != nil {
			t.Fatalf("record %d: %v", len(s.records), err)
		}
		return turn
	}
	spawn := actor.Envelope{From: "parent_1", Kind: agent.KindSpawn, Body: agent.Pack(&agent.Spawn{})}
	batch := make([]actor.Envelope, many)
	for i := range batch {
		batch[i] = spawn
	}
	turn(batch...)
	closed := func(id actor.ID) actor.Envelope {
		return actor.Envelope{From: id, Kind: agent.KindNotice, Body: agent.Pack(&agent.Notice{Lineage: actor.Lineage{ID: id}})}
	}
	for range 3 { // the second starts from the base that the first made
		s.tree.records = fullEvery
		first := turn(spawn)
		second := turn(closed(s.tree.rest[0].id), closed(s.tree.rest[len(s.tree.rest)-1].id), closed("sub_1"), spawn)
		if !first.Full || first.Rebase || second.Full || second.Rebase {
			t.Fatalf("the table of %d threads is written in one or two records", many)
		}
		if last := turn(); !last.Rebase || s.records[len(s.records)-1].Base != s.full {
			t.Fatalf("the third record is not the end of the table: rebase %t, base %d, begun at %d", last.Rebase, s.base, s.full)
		}
	}
}

// TestCascadeOfMany: a cascade over more threads than one turn sends to. An answer that comes before all
// of the first round is sent must not make a later round of it, which stops less.
func TestCascadeOfMany(t *testing.T) {
	t.Parallel()
	const many = 2*fanOut + 500
	s := &stage{registry: map[actor.ID]*actor.Known{}}
	s.journal = newJournal("parent_1", Limits{MaxDepth: 2, MaxLive: many + 1})
	turn := func(batch ...actor.Envelope) actor.Turn {
		turn := s.decide(batch)
		if err := s.record(&turn); err != nil {
			t.Fatal(err)
		}
		return turn
	}
	spawn := actor.Envelope{From: "parent_1", Kind: agent.KindSpawn, Body: agent.Pack(&agent.Spawn{})}
	turn(spawn)
	child := actor.Envelope{From: "parent_1", Kind: agent.KindSpawn, Body: agent.Pack(&agent.Spawn{Parent: "sub_1"})}
	batch := make([]actor.Envelope, many)
	for i := range batch {
		batch[i] = child
	}
	turn(batch...)
	first := turn(actor.Envelope{From: "parent_1", Kind: agent.KindCancel, Body: agent.Pack(&agent.Target{ID: "sub_1"})})
	const last actor.ID = "sub_999" // of the first round, in the order of text
	early := turn(actor.Envelope{From: "sub_1", Kind: agent.KindStopped, Body: agent.Pack(&agent.Stopped{Cascade: 1, Session: 1, Opened: []actor.ID{last}})})
	rest := turn()
	seen := map[actor.ID]int{}
	for _, x := range []actor.Turn{first, early, rest} {
		if len(x.Effects) > fanOut {
			t.Errorf("one turn sends %d stops, more than %d", len(x.Effects), fanOut)
		}
		for _, e := range x.Effects {
			seen[e.To.ID]++
			if stop := unpacked[agent.Stop](e.Body); len(stop.Openers) > 0 {
				t.Errorf("%s is asked only about sessions that %v opened, but was never stopped before", e.To, stop.Openers)
			}
		}
	}
	if !first.More || !early.More || rest.More {
		t.Errorf("more to do at once: %t, %t, %t; 1,000 stops go in a turn, so it is true, true, false", first.More, early.More, rest.More)
	}
	if len(seen) != many+1 {
		t.Errorf("%d threads got a stop, of %d", len(seen), many+1)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s got %d stops", id, n)
		}
	}
}

// FuzzTree gives the host an envelope of any kind with any bytes. It must not panic, and its records
// must restore it.
func FuzzTree(f *testing.F) {
	for kind, body := range map[string]any{
		agent.KindSpawn:     &agent.Spawn{Parent: "sub_1", Config: a2e.SubagentConfig{Name: "n", Model: "m"}},
		agent.KindCancel:    &agent.Target{ID: "sub_1"},
		agent.KindTerminate: &agent.Target{ID: "parent_1"},
		agent.KindMerge:     &agent.Merge{IDs: []actor.ID{"sub_1"}, Strategy: a2e.Voting},
		agent.KindNotice:    &agent.Notice{Lineage: actor.Lineage{ID: "sub_1"}, Session: 1},
		agent.KindStopped:   &agent.Stopped{Cascade: 1, Session: 1, Status: `"`, Opened: []actor.ID{"sub_1", "sub_2"}},
		agent.KindJob:       &agent.JobAnswer{N: 1, Content: actor.Value{JSON: []byte(`{"type":"SUBAGENT_MERGE_RESP","merged_result":{}}`)}},
	} {
		f.Add(kind, "parent_1", agent.Pack(body))
		f.Add(kind, "sub_1", agent.Pack(body))
	}
	f.Add(agent.KindStopped, "sub_1", agent.Pack(&agent.Stopped{Cascade: 1, Session: 1, Status: `"`}))
	f.Fuzz(func(t *testing.T, kind, from string, body []byte) {
		s := &stage{}
		for _, line := range []string{
			"tree parent_1", "spawn a from=parent_1", "spawn b from=parent_1 parent=sub_1",
			"cancel sub_1 from=parent_1 reply=r1", "stopped sub_2", "merge sub_1 from=parent_1 reply=r2",
		} {
			if _, err := s.play([]string{line}); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		turn := s.decide([]actor.Envelope{{Kind: kind, From: actor.ID(from), Body: body, Asker: actor.Asker{Reply: "r3"}}})
		if _, err := s.ended(turn); err != nil {
			t.Fatalf("after %s: %v", kind, err)
		}
	})
}
