package history

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/subjects"
)

func timeOf(us int64) time.Time { return time.UnixMicro(us) }

// checkEffects: mail, births and kept answers are what the records say, all of them and nothing else.
func (x *inspection) checkEffects() {
	mails := map[string]bool{}
	answers := map[string][]byte{}
	for _, r := range x.Journal {
		for _, e := range r.Effects {
			switch e.Kind {
			case actor.EffectMail:
				subject := x.Names.Mail(e.To.ID, r.of.ID, e.Name)
				if mails[subject] {
					x.violation("mail is sent once", "%s again, in record %d of %s", subject, r.seq, r.of)
				}
				mails[subject] = true
				if data, ok := x.mail[subject]; !ok || string(data) != string(e.Body) {
					x.violation("mail arrives", "%s, sent in record %d at %s: it is %v that there is one", subject, r.seq, r.time(), ok)
				}
			case actor.EffectBirth:
				if x.lives[e.To.ID] == nil {
					x.violation("what is to be born is born", "%s, in record %d of %s", e.To, r.seq, r.of)
				}
			case actor.EffectAnswer:
				if answers[e.Name] == nil {
					answers[e.Name] = e.Body
				}
				key := subjects.KVSubject(x.Names.KeysBucket(), e.Name)
				if data, ok := x.Keys[key]; !ok || string(data) != string(answers[e.Name]) {
					x.violation("answers are kept", "%s of record %d of %s: it is %v that there is one", e.Name, r.seq, r.of, ok)
				}
			}
		}
	}
	for subject := range x.mail {
		if !mails[subject] {
			x.violation("mail comes from a record", "%s does not", subject)
		}
	}
	x.checkCompletions()
}

// checkCompletions: a child of an agent outside leaves one completion in its mail for each session that
// was not stopped, and none for one that was.
func (x *inspection) checkCompletions() {
	for _, l := range x.inOrder() {
		if !l.birth.Lineage.ParentOutside() {
			continue
		}
		for n, e := range l.ends {
			data, there := x.mail[x.Names.Mail(l.birth.Lineage.Parent(), l.id, number(n))]
			status := statusOf(e.Name)
			if want := status == a2e.Completed || status == a2e.Failed; want != there {
				x.violation("one completion for each session that was not stopped", "session %d of %s ended with %s, and it is %v that its owner has mail", n, l.id, e.Name, there)
			}
			if !there {
				continue
			}
			msg, err := a2e.DecodeAnswer(data)
			resp, ok := msg.(*a2e.AwaitResp)
			if err != nil || !ok || resp.Status != status || resp.Session != n || resp.StopReason != e.Name ||
				status == a2e.Completed && !sameJSON(resp.Result, e.Content.JSON) {
				x.violation("a completion tells how the session ended", "session %d of %s ended with %s: %s", n, l.id, e.Name, brief(string(data)))
			}
		}
	}
}

// checkRegistry: the registry has each thread as its last record has it.
func (x *inspection) checkRegistry() {
	for _, l := range x.inOrder() {
		e, ok := x.entries[l.id]
		if !ok {
			x.violation("every thread is in the registry", "%s is not", l.id)
			continue
		}
		want, _ := l.last().RegistryEntry(e.Seq)
		if string(want) != string(x.Registry[l.id]) {
			x.violation("the registry is true", "%s, last record %d:\n   %s\n   %s", l.id, l.records[len(l.records)-1].seq, brief(string(x.Registry[l.id])), brief(string(want)))
		}
	}
	for id := range x.entries {
		if x.lives[id] == nil {
			x.violation("the registry has no others", "%s has no journal", id)
		}
	}
}

// checkSeen: to those who watch, the registry never goes back, and each status follows the one before as it may.
func (x *inspection) checkSeen() {
	before := map[actor.ID]agent.Entry{}
	for _, s := range x.Seen {
		old, again := before[s.ID]
		before[s.ID] = s.Entry
		switch {
		case !again:
		case s.Entry.Seq < old.Seq || s.Entry.Session < old.Session:
			x.violation("the registry never goes back", "%s was seen at record %d in session %d, behind record %d in session %d", s.ID, s.Entry.Seq, s.Entry.Session, old.Seq, old.Session)
		case !legal(old.A2E(), s.Entry.A2E(), s.Entry.Session-old.Session):
			x.violation("whoever watches sees legal steps", "%s went from %s (session %d, record %d) to %s (session %d, record %d)",
				s.ID, old.A2E(), old.Session, old.Seq, s.Entry.A2E(), s.Entry.Session, s.Entry.Seq)
		}
	}
}

// checkOutside: to an agent that asks once more, LIST and AWAIT say what the journals say.
func (x *inspection) checkOutside() {
	for _, l := range x.inOrder() {
		want := l.last().Outcome()
		if x.Listed[l.id] != want.Status {
			x.violation("LIST tells what the journal has", "%s is %s and listed as %q", l.id, want.Status, x.Listed[l.id])
		}
		if want.Status == a2e.Running || want.Status == a2e.Waiting {
			continue // told before
		}
		resp, ok := x.Awaited[l.id].(*a2e.AwaitResp)
		if !ok || resp.Status != want.Status || resp.Error != want.Error || len(want.Result) > 0 && !sameJSON(resp.Result, want.Result) {
			got, _ := json.Marshal(x.Awaited[l.id])
			x.violation("AWAIT tells in the end what the journal has", "%s is %s: %s", l.id, want.Status, brief(string(got)))
		}
	}
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
