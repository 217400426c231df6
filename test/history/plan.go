package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A PlanConfig says what a plan is made from. All fields but Quick are required.
type PlanConfig struct {
	Seed    uint64
	Agents  int // outside
	Workers int // of each agent, which work side by side
	Quick   bool
}

// A Plan is what agents do, step by step. It follows from its config: not from answers, and not from time.
type Plan struct {
	PlanConfig

	mu      sync.Mutex
	workers []*planner // those of the first agent first
}

// An Op is what a step does.
type Op string

// The ops of steps.
const (
	OpSpawn     Op = "spawn"
	OpCompose   Op = "compose" // spawn an instance of an agent, which creates children of its own
	OpDelegate  Op = "delegate"
	OpSend      Op = "send"
	OpList      Op = "list"
	OpAwait     Op = "await"
	OpCancel    Op = "cancel"
	OpTerminate Op = "terminate"
	OpMerge     Op = "merge"
)

// A Handle names a thread before it exists: the one that a step of a worker spawns.
type Handle struct{ Worker, Step int }

// A Step is one request, or a few that belong together.
type Step struct {
	Handle
	Op       Op
	Of       []Handle // the threads that it concerns: of a spawn the parent, if it is not the agent
	Child    *a2e.SubagentConfig
	Agent    string              // the definition of what is composed
	Task     *a2e.TaskDefinition // given to the child, or to the thread
	Await    float64             // seconds; 0: not
	Notes    []int               // the numbers of the messages that are sent
	Strategy a2e.Strategy
	Pause    time.Duration // afterwards
}

// String tells a step in a line.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%d %s", s.Worker, s.Handle.Step, s.Op)
	for _, h := range s.Of {
		fmt.Fprintf(&b, " of %d.%d", h.Worker, h.Step)
	}
	if s.Child != nil {
		fmt.Fprintf(&b, " %s (%s)", s.Child.Name, s.Child.Model)
	}
	if s.Task != nil {
		fmt.Fprintf(&b, " task %s", s.Task.Name)
	}
	if s.Await > 0 {
		fmt.Fprintf(&b, " await %.2fs", s.Await)
	}
	if len(s.Notes) > 0 {
		fmt.Fprintf(&b, " notes %v", s.Notes)
	}
	return b.String()
}

// A planner plans for one worker.
type planner struct {
	writer
	n     int
	steps []Step
	own   []Handle       // threads that it has spawned itself and goes on to ask
	sent  map[Handle]int // messages, by recipient
}

// NewPlan makes a plan that has no end.
func NewPlan(cfg PlanConfig) *Plan {
	p := &Plan{PlanConfig: cfg}
	for n := range cfg.Agents * cfg.Workers {
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(n)))
		w := writer{rng: rng, root: AgentID(n / cfg.Workers), of: fmt.Sprint(n), quick: cfg.Quick}
		p.workers = append(p.workers, &planner{writer: w, n: n, sent: map[Handle]int{}})
	}
	return p
}

// AgentID is the id of an agent outside, which is no NATS token as it stands.
func AgentID(n int) actor.ID { return actor.ID(fmt.Sprintf("agent.%d", n)) }

// IDs are the ids of all agents of the plan.
func (p *Plan) IDs() (ids []actor.ID) {
	for a := range p.Agents {
		ids = append(ids, AgentID(a))
	}
	return ids
}

// Step is the step n of a worker. Steps are planned in rounds of one for each worker, so that a step can concern
// what those of earlier rounds spawn and nothing else.
func (p *Plan) Step(worker, n int) Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.workers[worker].steps) <= n {
		round := len(p.workers[0].steps)
		others := make([][]Handle, p.Agents)
		for _, w := range p.workers {
			others[w.n/p.Workers] = append(others[w.n/p.Workers], w.own...)
		}
		for _, w := range p.workers {
			s := w.step(others[w.n/p.Workers])
			s.Handle = Handle{w.n, round}
			if s.Op == OpSpawn || s.Op == OpCompose {
				w.own = append(w.own, s.Handle)
			}
			w.steps = append(w.steps, s)
		}
	}
	return p.workers[worker].steps[n]
}

// step plans the next step of a worker, whose agent has all these threads.
func (w *planner) step(all []Handle) (s Step) {
	of, ok := w.pick(all)
	if n := w.rng.IntN(100); !ok || n < 18 {
		s = w.spawn(all)
	} else {
		s = Step{Of: []Handle{of}}
		switch {
		case n < 24:
			s = w.compose()
		case n < 55:
			s.Op = OpDelegate
			w.delegate(&s)
		case n < 68:
			s.Op = OpSend
			w.send(&s)
		case n < 74:
			s = Step{Op: OpList}
		case n < 80:
			s.Op, s.Await = OpAwait, w.await()
		case n < 88:
			s.Op = OpCancel
		case n < 92:
			s.Op = OpTerminate
			w.forget(of)
		default:
			s = w.merge(all)
		}
	}
	s.Pause = time.Duration(w.rng.Int64N(int64(thinking)))
	return s
}

const thinking = 20 * time.Millisecond

// pick gives one of the agent's threads, mostly one of the worker's own.
func (w *planner) pick(all []Handle) (Handle, bool) {
	from := all
	if len(w.own) > 0 && w.rng.IntN(4) > 0 {
		from = w.own
	}
	if len(from) == 0 {
		return Handle{}, false
	}
	recent := max(0, len(from)-12) // old ones are asked less and less
	if w.rng.IntN(3) == 0 {
		recent = 0
	}
	return from[recent+w.rng.IntN(len(from)-recent)], true
}

func (w *planner) spawn(all []Handle) Step {
	child := as[a2e.SubagentConfig](w.subagent()).WithDefaults()
	s := Step{Op: OpSpawn, Child: &child}
	if parent, ok := w.pick(all); ok && w.rng.IntN(4) == 0 {
		s.Of = []Handle{parent}
	}
	w.delegate(&s)
	return s
}

func (w *planner) compose() Step {
	name := []string{"boss", "dual"}[w.rng.IntN(2)]
	s := Step{Op: OpCompose, Agent: name, Child: &a2e.SubagentConfig{Name: w.name(name)}}
	w.delegate(&s)
	return s
}

func (w *planner) delegate(s *Step) {
	task := as[a2e.TaskDefinition](w.task(0))
	s.Task = &task
	if w.rng.IntN(3) > 0 {
		s.Await = w.await()
	}
}

// await waits a while, not always until the end.
func (w *planner) await() float64 {
	seconds := 2 * w.rng.Float64()
	if w.quick {
		seconds /= 4
	}
	return 0.05 + seconds
}

// send plans messages that are sent one after the other, each once the one before is durably queued.
func (w *planner) send(s *Step) {
	for range 1 + w.rng.IntN(3) {
		w.sent[s.Of[0]]++
		s.Notes = append(s.Notes, w.sent[s.Of[0]])
	}
}

// forget keeps a worker, mostly, from asking for a terminated thread for ever.
func (w *planner) forget(h Handle) {
	if w.rng.IntN(2) > 0 {
		w.own = slices.DeleteFunc(w.own, func(x Handle) bool { return x == h })
	}
}

func (w *planner) merge(all []Handle) Step {
	s := Step{Op: OpMerge, Strategy: a2e.Voting}
	for range 3 {
		if h, ok := w.pick(all); ok && !slices.Contains(s.Of, h) {
			s.Of = append(s.Of, h)
		}
	}
	if w.rng.IntN(2) == 0 {
		s.Strategy = a2e.HierarchicalSummary
	}
	return s
}

// A note is what stands in a worker's message.
type note struct {
	Worker int `json:"worker"`
	N      int `json:"n"`
}

func (n note) json() json.RawMessage {
	data, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return data
}
