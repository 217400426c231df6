package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// The load. Agents share what the machine has with the processes that are killed.
const (
	agents         = 3
	workersOfAgent = 3
	maxLive        = 24 // live subagents in the tree of an agent: the cap is met often
	thinking       = 20 * time.Millisecond
	finishing      = patience // what a request may still take when no new ones are made
)

// A crew is the workers that act for one agent outside.
type crew struct {
	book  *book
	agent actor.ID

	mu      sync.Mutex
	threads []actor.ID
}

// A worker makes one request after the other.
type worker struct {
	*crew
	writer
	n    int
	sent map[actor.ID]int // messages, by recipient
	own  []actor.ID       // threads that it has spawned itself
}

// work runs the load until ctx ends, and returns when every request under way is answered or given up.
func work(ctx context.Context, b *book, seed uint64) {
	var wg sync.WaitGroup
	var count atomic.Uint64
	for a := range agents {
		c := &crew{book: b, agent: agentID(a)}
		for n := range workersOfAgent {
			rng := rand.New(rand.NewPCG(seed, uint64(100*a+n)))
			w := &worker{crew: c, writer: writer{rng, c.agent, &count}, n: n, sent: map[actor.ID]int{}}
			wg.Go(func() { w.run(ctx) })
		}
	}
	wg.Wait()
}

func (w *worker) run(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishing, cancel) })()
	for ctx.Err() == nil && last.Err() == nil {
		w.act(last)
		pause(ctx, time.Duration(w.rng.Int64N(int64(thinking))))
	}
}

// act makes one request, or a few that belong together.
func (w *worker) act(ctx context.Context) {
	id, ok := w.pick()
	if n := w.rng.IntN(100); !ok || n < 18 {
		w.spawn(ctx)
	} else {
		switch {
		case n < 24:
			w.compose(ctx)
		case n < 55:
			w.delegate(ctx, id)
		case n < 68:
			w.send(ctx, id)
		case n < 74:
			w.ask(ctx, &a2e.ListReq{})
		case n < 80:
			w.await(ctx, id)
		case n < 88:
			w.ask(ctx, &a2e.CancelReq{SubagentID: id})
		case n < 92:
			w.terminate(ctx, id)
		default:
			w.merge(ctx)
		}
	}
}

// ask gives nil when there was no answer.
func (w *worker) ask(ctx context.Context, req a2e.Request) a2e.Message {
	msg, err := w.book.ask(ctx, w.agent, req)
	if err != nil {
		return nil // told by the inspection
	}
	return msg
}

// pick gives one of the crew's threads, mostly one of the worker's own.
func (w *worker) pick() (actor.ID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.threads
	if len(w.own) > 0 && w.rng.IntN(4) > 0 {
		from = w.own
	}
	if len(from) == 0 {
		return "", false
	}
	recent := max(0, len(from)-12) // old ones are asked less and less
	if w.rng.IntN(3) == 0 {
		recent = 0
	}
	return from[recent+w.rng.IntN(len(from)-recent)], true
}

func (w *worker) spawn(ctx context.Context) {
	req := &a2e.SpawnReq{Agent: as[a2e.SubagentConfig](w.subagent()).WithDefaults()}
	if parent, ok := w.pick(); ok && w.rng.IntN(4) == 0 {
		req.ParentAgentID = parent
	}
	resp, ok := w.ask(ctx, req).(*a2e.SpawnResp)
	if !ok {
		return
	}
	w.mu.Lock()
	w.threads = append(w.threads, resp.SubagentID)
	w.own = append(w.own, resp.SubagentID)
	w.mu.Unlock()
	w.delegate(ctx, resp.SubagentID)
}

// compose spawns an instance of an agent, which creates children of its own, and gives it work.
func (w *worker) compose(ctx context.Context) {
	name := []string{"boss", "dual"}[w.rng.IntN(2)]
	req := &a2e.SpawnReq{Agent: a2e.SubagentConfig{Name: w.name(name)}, Definition: name, ScopedEnv: map[string]json.RawMessage{"KEY": json.RawMessage(`"v"`)}}
	resp, ok := w.ask(ctx, req).(*a2e.SpawnResp)
	if !ok {
		return
	}
	w.mu.Lock()
	w.threads = append(w.threads, resp.SubagentID)
	w.own = append(w.own, resp.SubagentID)
	w.mu.Unlock()
	w.delegate(ctx, resp.SubagentID)
}

func (w *worker) delegate(ctx context.Context, id actor.ID) {
	task := as[a2e.TaskDefinition](w.task(0))
	resp, ok := w.ask(ctx, &a2e.DelegateReq{SubagentID: id, Task: task}).(*a2e.DelegateResp)
	if ok && resp.Accepted && w.rng.IntN(3) > 0 {
		w.await(ctx, id)
	}
}

// await waits a while, not always until the end.
func (w *worker) await(ctx context.Context, id actor.ID) {
	w.ask(ctx, &a2e.AwaitReq{SubagentID: id, TimeoutSeconds: 0.05 + 2*w.rng.Float64()})
}

// send sends messages one after the other, each once the one before is durably queued.
func (w *worker) send(ctx context.Context, id actor.ID) {
	for range 1 + w.rng.IntN(3) {
		w.sent[id]++
		content, err := json.Marshal(note{w.n, w.sent[id]})
		if err != nil {
			panic(err)
		}
		resp, ok := w.ask(ctx, &a2e.MessageReq{
			FromSubagentID: w.agent, ToSubagentID: id, Message: a2e.MessagePayload{Type: "note", Content: content},
		}).(*a2e.MessageResp)
		if !ok || !resp.Delivered {
			return
		}
	}
}

// A note is what stands in a worker's message.
type note struct {
	Worker int `json:"worker"`
	N      int `json:"n"`
}

// terminate keeps the crew from asking for a terminated thread for ever.
func (w *worker) terminate(ctx context.Context, id actor.ID) {
	w.ask(ctx, &a2e.TerminateReq{SubagentID: id})
	if w.rng.IntN(2) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	not := func(x actor.ID) bool { return x == id }
	w.threads = slices.DeleteFunc(w.threads, not)
	w.own = slices.DeleteFunc(w.own, not)
}

func (w *worker) merge(ctx context.Context) {
	var ids []actor.ID
	for range 3 {
		if id, ok := w.pick(); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	strategy := a2e.Voting
	if w.rng.IntN(2) == 0 {
		strategy = a2e.HierarchicalSummary
	}
	w.ask(ctx, &a2e.MergeReq{SubagentIDs: ids, Strategy: strategy})
}

// agentID is the id of an agent outside, which is no NATS token as it stands.
func agentID(n int) actor.ID { return actor.ID(fmt.Sprintf("agent.%d", n)) }
