package agent

import (
	"slices"

	"github.com/troupehq/troupe/actor"
)

// What a step cost is known when its model answers. Of one that is broken off it is not: the session ends at once, and
// what the model was told by then comes afterwards, if at all. Until then a budget is charged what a step of its kind
// takes, which is put right when the model does tell. What a thread tells of itself is only what it was told.

// A broken is a step that was broken off.
type broken struct {
	Job     uint64
	Session uint64
	Tokens  int64 // charged to the budgets
	USD     Micros
}

// maxBroken is how many of them are remembered.
const maxBroken = 8

// A Spent tells a thread what was spent for it beside its steps: by a merge that it asked for.
type Spent struct {
	Used Usage
}

// breakOff charges a step that is broken off.
func (t *Thread) breakOff() {
	h, to := &t.head, &t.broken
	b := broken{Job: h.Job, Session: h.Session}
	if len(t.birth.Budgets) > 0 {
		to = &h.Broken
	}
	if a := h.Allowance; a != nil && a.Held {
		each := a.Each
		if each == (Amount{}) && a.Guess != nil {
			each = *a.Guess
		}
		b.Tokens, b.USD = each.Tokens, each.USD
		a.Used.Tokens += b.Tokens
		a.Used.USD += b.USD
	}
	*to = append((*to)[max(0, len(*to)+1-maxBroken):], b)
}

// afterwards takes what a step cost that was broken off, and reports whether that is what the answer is about.
func (x *turn) afterwards(a *JobAnswer) bool {
	for _, of := range []*[]broken{&x.head.Broken, &x.broken} {
		i := slices.IndexFunc(*of, func(b broken) bool { return b.Job == a.N })
		if i < 0 {
			continue
		}
		if a.Step.Used == (Usage{}) {
			return true // nothing was told
		}
		b, used := (*of)[i], a.Step.Used.bounded()
		*of = append((*of)[:i:i], (*of)[i+1:]...)
		x.charge(used, b.Session, Amount{Tokens: used.Tokens() - b.Tokens, USD: used.USD - b.USD})
		return true
	}
	return false
}

// spent takes what was spent for the thread beside its steps.
func (x *turn) spent(s *Spent) {
	used := s.Used.bounded()
	x.charge(used, x.head.Session, Amount{Tokens: used.Tokens(), USD: used.USD})
}

// charge counts what was used in a session outside any reservation.
func (x *turn) charge(u Usage, session uint64, late Amount) {
	h := &x.head
	u.Steps = 0
	h.Life.Add(u)
	if session == h.Session {
		h.Used.Add(u)
	}
	x.dirty = true
	if len(x.birth.Budgets) > 0 && late != (Amount{}) {
		x.effect(actor.Effect{Kind: actor.EffectNotice, To: x.hostOf(), Lane: actor.LaneHost, Name: KindReserve, Body: Pack(&Reserve{
			Lineage: h.Lineage, Session: h.Session, Budgets: x.birth.Budgets, Late: &late,
		})})
	}
}
