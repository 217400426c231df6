package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// Budgets are kept by the host of the tree. A thread under budgets reserves a few steps at a time, in all of them at
// once, and settles what it really used: of no budget is ever more reserved and used than it has. Steps are therefore
// never overrun. What a step takes in tokens and dollars is an estimate, from the thread's own recent steps or else
// from those of all under the budget: these are overrun by no more than the steps under way take beyond it.
//
// A thread that finds too little left waits while others hold some that they may give back, and is refused when
// nobody does. Whoever waits for another thread, a person or a time holds nothing, so that nobody waits in a circle; and
// whoever holds something while others wait is asked for what is not in use of it: all, or all but the step under way.

// An account is the budget of a thread.
type account struct {
	Lineage actor.Lineage
	Bounds  agent.Amount // what is 0 is not bounded
	Used    agent.Amount
	Late    bool // the thread's session ended with the time that the budget gives it
}

// A claim is a reservation, held or asked for. It ends with the session of the member that has it.
type claim struct {
	N       uint64
	Budgets []actor.ID
	Held    agent.Amount
	Waits   bool
	Since   uint64       // it was asked for as so many-th; 0 once it is held
	Each    agent.Amount // what one step takes, as far as it is known
	Called  bool         // what is not in use of it was asked back
}

// held is what claims hold of an account.
type held struct {
	agent.Amount
	claims int
}

const (
	chunkSteps = 4   // reserved at a time
	maxGrants  = 500 // answers of one turn; there is more to come in the next
)

// setMember puts a row into the table, or takes it out with nil.
func (t *Tree) setMember(id actor.ID, m *member) {
	if old := t.members[id]; old != nil && old.Claim != nil {
		t.hold(old.Claim, -1)
		delete(t.waiting, id)
	}
	if m == nil {
		delete(t.members, id)
		return
	}
	t.members[id] = m
	if m.Claim != nil {
		t.hold(m.Claim, 1)
		if m.Claim.Waits {
			t.waiting[id] = true
		}
	}
}

// hold adds what a claim holds to the accounts, or takes it away.
func (t *Tree) hold(c *claim, sign int) {
	if c.Waits {
		return
	}
	for _, id := range c.Budgets {
		h := t.held[id]
		if h.claims += sign; h.claims == 0 {
			delete(t.held, id)
			continue
		}
		if sign > 0 {
			h.Add(c.Held)
		} else {
			h.Sub(c.Held)
		}
		t.held[id] = h
	}
}

// openAccount opens the account of a new thread that has a budget, and gives those that it stands under.
func (x *treeTurn) openAccount(l actor.Lineage, b *a2e.Budget) (budgets []actor.ID) {
	if b != nil {
		x.setAccount(&account{Lineage: l, Bounds: agent.BudgetAmount(b)})
	}
	return x.budgetsOf(l)
}

// budgetsOf gives the threads with a budget that a thread stands under, the root first, itself last.
func (t *Tree) budgetsOf(l actor.Lineage) (budgets []actor.ID) {
	if len(t.accounts) == 0 {
		return nil
	}
	for _, id := range l.Ancestors {
		if t.accounts[id] != nil {
			budgets = append(budgets, id)
		}
	}
	if t.accounts[l.ID] != nil {
		budgets = append(budgets, l.ID)
	}
	return budgets
}

func (x *treeTurn) setAccount(a *account) {
	x.accounts[a.Lineage.ID] = a
	x.touchedAccounts[a.Lineage.ID] = true
}

// closeAccounts forgets the accounts of threads that are terminated with all below them.
func (x *treeTurn) closeAccounts(target actor.ID) {
	for id, a := range x.accounts {
		if a.Lineage.Under(target) {
			delete(x.accounts, id)
			x.touchedAccounts[id] = true
		}
	}
}

// spent tells why nothing is left of an account for good; "" while there may be.
func (a *account) spent() string {
	id, bounds := a.Lineage.ID, a.Bounds
	switch {
	case a.Late:
		return fmt.Sprintf("the time of the budget of %s is over", id)
	case bounds.Steps > 0 && a.Used.Steps >= bounds.Steps:
		return fmt.Sprintf("the budget of %s is used up: %d of %d steps", id, a.Used.Steps, bounds.Steps)
	case bounds.Tokens > 0 && a.Used.Tokens >= bounds.Tokens:
		return fmt.Sprintf("the budget of %s is used up: %d of %d tokens", id, a.Used.Tokens, bounds.Tokens)
	case bounds.USD > 0 && a.Used.USD >= bounds.USD:
		return fmt.Sprintf("the budget of %s is used up: $%s of $%s", id, a.Used.USD, bounds.USD)
	}
	return ""
}

// budgeted refuses a spawn below a budget that is used up.
func (x *treeTurn) budgeted(parent actor.Lineage) *actor.Error {
	for _, id := range x.budgetsOf(parent) {
		if why := x.accounts[id].spent(); why != "" {
			return &actor.Error{ID: id, Kind: actor.QuotaExceeded, Err: errors.New(why)}
		}
	}
	return nil
}

// reserve settles what a thread used, and takes what it asks for.
func (x *treeTurn) reserve(r *agent.Reserve) {
	id := x.env.From
	x.settle(id, &r.Settled)
	x.trim(id, r.Trimmed)
	x.charge(r.Budgets, r.Late)
	if r.N == 0 {
		return
	}
	m := x.members[id]
	if m == nil {
		m = &member{Lineage: r.Lineage, Session: r.Session}
	} else if m.Claim != nil && m.Claim.N >= r.N {
		return
	}
	next := *m
	x.head.Claims++
	next.Claim = &claim{N: r.N, Budgets: r.Budgets, Waits: true, Since: x.head.Claims, Each: r.Each}
	x.live(&next)
	x.unsettled = true
}

// settle charges what was used of a reservation to its budgets, and gives the rest back. It is done once: then the
// claim is gone.
func (x *treeTurn) settle(id actor.ID, s *agent.Settled) {
	m := x.members[id]
	if s.N == 0 || m == nil || m.Claim == nil || m.Claim.N != s.N {
		return
	}
	if !m.Claim.Waits {
		for _, budget := range m.Claim.Budgets {
			if a := x.accounts[budget]; a != nil {
				next := *a
				next.Used.Add(s.Used)
				x.setAccount(&next)
			}
		}
	}
	next := *m
	next.Claim = nil
	x.live(&next)
	x.unsettled = true
}

// trim takes back what of a reservation is not in use.
func (x *treeTurn) trim(id actor.ID, t *agent.Trim) {
	m := x.members[id]
	if t == nil || m == nil || m.Claim == nil || m.Claim.N != t.N || m.Claim.Waits {
		return
	}
	next, c := *m, *m.Claim
	c.Held.Steps = min(c.Held.Steps, t.Keep.Steps)
	c.Held.Tokens = min(c.Held.Tokens, t.Keep.Tokens)
	c.Held.USD = min(c.Held.USD, t.Keep.USD)
	next.Claim = &c
	x.live(&next)
	x.unsettled = true
}

// charge counts what was used outside any reservation.
func (x *treeTurn) charge(budgets []actor.ID, used *agent.Amount) {
	if used == nil {
		return
	}
	for _, budget := range budgets {
		if a := x.accounts[budget]; a != nil {
			next := *a
			next.Used.Add(*used)
			x.setAccount(&next)
			x.unsettled = true
		}
	}
}

// recall asks those who hold something of budgets for what they do not use of it, once for each reservation. The
// others that there may be have their turn when there is more to grant.
func (x *treeTurn) recall(budgets map[actor.ID]bool, most int) {
	if len(budgets) == 0 {
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(x.members), cmpID) {
		m := x.members[id]
		if m.Claim == nil || m.Claim.Waits || m.Claim.Called || !slices.ContainsFunc(m.Claim.Budgets, func(b actor.ID) bool { return budgets[b] }) {
			continue
		}
		if most--; most < 0 {
			return
		}
		next, c := *m, *m.Claim
		c.Called = true
		next.Claim = &c
		x.live(&next)
		x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: id}, Lane: actor.LaneCtl, Name: agent.KindRecall, Body: agent.Pack(&agent.Recall{N: c.N})})
	}
}

// late notes whether the session of a thread with a budget ended with its time.
func (x *treeTurn) late(id actor.ID, late bool) {
	if a := x.accounts[id]; a != nil && a.Late != late {
		next := *a
		next.Late = late
		x.setAccount(&next)
		x.unsettled = true
	}
}

// grant answers those who wait for a reservation, the first who asked first, as far as there is an answer.
func (x *treeTurn) grant() {
	if !x.unsettled || len(x.waiting) == 0 {
		x.unsettled = false
		return
	}
	ids := slices.SortedFunc(maps.Keys(x.waiting), func(a, b actor.ID) int {
		return cmp.Compare(x.members[a].Claim.Since, x.members[b].Claim.Since)
	})
	x.unsettled = false
	answers := 0
	short := map[actor.ID]bool{}
	for _, id := range ids {
		if answers == maxGrants {
			x.unsettled, x.out.More = true, true
			return
		}
		if m := x.members[id]; x.answerClaim(m) {
			answers++
		} else {
			x.shortOf(m.Claim, short)
		}
	}
	x.recall(short, maxGrants-answers)
}

// shortOf adds the budgets that have too little left for a claim.
func (x *treeTurn) shortOf(c *claim, short map[actor.ID]bool) {
	each := x.expected(c)
	for _, id := range c.Budgets {
		if a := x.accounts[id]; a != nil && a.room(x.held[id].Amount, each) <= 0 {
			short[id] = true
		}
	}
}

// answerClaim grants or refuses a reservation, and reports whether it did: else it waits on.
func (x *treeTurn) answerClaim(m *member) bool {
	next := *m
	c := *m.Claim
	steps, why, waits := x.room(&c)
	switch {
	case why != "" && waits:
		return false
	case why != "":
		next.Claim = nil
		x.live(&next)
		x.sendGrant(m.Lineage.ID, &agent.Granted{N: c.N, Why: why})
		return true
	}
	each := x.expected(&c)
	c.Waits, c.Since, c.Each, next.Claim = false, 0, agent.Amount{}, &c
	c.Held = agent.Amount{Steps: steps, Tokens: steps * each.Tokens, USD: agent.Micros(steps) * each.USD}
	allowed := agent.Amount{Steps: steps, Tokens: agent.NoLimit, USD: agent.NoLimit}
	for _, id := range c.Budgets {
		if a := x.accounts[id]; a != nil && a.Bounds.Tokens > 0 {
			allowed.Tokens = c.Held.Tokens
		}
		if a := x.accounts[id]; a != nil && a.Bounds.USD > 0 {
			allowed.USD = c.Held.USD
		}
	}
	x.live(&next)
	g := agent.Granted{N: c.N, Allowed: allowed}
	if each != (agent.Amount{}) {
		g.Each = &each
	}
	x.sendGrant(m.Lineage.ID, &g)
	return true
}

func (x *treeTurn) sendGrant(id actor.ID, g *agent.Granted) {
	x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: id}, Lane: actor.LaneCtl, Name: agent.KindGrant, Body: agent.Pack(g)})
}

// expected is what a step of the claim's thread takes: what its last ones took, else what those of all under its
// budgets took on the average.
func (x *treeTurn) expected(c *claim) agent.Amount {
	each := c.Each
	if each.Tokens > 0 || each.USD > 0 {
		return each
	}
	for _, id := range c.Budgets {
		if a := x.accounts[id]; a != nil && a.Used.Steps > 0 {
			each.Tokens = max(each.Tokens, a.Used.Tokens/a.Used.Steps)
			each.USD = max(each.USD, a.Used.USD/agent.Micros(a.Used.Steps))
		}
	}
	return each
}

// room is how many steps a claim may have. With none it says why, and whether others hold what may yet be given back.
func (x *treeTurn) room(c *claim) (steps int64, why string, waits bool) {
	steps, waits = chunkSteps, true
	each := x.expected(c)
	for _, id := range c.Budgets {
		a := x.accounts[id]
		if a == nil {
			continue // its thread was terminated alone
		}
		if a.Late {
			return 0, a.spent(), false
		}
		n := a.room(x.held[id].Amount, each)
		if n > 0 {
			steps = min(steps, n)
			continue
		}
		waits = waits && x.held[id].claims > 0
		if why == "" || !waits {
			why = cmp.Or(a.spent(), fmt.Sprintf("the budget of %s is used up: what is left of it is less than a step takes", id))
		}
	}
	if why != "" {
		return 0, why, waits
	}
	return steps, "", false
}

// room is how many steps an account has room for, beside what is held. Of steps whose cost is not known one at a time
// may begin.
func (a *account) room(held, each agent.Amount) int64 {
	n := int64(chunkSteps)
	for _, of := range []struct{ bound, taken, each int64 }{
		{a.Bounds.Steps, a.Used.Steps + held.Steps, 1},
		{a.Bounds.Tokens, a.Used.Tokens + held.Tokens, each.Tokens},
		{int64(a.Bounds.USD), int64(a.Used.USD + held.USD), int64(each.USD)},
	} {
		left := of.bound - of.taken
		switch {
		case of.bound == 0:
		case left <= 0:
			return 0
		case of.each <= 0:
			n = min(n, 1)
		default:
			n = min(n, left/of.each)
		}
	}
	return n
}
