package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// TestWorldKeepsItsPromises lets a host and its threads talk in any order that their inboxes allow. What
// an agent outside is promised must hold in the end: what was stopped stays stopped, however deep and
// whatever was under way; nothing waits for ever; no result is lost; the host's table is true.
func TestWorldKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 4).Draw(t, "first") {
			w.spawn()
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.act()
			w.checkStopped()
		}
		w.drain()
		w.checkEnd()
	})
}

// A world is a tree with an agent outside at its root.
type world struct {
	t       *rapid.T
	now     time.Time
	journal journal
	threads map[actor.ID]*agent.Thread
	order   []actor.ID
	boxes   map[actor.Address]*box
	history map[actor.ID]string
	results map[string]actor.ID // unique results of sessions, and the parents that have to hear of them
	asked   map[string]string   // requests from outside, and their answers
	stops   map[string]*stopping
	quiet   map[actor.ID]bool // subtrees that the agent outside gives no more work to
	count   int
	timers  []alarm
	budgets bool // some threads have one
}

// A box is an inbox: what is on lane ctl is decided ahead of the rest.
type box struct{ ctl, queue []actor.Envelope }

type stopping struct {
	target    actor.ID
	terminate bool
}

type alarm struct {
	id actor.ID
	actor.Timer
}

const outsider actor.ID = "parent_1"

func newWorld(t *rapid.T) *world {
	return &world{
		t: t, now: time.UnixMicro(1e6), journal: newJournal(outsider, Limits{MaxDepth: 4, MaxLive: 9}),
		threads: map[actor.ID]*agent.Thread{}, boxes: map[actor.Address]*box{}, history: map[actor.ID]string{},
		results: map[string]actor.ID{}, asked: map[string]string{}, stops: map[string]*stopping{}, quiet: map[actor.ID]bool{},
	}
}

func (w *world) host() actor.Address { return actor.Address{ID: outsider, Host: true} }

// put lays an envelope into an inbox.
func (w *world) put(to actor.Address, lane actor.Lane, env actor.Envelope) {
	b := w.boxes[to]
	if b == nil {
		b = &box{}
		w.boxes[to] = b
	}
	env.Lane = lane
	if lane == actor.LaneCtl {
		b.ctl = append(b.ctl, env)
	} else {
		b.queue = append(b.queue, env)
	}
}

// ask is a request of the agent outside.
func (w *world) ask(to actor.Address, lane actor.Lane, kind string, body any) string {
	w.count++
	name := fmt.Sprintf("%s-%d", kind, w.count)
	w.asked[name] = ""
	w.put(to, lane, actor.Envelope{From: outsider, Kind: kind, Asker: actor.Asker{Reply: name}, Body: agent.Pack(body)})
	return name
}

func (w *world) spawn() {
	cfg := a2e.SubagentConfig{Name: "n", Model: "m", MaxSteps: 6, Capabilities: []string{agent.MultiAgent}, Budget: w.budget()}
	w.ask(w.host(), actor.LaneHost, agent.KindSpawn, &agent.Spawn{Config: cfg.WithDefaults()})
	w.deliver(w.host())
}

// act does one thing, of those that are possible.
func (w *world) act() {
	w.now = w.now.Add(time.Millisecond)
	switch n := rapid.IntRange(0, 19).Draw(w.t, "act"); {
	case n < 10:
		if full := w.full(); len(full) > 0 {
			w.deliver(rapid.SampledFrom(full).Draw(w.t, "inbox"))
		}
	case n < 15:
		if working := w.working(); len(working) > 0 {
			w.step(rapid.SampledFrom(working).Draw(w.t, "works"), false)
		}
	case n < 16 && len(w.timers) > 0:
		w.fire(rapid.IntRange(0, len(w.timers)-1).Draw(w.t, "timer"))
	case n < 18:
		w.delegate()
	case n < 19:
		w.stop()
	default:
		w.spawn()
	}
}

// full lists the inboxes that hold something, in an order that does not depend on chance.
func (w *world) full() []actor.Address {
	var full []actor.Address
	for to, b := range w.boxes {
		if len(b.ctl)+len(b.queue) > 0 {
			full = append(full, to)
		}
	}
	slices.SortFunc(full, func(a, b actor.Address) int { return strings.Compare(a.String(), b.String()) })
	return full
}

func (w *world) working() []actor.ID {
	var ids []actor.ID
	for _, id := range w.order {
		if jobs, _ := w.threads[id].Outstanding(); len(jobs) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// under lists the threads below id, and id itself if it is one.
func (w *world) under(id actor.ID) []actor.ID {
	var ids []actor.ID
	for _, x := range w.order {
		if l := w.threads[x].Lineage(); l.Under(id) {
			ids = append(ids, x)
		}
	}
	return ids
}

func (w *world) delegate() {
	if len(w.order) == 0 {
		return
	}
	id := rapid.SampledFrom(w.order).Draw(w.t, "gets work")
	l := w.threads[id].Lineage()
	for q := range w.quiet {
		if l.Under(q) {
			return
		}
	}
	if rapid.Bool().Draw(w.t, "message") {
		w.put(actor.Address{ID: id}, actor.LaneA, actor.Envelope{From: "somebody", Kind: agent.KindMessage, Body: agent.Pack(&agent.Message{Content: actor.Value{JSON: []byte(`"go"`)}, Opens: true})})
		return
	}
	w.ask(actor.Address{ID: id}, actor.LaneA, agent.KindDelegate, &agent.Delegate{Name: "t", Task: actor.Value{JSON: []byte("{}")}})
	w.ask(actor.Address{ID: id}, actor.LaneA, agent.KindAwait, &agent.Await{})
}

// stop cancels or terminates a child of the agent outside, which has no work of it under way and gets none
// from then on.
func (w *world) stop() {
	var targets []actor.ID
	for _, id := range w.order {
		if w.threads[id].Lineage().Depth() == 1 && !w.quiet[id] && !w.pending(id) {
			targets = append(targets, id)
		}
	}
	if len(targets) == 0 {
		return
	}
	s := &stopping{target: rapid.SampledFrom(targets).Draw(w.t, "target"), terminate: rapid.IntRange(0, 3).Draw(w.t, "terminate") == 0}
	kind := agent.KindCancel
	if s.terminate {
		kind = agent.KindTerminate
	}
	w.quiet[s.target] = true
	w.stops[w.ask(w.host(), actor.LaneHost, kind, &agent.Target{ID: s.target})] = s
}

// pending reports whether an inbox below id holds something from outside.
func (w *world) pending(id actor.ID) bool {
	for _, x := range w.under(id) {
		b := w.boxes[actor.Address{ID: x}]
		if b != nil && slices.ContainsFunc(b.queue, func(e actor.Envelope) bool { return e.From == outsider || e.From == "somebody" }) {
			return true
		}
	}
	return false
}

// deliver gives an actor a batch out of its inbox.
func (w *world) deliver(to actor.Address) {
	b := w.boxes[to]
	batch := slices.Clone(b.ctl)
	n := len(b.queue)
	if n > 0 {
		n = rapid.IntRange(min(n, 1-min(len(batch), 1)), n).Draw(w.t, "batch")
	}
	batch = append(batch, b.queue[:n]...)
	b.ctl, b.queue = nil, b.queue[n:]
	if !to.Host {
		w.decide(to.ID, batch)
		return
	}
	w.decideHost(batch)
}

func (w *world) decideHost(batch []actor.Envelope) {
	for {
		s := stage{journal: w.journal, registry: map[actor.ID]*actor.Known{}, next: w.count * 100}
		w.count++
		for id, t := range w.threads {
			s.registry[id] = &actor.Known{Lineage: t.Lineage(), Found: true, Terminated: t.Terminated()}
		}
		before := len(w.journal.tree.members)
		turn := s.decide(batch)
		if err := w.journal.record(&turn); err != nil {
			w.t.Fatalf("%v", err)
		}
		if live := len(w.journal.tree.members); live > before && live > w.journal.limits.MaxLive && slices.ContainsFunc(turn.Effects, func(e actor.Effect) bool { return e.Kind == actor.EffectBirth }) && !slices.ContainsFunc(batch, func(e actor.Envelope) bool { return e.Kind == agent.KindNotice }) {
			w.t.Fatalf("a spawn made %d threads live, more than the %d allowed", live, w.journal.limits.MaxLive)
		}
		w.carryOut(outsider, true, &turn)
		if batch = nil; !turn.More {
			return
		}
	}
}

func (w *world) decide(id actor.ID, batch []actor.Envelope) {
	t := w.threads[id]
	turn := t.Decide(actor.Input{Now: w.now, Batch: batch})
	for _, e := range turn.Entries {
		w.history[id] += string(e.Content.JSON) + "\n"
	}
	for _, x := range turn.Timers {
		if x.Name != "timeout" {
			w.timers = append(w.timers, alarm{id, x})
		}
	}
	w.carryOut(id, false, &turn)
	for _, n := range turn.Abort {
		if w.budgets { // a model that is broken off tells what it cost
			a := agent.JobAnswer{N: n, Err: "broken off", Step: agent.Step{Used: w.used()}}
			w.put(actor.Address{ID: id}, actor.LaneCtl, actor.Envelope{Kind: agent.KindJob, Body: agent.Pack(&a)})
		}
	}
}

func (w *world) carryOut(from actor.ID, host bool, turn *actor.Turn) {
	for i := range turn.Effects {
		switch e := &turn.Effects[i]; e.Kind {
		case actor.EffectBirth:
			w.bear(unpacked[agent.Birth](e.Body))
		case actor.EffectNotice:
			if e.Name == agent.KindReserve && !w.budgets {
				w.t.Fatalf("%s stands under no budget and asks for an allowance", from)
			}
			w.put(e.To, e.Lane, actor.Envelope{From: from, Kind: e.Name, Body: e.Body})
		case actor.EffectSend:
			w.put(e.To, e.Lane, actor.Envelope{From: from, Session: e.Session, Kind: e.Name, Asker: e.Asker, Body: e.Body})
		case actor.EffectReply:
			if w.asked[e.Name] != "" {
				w.t.Fatalf("%s is answered twice: %s and %s", e.Name, w.asked[e.Name], e.Body)
			}
			w.asked[e.Name] = string(e.Body)
		case actor.EffectDead:
			if e.Name != string(actor.ThreadTerminated) {
				w.t.Fatalf("dead letter of %s: %s", e.To, e.Name)
			}
		}
	}
}

func (w *world) bear(b agent.Birth) {
	record, err := agent.Born(b, w.now.UnixMicro())
	if err != nil {
		w.t.Fatal(err)
	}
	if w.threads[b.Lineage.ID], err = agent.Load(&record, 1, nil); err != nil {
		w.t.Fatal(err)
	}
	w.order = append(w.order, b.Lineage.ID)
}

// step is what the model of a thread does: it gives work to the threads below, awaits, stops them,
// makes new ones, or ends.
func (w *world) step(id actor.ID, last bool) {
	jobs, _ := w.threads[id].Outstanding()
	a := agent.JobAnswer{N: jobs[0].N, Step: agent.Step{Used: w.used()}}
	below := w.under(id)[1:]
	choice := 0
	if !last {
		choice = rapid.IntRange(0, 5).Draw(w.t, "does")
	}
	switch {
	case choice == 0:
		w.count++
		result := fmt.Sprintf(`{"n":%d}`, w.count)
		a.Step.Done, a.Step.Result = true, actor.Value{JSON: []byte(result)}
		if l := w.threads[id].Lineage(); !l.ParentOutside() {
			w.results[result] = l.Parent()
		}
	case choice == 1 || len(below) == 0:
		a.Step.Calls = []agent.Call{{ID: "c", Name: "subagent_spawn", Arguments: actor.Value{JSON: []byte(`{"agent":{"name":"x","model":"m","max_steps":6,"capabilities":["multi_agent"]` + w.budgetJSON() + `}}`)}}}
	default:
		for i := range rapid.IntRange(1, 3).Draw(w.t, "calls") {
			name, arguments := w.call(below)
			a.Step.Calls = append(a.Step.Calls, agent.Call{ID: fmt.Sprint(i), Name: name, Arguments: actor.Value{JSON: []byte(arguments)}})
		}
	}
	w.decide(id, []actor.Envelope{{Kind: agent.KindJob, Body: agent.Pack(&a)}})
}

func (w *world) call(below []actor.ID) (name, arguments string) {
	id := rapid.SampledFrom(below).Draw(w.t, "whom")
	all, err := json.Marshal(below)
	if err != nil {
		w.t.Fatal(err)
	}
	switch n := rapid.IntRange(0, 11).Draw(w.t, "how"); {
	case n < 6:
		return "subagent_delegate", fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"i"}}`, id)
	case n < 8:
		return "subagent_await", fmt.Sprintf(`{"subagent_id":%q,"timeout_seconds":5}`, id)
	case n < 9:
		return "subagent_await", fmt.Sprintf(`{"subagent_ids":%s,"mode":"any"}`, all)
	case n < 10:
		return "subagent_await", fmt.Sprintf(`{"subagent_ids":%s,"mode":"all"}`, all)
	case n < 11:
		return "subagent_cancel", fmt.Sprintf(`{"subagent_id":%q}`, id)
	}
	return "subagent_terminate", fmt.Sprintf(`{"subagent_id":%q}`, id)
}

func (w *world) fire(i int) {
	x := w.timers[i]
	w.timers = slices.Delete(w.timers, i, i+1)
	w.put(actor.Address{ID: x.id}, actor.LaneCtl, actor.Envelope{From: actor.ID(x.Name), Kind: agent.KindTimer, Body: agent.Pack(&agent.Timer{Session: x.Session, At: x.At})})
}

// drain lets everything come to its end.
func (w *world) drain() {
	for range 10_000 {
		if full := w.full(); len(full) > 0 {
			w.deliver(full[0])
		} else if working := w.working(); len(working) > 0 {
			w.step(working[0], true)
		} else {
			return
		}
		w.checkStopped()
	}
	w.t.Fatalf("the tree does not come to rest: %v", w.full())
}

// checkStopped: once a cascade is told to be over, nothing below its target works, now or later.
func (w *world) checkStopped() {
	for name, s := range w.stops {
		if w.asked[name] == "" {
			continue
		}
		for _, id := range w.under(s.target) {
			switch status := w.threads[id].Status(); {
			case s.terminate && status != a2e.Terminated:
				w.t.Fatalf("%s was terminated with everything below it, and %s is %s", s.target, id, status)
			case !status.Closed():
				w.t.Fatalf("%s was cancelled with everything below it, and %s is %s", s.target, id, status)
			}
		}
	}
}

// checkEnd looks at a tree at rest.
func (w *world) checkEnd() {
	if n := len(w.journal.tree.head.Cascades); n > 0 {
		w.t.Fatalf("%d cascades never end: %+v", n, w.journal.tree.head.Cascades)
	}
	for name, answer := range w.asked {
		if answer == "" {
			w.t.Fatalf("%s was never answered", name)
		}
	}
	var live []actor.ID
	for _, id := range w.order {
		switch status := w.threads[id].Status(); {
		case status == a2e.Ready:
			live = append(live, id)
		case !status.Closed():
			w.t.Fatalf("%s is %s for ever", id, status)
		}
	}
	slices.Sort(live)
	if table := slices.Sorted(maps.Keys(w.journal.tree.members)); !slices.Equal(table, live) {
		w.t.Fatalf("the host's table has %v, live are %v", table, live)
	}
	for result, parent := range w.results {
		if t := w.threads[parent]; !t.Terminated() && !strings.Contains(w.history[parent], result) {
			w.t.Fatalf("the result %s never reached the parent %s", result, parent)
		}
	}
}
