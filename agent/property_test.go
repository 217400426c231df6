package agent

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
)

// TestThreadKeepsItsRules drives a thread with random envelopes. Behind every turn a witness checks what
// must hold of any history.
func TestThreadKeepsItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWitness(rapid.SampledFrom([]actor.Lineage{
			{ID: "sub_1", Ancestors: []actor.ID{"parent_1"}, Outside: true},
			{ID: "sub_1", Ancestors: []actor.ID{"root", "sub_p"}},
			{ID: "sub_1"},
		}).Draw(t, "lineage"), rapid.SampledFrom([]int{0, 4, 20}).Draw(t, "idle"), rapid.SampledFrom([][]actor.ID{nil, {"sub_1"}}).Draw(t, "budgets"))
		t.Repeat(map[string]func(*rapid.T){
			"work": func(t *rapid.T) {
				if w.thread.head.asking() {
					w.take(t, KindGrant, w.granted(t))
				} else {
					w.take(t, KindJob, w.result(t))
				}
			},
			"any": func(t *rapid.T) {
				n := rapid.IntRange(1, 3).Draw(t, "batch")
				for range n {
					w.add(w.anything(t))
				}
				w.decide(t)
			},
			"time": func(t *rapid.T) { w.fire(t) },
			"fail": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
					w.check(t, w.thread.Fail(actor.Input{Now: w.now}, "poison"), w.twin.Fail(actor.Input{Now: w.now}, "poison"))
				}
			},
		})
	})
}

// A witness has a thread, its twin, which is restored from its head behind every turn, and what can be
// known of it from outside.
type witness struct {
	now          time.Time
	birth        actor.Record
	thread, twin *Thread
	batch        []actor.Envelope
	status       a2e.Status
	session      uint64
	live         bool // as the host sees it
	jobs         map[uint64]bool
	timers       map[actor.Timer]bool
	asked        map[string]bool // subjects that wait for an answer
	asks         int
	held         uint64 // the reservation that the host has of it; 0: none
}

func newWitness(l actor.Lineage, idle int, budgets []actor.ID) *witness {
	w := &witness{
		now: time.UnixMicro(1e6), status: a2e.Ready, live: true,
		jobs: map[uint64]bool{}, timers: map[actor.Timer]bool{}, asked: map[string]bool{},
	}
	cfg := a2e.SubagentConfig{Name: "ada", Model: "m", MaxSteps: 3, TimeoutSeconds: 60, IdleTimeoutSeconds: idle, Capabilities: []string{MultiAgent}}
	var err error
	w.birth, err = Born(Birth{Lineage: l, Config: cfg.WithDefaults(), Budgets: budgets}, w.now.UnixMicro())
	must(err)
	w.thread, err = Load(&w.birth, 1, nil)
	must(err)
	w.twin, err = Load(&w.birth, 1, nil)
	must(err)
	return w
}

func (w *witness) add(env actor.Envelope) { w.batch = append(w.batch, env) }

func (w *witness) take(t *rapid.T, kind string, body any) {
	w.add(actor.Envelope{Kind: kind, Body: Pack(body)})
	w.decide(t)
}

// from draws a sender, an ancestor or a stranger, in a session.
func (w *witness) from(t *rapid.T) (actor.ID, uint64) {
	ids := append([]actor.ID{"sub_1", "sub_x", "parent_1"}, w.thread.head.Lineage.Ancestors...)
	return rapid.SampledFrom(ids).Draw(t, "from"), rapid.Uint64Range(0, 4).Draw(t, "session")
}

// anything draws an envelope as it may come from elsewhere, late, forged or in vain.
func (w *witness) anything(t *rapid.T) actor.Envelope {
	kinds := []string{KindDelegate, KindDelegate, KindMessage, KindAwait, KindAwait, KindStop, KindCompletion, KindAnswer, KindAnswer, KindJob, KindTimer, KindWake, KindExtend}
	env := actor.Envelope{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Lane: actor.LaneA}
	env.From, env.Session = w.from(t)
	flag := rapid.Bool()
	switch env.Kind {
	case KindDelegate:
		env.Body = Pack(&Delegate{Name: "t", Task: value(`{"name":"t"}`)})
		w.ask(t, &env)
	case KindMessage:
		env.Body = Pack(&Message{Content: value(`"hi"`), Opens: flag.Draw(t, "opens")})
		w.ask(t, &env)
	case KindAwait:
		var a Await
		if flag.Draw(t, "limit") {
			a.Until = w.now.UnixMicro() + rapid.Int64Range(-5, 30).Draw(t, "until")*1e6
		}
		env.Body = Pack(&a)
		w.ask(t, &env)
	case KindStop:
		s := Stop{Cascade: 1, Terminate: rapid.IntRange(0, 7).Draw(t, "terminate") == 0}
		if flag.Draw(t, "later round") {
			id, n := w.from(t)
			s.Openers = []Opener{{ID: id, Session: n}}
			s.Floors = s.Openers
		}
		env.Body = Pack(&s)
	case KindCompletion:
		env.Body = Pack(&Completion{Session: 1, Content: value(`{}`)})
	case KindAnswer:
		env.Body = Pack(w.answer(t, &env))
	case KindJob:
		env.Body = Pack(&JobAnswer{N: rapid.Uint64Range(0, w.thread.head.Jobs+1).Draw(t, "n"), Content: value(`{}`)})
	case KindExtend:
		env.Body = Pack(&Extend{By: rapid.Int64Range(1, 20).Draw(t, "by") * 1e6})
		w.ask(t, &env)
	case KindTimer:
		env.From = rapid.SampledFrom([]actor.ID{timerTimeout, timerIdle, timerSleep, "call-1-1-0"}).Draw(t, "timer")
		env.Body = Pack(&Timer{Session: rapid.Uint64Range(0, w.thread.head.Session).Draw(t, "of"), At: w.now.UnixMicro()})
	}
	return env
}

func (w *witness) ask(t *rapid.T, env *actor.Envelope) {
	if rapid.Bool().Draw(t, "asks") {
		w.asks++
		env.Asker.Reply = fmt.Sprintf("reply-%d", w.asks)
		w.asked[env.Asker.Reply] = true
	}
}

// answer draws the answer to a call that is under way, or to one that is not.
func (w *witness) answer(t *rapid.T, env *actor.Envelope) *Answer {
	a := &Answer{Call: "1-1-0", Content: value(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"sub_a","status":"COMPLETED","result":{},"error":null}`)}
	if calls := w.thread.head.Calls; len(calls) > 0 {
		c := rapid.SampledFrom(calls).Draw(t, "call")
		a.Call = c.Key
		if len(c.Waits) > 0 {
			env.From = rapid.SampledFrom(c.Waits).Draw(t, "awaited")
		}
	}
	if rapid.Bool().Draw(t, "ended") {
		a.Ended = Ended{Session: 1, Reason: StopDone, Usage: []byte(`{"steps":1}`)}
	}
	return a
}

// result draws the outcome of the job that is under way.
func (w *witness) result(t *rapid.T) *JobAnswer {
	a := &JobAnswer{N: w.thread.head.Job}
	switch rapid.IntRange(0, 7).Draw(t, "outcome") {
	case 0:
		a.Step.Done, a.Step.Result = true, value(`{"n":1}`)
	case 1:
		a.Step.Fail = "no"
	case 2:
		a.Err = "broken"
	case 3:
		a.Step.Sleep = 7e6
		fallthrough
	default:
		for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
			line := rapid.SampledFrom([]string{
				`subagent_await {"subagent_id":"sub_a","timeout_seconds":5}`,
				`subagent_await {"subagent_ids":["sub_a","sub_b"],"mode":"any"}`,
				`subagent_await {"subagent_ids":["sub_a","sub_b"],"mode":"all","timeout_seconds":9}`,
				`subagent_delegate {"subagent_id":"sub_a","task":{"name":"t","instruction":"i"}}`,
				`subagent_list {}`, `subagent_cancel {"subagent_id":"sub_a"}`, `nothing {}`, `subagent_send {"a":`,
				`subagent_send {"to_subagent_id":"parent_1","message":{"type":"t","content":null}}`,
			}).Draw(t, "call")
			name, arguments, _ := strings.Cut(line, " ")
			a.Step.Calls = append(a.Step.Calls, Call{ID: fmt.Sprint(i), Name: name, Arguments: value(arguments)})
		}
	}
	return a
}

// fire lets time go on to the first timer or wake-up, if there is one.
func (w *witness) fire(t *rapid.T) {
	timers := slices.SortedFunc(maps.Keys(w.timers), func(a, b actor.Timer) int { return int(a.At-b.At) + strings.Compare(a.Name, b.Name) })
	if len(timers) == 0 {
		w.now = w.now.Add(time.Second)
		w.add(actor.Envelope{Kind: KindWake})
		w.decide(t)
		return
	}
	first := timers[0]
	w.now = time.UnixMicro(max(first.At, w.now.UnixMicro()))
	delete(w.timers, first)
	w.add(actor.Envelope{Kind: KindTimer, From: actor.ID(first.Name), Body: Pack(&Timer{Session: first.Session, At: first.At})})
	w.decide(t)
}

func (w *witness) decide(t *rapid.T) {
	in := actor.Input{Now: w.now, Batch: w.batch}
	w.batch = nil
	for i := range in.Batch {
		if e := &in.Batch[i]; e.Kind == KindJob {
			delete(w.jobs, unpacked[JobAnswer](e.Body).N)
		}
	}
	w.check(t, w.thread.Decide(in), w.twin.Decide(in))
}

// fataler is a *rapid.T or a *testing.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check looks at a turn from outside, then restores the twin.
func (w *witness) check(t fataler, turn, twin actor.Turn) {
	t.Helper()
	if is, other := fmt.Sprintf("%+v", turn), fmt.Sprintf("%+v", twin); is != other {
		t.Fatalf("a thread that was restored from its head decides otherwise.\nnever restored %s\nrestored       %s", is, other)
	}
	w.checkEvents(t, &turn)
	w.checkWork(t, &turn)
	w.checkAnswers(t, &turn)
	w.checkClosed(t)
	var err error
	if w.twin, err = reload(w.thread, &w.birth); err != nil {
		t.Fatalf("restore: %v", err)
	}
}

// granted draws the host's answer to the reservation that the thread waits for.
func (w *witness) granted(t *rapid.T) *Granted {
	g := &Granted{N: w.thread.head.Allowance.N, Why: "used up"}
	if g.Allowed.Steps = rapid.Int64Range(0, 3).Draw(t, "steps"); g.Allowed.Steps == 0 {
		w.held = 0
	}
	g.Allowed.Tokens = rapid.SampledFrom([]int64{NoLimit, 0, 100}).Draw(t, "tokens")
	g.Allowed.USD = NoLimit
	return g
}

// settle closes what the host has: each reservation once, and no more steps than it allowed.
func (w *witness) settle(t fataler, s *Settled) {
	t.Helper()
	if s.N != w.held {
		t.Fatalf("reservation %d is settled; the host has %d", s.N, w.held)
	}
	if s.Used.Steps > 3 {
		t.Fatalf("%d steps are settled, more than were ever allowed", s.Used.Steps)
	}
	w.held = 0
}

// edges are the changes of status that there may be.
var edges = map[a2e.Status][]a2e.Status{
	a2e.Ready:      {a2e.Running, a2e.Cancelled, a2e.Terminated},
	a2e.Running:    {a2e.Waiting, a2e.Completed, a2e.Failed, a2e.Cancelled, a2e.Terminated},
	a2e.Waiting:    {a2e.Running, a2e.Failed, a2e.Cancelled, a2e.Terminated},
	a2e.Completed:  {a2e.Running, a2e.Terminated},
	a2e.Failed:     {a2e.Running, a2e.Terminated},
	a2e.Cancelled:  {a2e.Running, a2e.Terminated},
	a2e.Terminated: {},
}

// checkEvents follows the status from event to event, and the host's view from notice to notice.
func (w *witness) checkEvents(t fataler, turn *actor.Turn) {
	t.Helper()
	for i := range turn.Effects {
		switch e := &turn.Effects[i]; {
		case e.Kind == actor.EffectEvent && e.Name == "status_changed":
			var c changed
			must(json.Unmarshal(e.Body, &c))
			if !slices.Contains(edges[w.status], c.Status) {
				t.Fatalf("the status goes from %s to %s, which it must not", w.status, c.Status)
			}
			if c.Session < w.session || c.Session > w.session+1 || c.Session > w.session && c.Status != a2e.Running {
				t.Fatalf("session %d comes behind %d with status %s: sessions are opened one by one", c.Session, w.session, c.Status)
			}
			w.status, w.session = c.Status, c.Session
		case e.Kind == actor.EffectNotice && e.Name == KindReserve:
			r := unpacked[Reserve](e.Body)
			w.settle(t, &r.Settled)
			w.held = r.N
		case e.Kind == actor.EffectNotice:
			n := unpacked[Notice](e.Body)
			if n.Open && w.live {
				t.Fatalf("the host is told that session %d was opened and takes the thread for live already", n.Session)
			}
			w.live = n.Open
			w.settle(t, &n.Settled)
		}
	}
	if w.status != w.thread.Status() {
		t.Fatalf("the last event says %s, the thread is %s", w.status, w.thread.Status())
	}
	if open := w.thread.head.Open || w.status == a2e.Ready; open != w.live {
		t.Fatalf("the host takes the thread for live: %t; it is %s", w.live, w.status)
	}
}

// checkWork keeps the books of jobs and timers: what was started is answered, given up or outstanding.
func (w *witness) checkWork(t fataler, turn *actor.Turn) {
	t.Helper()
	for _, j := range turn.Jobs {
		w.jobs[j.N] = true
	}
	for _, n := range turn.Abort {
		delete(w.jobs, n)
	}
	// What the turn disarms was armed before it began or in a session that it ended.
	current := w.thread.head.Session
	for _, name := range turn.Disarm {
		maps.DeleteFunc(w.timers, func(x actor.Timer, _ bool) bool { return x.Name == name })
	}
	for _, x := range turn.Timers {
		if x.Session == current && w.thread.head.Open && (!slices.Contains(turn.Disarm, x.Name) || x.At == w.thread.head.Deadline || x.At == w.thread.head.IdleAt) {
			w.timers[x] = true
		}
	}
	jobs, timers := w.thread.Outstanding()
	if len(jobs) != len(w.jobs) || len(timers) != len(w.timers) {
		t.Fatalf("outstanding jobs %v and timers %v; by the books %v and %v", jobs, timers, w.jobs, w.timers)
	}
	for _, j := range jobs {
		if !w.jobs[j.N] {
			t.Fatalf("job %d is outstanding, but by the books %v are", j.N, w.jobs)
		}
	}
	for _, x := range timers {
		if !w.timers[x] {
			t.Fatalf("timer %+v is outstanding, but by the books %v are", x, w.timers)
		}
	}
	if h := &w.thread.head; h.Open && len(jobs) == 0 && !h.parked() && h.SleepUntil == 0 && !h.asking() && !slices.ContainsFunc(h.Calls, func(c call) bool { return !c.Done }) {
		t.Fatalf("the session is open, and nothing is under way that could move it: %+v", h)
	}
}

// checkAnswers: each request is answered once, or waits.
func (w *witness) checkAnswers(t fataler, turn *actor.Turn) {
	t.Helper()
	for i := range turn.Effects {
		if e := &turn.Effects[i]; e.Kind == actor.EffectReply {
			if !w.asked[e.Name] {
				t.Fatalf("%s gets an answer for which nobody waits: %s", e.Name, e.Body)
			}
			delete(w.asked, e.Name)
		}
	}
	waiting := 0
	for _, x := range w.thread.head.Waiters {
		if x.Asker.Reply != "" {
			waiting++
			if !w.asked[x.Asker.Reply] {
				t.Fatalf("%s still waits and was answered", x.Asker.Reply)
			}
		}
	}
	if waiting != len(w.asked) {
		t.Fatalf("%d requests wait in the thread, but %v were not answered", waiting, w.asked)
	}
}

// checkClosed: a session that has ended leaves nothing behind.
func (w *witness) checkClosed(t fataler) {
	t.Helper()
	h := &w.thread.head
	if jobs, timers := w.thread.Outstanding(); !h.Open && len(jobs)+len(timers)+len(h.Waiters)+len(h.Calls) > 0 {
		t.Fatalf("no session is open, yet there are jobs %v, timers %v, waiters %v, calls %v", jobs, timers, h.Waiters, h.Calls)
	}
	if !h.Open && h.Unseen > 0 {
		t.Fatalf("%d messages were to open a session, and none is open", h.Unseen)
	}
	if !h.Open && w.held != 0 {
		t.Fatalf("no session is open, and the host still has reservation %d", w.held)
	}
	if h.Open && h.Terminated {
		t.Fatalf("the thread is terminated and has a session open")
	}
}
