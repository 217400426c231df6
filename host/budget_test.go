package host

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// TestBudgetsHold lets threads under budgets, some inside others, work in any order that their inboxes allow. At no
// time have they begun more steps than a budget has, nor has its host promised more; tokens are overrun by no more than
// what the steps under way take. In the end nobody waits, everything is given back, and the books are right.
func TestBudgetsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.budgets = true
		for range rapid.IntRange(1, 3).Draw(t, "first") {
			w.spawn()
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w.act()
			w.checkStopped()
			w.checkBudgets()
		}
		w.drain()
		w.checkBudgets()
		w.checkEnd()
		w.checkBooks()
	})
}

// mostTokens is what a step takes at the most.
const mostTokens = 100

// budget draws one, or none.
func (w *world) budget() *a2e.Budget {
	if !w.budgets || rapid.IntRange(0, 2).Draw(w.t, "budget") == 0 {
		return nil
	}
	b := &a2e.Budget{Steps: rapid.Int64Range(1, 12).Draw(w.t, "steps")}
	if rapid.Bool().Draw(w.t, "of tokens") {
		b.Tokens = rapid.Int64Range(1, 600).Draw(w.t, "tokens")
	}
	return b
}

func (w *world) budgetJSON() string {
	b := w.budget()
	if b == nil {
		return ""
	}
	data, err := json.Marshal(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return `,"budget":` + string(data)
}

// used draws what a step took.
func (w *world) used() (u agent.Usage) {
	if w.budgets {
		u.InputTokens = rapid.Int64Range(1, mostTokens).Draw(w.t, "used")
	}
	return u
}

// began counts the steps that were begun under a budget, by the threads' own count.
func (w *world) began(id actor.ID) (steps int64) {
	for _, x := range w.under(id) {
		_, _, n, _ := w.threads[x].At()
		steps += int64(n)
	}
	return steps
}

// told adds up the tokens under a budget, as the registry tells them.
func (w *world) told(id actor.ID) (tokens int64) {
	for _, x := range w.under(id) {
		data, _ := w.threads[x].RegistryEntry(1)
		var e agent.Entry
		if err := json.Unmarshal(data, &e); err != nil {
			w.t.Fatal(err)
		}
		if e.Usage != nil {
			tokens += e.Usage.Tokens()
		}
	}
	return tokens
}

// checkBudgets: no budget is overrun, neither by what the host has promised nor by what was done.
func (w *world) checkBudgets() {
	tree := w.journal.tree
	for id, a := range tree.accounts {
		h := tree.held[id]
		if n := a.Used.Steps + h.Steps; n > a.Bounds.Steps && a.Bounds.Steps > 0 {
			w.t.Fatalf("of the %d steps of %s %d are used and %d held", a.Bounds.Steps, id, a.Used.Steps, h.Steps)
		}
		if n := w.began(id); n > a.Bounds.Steps && a.Bounds.Steps > 0 {
			w.t.Fatalf("%s has %d steps for all below it, and %d were begun", id, a.Bounds.Steps, n)
		}
		most := a.Bounds.Tokens + mostTokens*int64(len(w.under(id)))
		if n := a.Used.Tokens + h.Tokens; a.Bounds.Tokens > 0 && n > most {
			w.t.Fatalf("of the %d tokens of %s %d are used and %d held", a.Bounds.Tokens, id, a.Used.Tokens, h.Tokens)
		}
	}
}

// checkBooks looks at a tree at rest: nothing is held, nobody waits, and what is used is what was done.
func (w *world) checkBooks() {
	tree := w.journal.tree
	if len(tree.held)+len(tree.waiting) > 0 {
		w.t.Fatalf("at rest %v is held and %v wait", tree.held, tree.waiting)
	}
	for id, a := range tree.accounts {
		if n := w.began(id); n != a.Used.Steps {
			w.t.Fatalf("under %s %d steps were begun; its account says %d", id, n, a.Used.Steps)
		}
		if n := w.told(id); n != a.Used.Tokens {
			w.t.Fatalf("under %s %d tokens were told of, also of steps that were broken off; its account says %d", id, n, a.Used.Tokens)
		}
	}
	for _, id := range w.order {
		if resp := w.threads[id].Outcome(); strings.Contains(resp.Error, "budget") && resp.Status != a2e.Failed && resp.Status != a2e.Terminated {
			w.t.Fatalf("%s ran out of its budget and is told as %s", id, resp.Status)
		}
	}
}
