package history

import (
	"errors"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// breaks has, for each rule, what breaks it in a small history.
var breaks = map[string]func(s *small){
	"everything can be read":           func(s *small) { s.last(s.parent).Head = []byte("?") },
	"nothing ends in the dead letters": func(s *small) { s.Dead = append(s.Dead, Message{"dead", nil}) },

	// What agents were answered.
	"every request is answered":   func(s *small) { call[*a2e.MergeReq](s).answers = nil },
	"answers are of the protocol": func(s *small) { call[*a2e.MergeReq](s).answer(nil, "?") },
	"sound requests are not refused": func(s *small) {
		call[*a2e.MergeReq](s).answer(a2e.NewError(a2e.Envelope{}, time.Now(), &actor.Error{Kind: actor.RuntimeError, Err: errors.New("x")}), "error")
	},
	"a request has one answer": func(s *small) {
		c := call[*a2e.SpawnReq](s)
		c.answers, c.raw = append(c.answers, c.answers[0]), append(c.raw, "another")
	},
	"what was answered is not taken back": func(s *small) {
		c := call[*a2e.MessageReq](s)
		c.answers, c.raw = append(c.answers, &a2e.MessageResp{}), append(c.raw, "no")
	},

	// Births.
	"one child for each spawn": func(s *small) {
		p := *s.record("birth", thread(s.idle), func(*Placed) bool { return true })
		p.of = thread("sub_00000000")
		s.Journal = append(s.Journal, p)
	},
	"a refused spawn leaves no child": func(s *small) {
		c := call[*a2e.SpawnReq](s)
		c.tries = 1
		c.answer(a2e.NewError(a2e.Envelope{}, time.Now(), &actor.Error{Kind: actor.QuotaExceeded, Err: errors.New("x")}), "error")
	},
	"a spawn that was answered has its child": func(s *small) { s.without(func(p Placed) bool { return p.of == thread(s.idle) }) },
	"a child stands below its parent": func(s *small) {
		c := call[*a2e.SpawnReq](s)
		elsewhere := *c.request.(*a2e.SpawnReq)
		elsewhere.ParentAgentID, c.request = "sub_00000000", &elsewhere
	},
	"what is to be born is born": func(s *small) { s.without(func(p Placed) bool { return p.of == thread(s.idle) }) },
	"no spawn goes past the cap": func(s *small) { s.MaxLive = 1 },
	"no thread is deeper than it may be": func(s *small) {
		s.reborn(s.child, func(b *agent.Birth) {
			b.Lineage.Ancestors = append(slices.Repeat(b.Lineage.Ancestors[:1], 5), b.Lineage.Ancestors...)
		})
	},
	"no relationship has more instances than it may": func(s *small) {
		p, _ := s.instance("research")
		twin := *p
		twin.of = thread("sub_00000000")
		s.Journal = append(s.Journal, twin)
	},
	"an immediate child is spawned with its parent": func(s *small) {
		p, _ := s.instance("shadow")
		of := p.of
		s.without(func(p Placed) bool { return p.of == of })
	},
	"a parent knows its children": func(s *small) {
		p, _ := s.instance("research")
		twin := *p
		twin.of = thread("sub_00000000")
		s.Journal = append(s.Journal, twin)
		s.again(s.open(s.boss)) // what is closed need not know
	},

	// Tasks, messages and completions.
	"a task is taken once": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryTask)
		p.Entries = append(p.Entries, p.Entries[i])
	},
	"a refused task is not taken": func(s *small) {
		c := call[*a2e.DelegateReq](s)
		c.answer(&a2e.DelegateResp{}, "no")
	},
	"an accepted task is not lost": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryTask)
		p.Entries = slices.Delete(p.Entries, i, i+1)
	},
	"an accepted task ends": func(s *small) { s.endless() },
	"messages arrive as they were sent": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryMessage)
		p.Entries[i].Content.JSON = []byte("?")
	},
	"messages keep their order": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryMessage)
		p.Entries[i].Content.JSON = note{0, 2}.json()
	},
	"a message is there when the answer says so": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryMessage)
		p.Entries = slices.Delete(p.Entries, i, i+1)
	},
	"one completion for each session that was not stopped": func(s *small) { s.Mail = nil },
	"a completion tells how the session ended": func(s *small) {
		for i := range s.Mail {
			s.Mail[i].Data = []byte(`{}`)
		}
	},
	"mail is delivered once": func(s *small) { s.Mail = append(s.Mail, s.Mail[0]) },
	"mail is sent once": func(s *small) {
		p, i := s.effect(actor.EffectMail)
		p.Effects = append(p.Effects, p.Effects[i])
	},
	"mail arrives":             func(s *small) { s.Mail = s.Mail[1:] },
	"mail comes from a record": func(s *small) { s.Mail = append(s.Mail, Message{"from.nobody", nil}) },
	"answers are kept":         func(s *small) { s.Keys = nil },

	// Ends.
	"a session ends once": func(s *small) {
		p, i := s.entry(s.parent, actor.EntryEnd)
		p.Entries = append(p.Entries, p.Entries[i])
	},
	"a session that is over has its end in the history": func(s *small) { s.endless() },
	"nothing runs for ever":                             func(s *small) { s.again(s.open(s.parent)) },
	"states follow each other as they may":              func(s *small) { s.again(s.open(s.parent)) },
	"an await is answered with an end": func(s *small) {
		call[*a2e.AwaitReq](s).answer(&a2e.AwaitResp{Status: a2e.Running}, "running")
	},
	"an await tells what the journal has": func(s *small) {
		c := call[*a2e.AwaitReq](s)
		other := *c.answers[0].(*a2e.AwaitResp)
		other.Session = 2 // that one ended with another result
		c.answer(&other, sent(&other))
	},
	"a terminate reaches everything below": func(s *small) { s.again(s.record("birth", thread(s.ended), func(*Placed) bool { return true })) },
	"a stop reaches everything below": func(s *small) {
		p, i := s.entry(s.ended, actor.EntryEnd)
		p.Entries[i].At += time.Hour.Microseconds()
	},
	"nothing is stopped that nobody asked for": func(s *small) {
		p, i := s.entry(s.child, actor.EntryEnd)
		p.Entries[i].Name = string(agent.StopCancelled)
	},

	// Journals.
	"cursors never go back": func(s *small) { s.last(s.parent).Cursor = actor.Cursor{} },
	"no envelope is taken twice": func(s *small) {
		p := s.taker()
		p.Took = append(p.Took, p.Took[0])
	},
	"an envelope is sent before it is taken": func(s *small) {
		p := s.taker()
		p.Took[0].ID.J = p.seq
	},
	"what was sent arrives": func(s *small) { s.taker().Took = nil },
	"an inbox keeps the order": func(s *small) {
		var first *actor.Taken
		for i := range s.Journal {
			for n := range s.Journal[i].Took {
				t := &s.Journal[i].Took[n]
				if s.Journal[i].of != thread(s.child) || s.lane(*t) != actor.LaneQueue {
					continue
				}
				if first != nil {
					*first, *t = *t, *first
					return
				}
				first = t
			}
		}
		s.Fatal("the child was not sent two envelopes by its parent")
	},

	// Trees.
	"below a terminated thread all is terminated": func(s *small) {
		s.reborn(s.idle, func(b *agent.Birth) { b.Lineage.Ancestors = append(b.Lineage.Ancestors, s.ended) })
	},
	"what has ended is not counted": func(s *small) { s.without(func(p Placed) bool { return p.of == thread(s.idle) }) },
	"what lives is counted":         func(s *small) { s.without(func(p Placed) bool { return p.of.Host }) },
	"cascades and merges end": func(s *small) {
		cut := 0
		for i, p := range s.Journal {
			if p.of.Host && cut == 0 && slices.ContainsFunc(p.Effects, func(e actor.Effect) bool { return e.Name == agent.KindStop }) {
				cut = i
			}
		}
		host := s.Journal[cut].of
		n := 0
		s.without(func(p Placed) bool { n++; return p.of == host && n > cut+1 })
	},

	// The registry, and whoever asks.
	"every thread is in the registry": func(s *small) { delete(s.Registry, s.idle) },
	"the registry is true":            func(s *small) { s.Registry[s.idle] = []byte(`{"status":"idle"}`) },
	"the registry has no others":      func(s *small) { s.Registry["sub_00000000"] = []byte(`{}`) },
	"the registry never goes back":    func(s *small) { s.Seen = []Sight{{s.idle, agent.Entry{Seq: 2}}, {s.idle, agent.Entry{Seq: 1}}} },
	"whoever watches sees legal steps": func(s *small) {
		over, open := agent.Entry{Session: 1, StopReason: agent.StopDone, Status: agent.StatusIdle}, agent.Entry{Session: 1, Status: agent.StatusRunning}
		s.Seen = []Sight{{s.idle, open}, {s.idle, over}, {s.idle, open}}
	},
	"LIST tells what the journal has":             func(s *small) { s.Listed[s.parent] = a2e.Failed },
	"AWAIT tells in the end what the journal has": func(s *small) { s.Awaited[s.parent] = &a2e.AwaitResp{Status: a2e.Failed} },
}

// instance gives the first record of an instance.
func (s *small) instance(relationship string) (*Placed, *agent.Birth) {
	s.Helper()
	var b *agent.Birth
	p := s.record("instance "+relationship, actor.Address{}, func(p *Placed) bool {
		b = s.birth(*p)
		return b != nil && b.Composition != nil && b.Composition.Relationship != nil && b.Composition.RelationshipName() == relationship
	})
	return p, b
}

// endless takes the ends out of the parent's history.
func (s *small) endless() {
	for i := range s.Journal {
		if p := &s.Journal[i]; p.of == thread(s.parent) {
			p.Entries = slices.DeleteFunc(p.Entries, func(e actor.Entry) bool { return e.Kind == actor.EntryEnd })
		}
	}
}

// taker gives a record of a thread that took what another thread or host sent.
func (s *small) taker() *Placed {
	s.Helper()
	return s.record("record that took something", thread(s.parent), func(p *Placed) bool { return len(p.Took) > 0 })
}

// lane is where a thread sent an envelope to.
func (s *small) lane(t actor.Taken) actor.Lane {
	for _, p := range s.Journal {
		if p.of == thread(t.From) && p.seq == t.ID.J {
			return p.Effects[t.ID.N].Lane
		}
	}
	return ""
}
