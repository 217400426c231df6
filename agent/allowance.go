package agent

import (
	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// An Amount is what steps take of a budget.
type Amount struct {
	Steps  int64
	Tokens int64
	USD    Micros
}

// Add adds another amount.
func (a *Amount) Add(b Amount) {
	a.Steps += b.Steps
	a.Tokens += b.Tokens
	a.USD += b.USD
}

// Sub takes another amount away.
func (a *Amount) Sub(b Amount) {
	a.Steps -= b.Steps
	a.Tokens -= b.Tokens
	a.USD -= b.USD
}

// BudgetAmount is what a budget bounds, but for the time. What is 0 is not bounded.
func BudgetAmount(b *a2e.Budget) Amount {
	usd := Dollars(b.USD)
	if b.USD > 0 {
		usd = max(usd, 1)
	}
	return Amount{Steps: b.Steps, Tokens: b.Tokens, USD: usd}
}

// NoLimit, in a Granted, says that no budget bounds the tokens, or the dollars.
const NoLimit = -1

// A Reserve asks the host of the tree for an allowance, and settles the one before.
type Reserve struct {
	Lineage actor.Lineage
	Session uint64
	N       uint64     // of the reservation that is asked for; 0: none is
	Budgets []actor.ID // the threads whose budgets it stands under
	Each    Amount     // what one step takes, as far as it is known; Steps is not used
	Settled Settled
	Late    *Amount // what was used beside any reservation; below zero, where more was charged before
	Trimmed *Trim
}

// A Trim gives back what of a reservation is not in use, while a step is under way.
type Trim struct {
	N    uint64
	Keep Amount // what it is left with, used and yet to be used
}

// A Recall asks for what of a reservation is not in use: others wait for it.
type Recall struct {
	N uint64
}

// A Settled says what was used of a reservation. The rest is given back.
type Settled struct {
	N    uint64 // 0: there was none
	Used Amount
}

// A Granted is the host's answer to a Reserve. No steps is a refusal.
type Granted struct {
	N       uint64
	Allowed Amount  // Tokens and USD may be NoLimit
	Why     string  // it is refused
	Each    *Amount // what a step of the thread's kind takes, as far as it is known
}

// An allowance is what a thread under budgets may use before it has to ask again.
type allowance struct {
	N       uint64 // of the last reservation
	Asking  bool   // it has no answer yet
	Held    bool   // it is held by the host
	Allowed Amount
	Used    Amount
	Each    Amount  // what one step takes: the most of the last few
	Guess   *Amount // what the host takes one for, until that is known
	Trimmed bool    // what was not in use was given back
}

// allowed reports whether the next step may begin, and counts it. A thread without an allowance for it asks for one,
// and goes on when it has the answer.
func (x *turn) allowed() bool {
	h := &x.head
	if len(x.birth.Budgets) == 0 {
		return true
	}
	if h.Allowance == nil {
		h.Allowance = &allowance{}
	}
	a := h.Allowance
	switch {
	case a.Asking:
		return false
	case a.covers():
		a.Used.Steps++
		return true
	}
	settled := a.settle()
	a.N++
	a.Asking = true
	x.reserve(&Reserve{N: a.N, Budgets: x.birth.Budgets, Each: a.Each, Settled: settled})
	return false
}

// covers reports whether one more step is covered: the first always is.
func (a *allowance) covers() bool {
	if !a.Held || a.Used.Steps >= a.Allowed.Steps {
		return false
	}
	return a.Used.Steps == 0 || fits(a.Used.Tokens+a.Each.Tokens, a.Allowed.Tokens) && fits(int64(a.Used.USD+a.Each.USD), int64(a.Allowed.USD))
}

func fits(n, allowed int64) bool { return allowed == NoLimit || n <= allowed }

// settle closes the books of the present reservation.
func (a *allowance) settle() Settled {
	s := Settled{}
	if a.Held || a.Asking {
		s = Settled{N: a.N, Used: a.Used}
	}
	a.Held, a.Asking, a.Trimmed, a.Allowed, a.Used = false, false, false, Amount{}, Amount{}
	return s
}

// reserve tells the host as notices are told: all that a thread tells it comes in order.
func (x *turn) reserve(r *Reserve) {
	r.Lineage, r.Session = x.head.Lineage, x.head.Session
	x.effect(actor.Effect{Kind: actor.EffectNotice, To: x.hostOf(), Lane: actor.LaneHost, Name: KindReserve, Body: Pack(r)})
}

// granted takes the host's answer. One to a reservation that was settled meanwhile changes nothing: the host has it
// back.
func (x *turn) granted(g *Granted) {
	a := x.head.Allowance
	if a == nil || !a.Asking || a.N != g.N {
		return
	}
	a.Asking = false
	if g.Allowed.Steps > 0 {
		a.Held, a.Allowed, a.Guess = true, g.Allowed, g.Each
		return
	}
	x.unseeAll() // a session for what came meanwhile would end like this one
	x.end(StopBudget, actor.Value{}, g.Why)
}

// spend counts what a step took.
func (h *head) spend(u *Usage) {
	a := h.Allowance
	if a == nil {
		return
	}
	a.Used.Tokens += u.Tokens()
	a.Used.USD += u.USD
	a.Each.Tokens = max(u.Tokens(), a.Each.Tokens-a.Each.Tokens/4)
	a.Each.USD = max(u.USD, a.Each.USD-a.Each.USD/4)
}

// giveBack gives the allowance back while the session waits for another thread, a person or a time: those that it
// waits for may need it. When it is asked back, all is given back while no step is under way, and else what is left
// beside that step. That comes last in a turn: whoever is granted something and asked for it takes a step first, so
// that two never give it to each other for ever.
func (x *turn) giveBack() {
	h := &x.head
	a := h.Allowance
	switch {
	case a == nil || !a.Held:
	case h.Job == 0 && (h.parked() || h.SleepUntil != 0 || x.recall == a.N):
		x.reserve(&Reserve{Settled: a.settle()})
	case x.recall == a.N && !a.Trimmed:
		a.Trimmed = true
		keep := Amount{Steps: a.Used.Steps, Tokens: kept(a.Used.Tokens+a.Each.Tokens, a.Allowed.Tokens), USD: Micros(kept(int64(a.Used.USD+a.Each.USD), int64(a.Allowed.USD)))}
		a.Allowed = keep
		for _, unbounded := range []*int64{&keep.Tokens, (*int64)(&keep.USD)} {
			*unbounded = max(*unbounded, 0)
		}
		x.reserve(&Reserve{Trimmed: &Trim{N: a.N, Keep: keep}})
	}
}

// recalled notes that the host asks for what is not in use.
func (x *turn) recalled(r *Recall) { x.recall = r.N }

// kept is how much of what is allowed is kept.
func kept(n, allowed int64) int64 {
	if allowed == NoLimit {
		return NoLimit
	}
	return min(n, allowed)
}

// asking reports whether the session waits for an allowance.
func (h *head) asking() bool { return h.Allowance != nil && h.Allowance.Asking }

// overtime takes the end of the time that the thread's own budget gives a session.
func (x *turn) overtime() {
	x.overtimed = true
	x.end(StopBudget, actor.Value{}, "the budget is used up: "+duration(x.head.BudgetAt-x.head.SessionAt)+" for a session")
}
