package history

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A Crew carries a plan out: a goroutine for each worker.
type Crew struct {
	Plan   *Plan
	Book   *Book
	Steps  int          // of each worker; 0: until the context of Work ends
	OnStep func(s Step) // called before each step, if it is set

	mu      sync.Mutex
	threads map[Handle]born // by the step that spawns
	left    map[int]bool    // workers that have ended
}

// A born is what became of a spawn.
type born struct {
	done chan struct{} // closed when the spawn is answered
	id   actor.ID      // "" when there is no child
}

// Work carries the plan out until it is done, or until ctx ends and every request under way is answered or
// given up, a while after it.
func (c *Crew) Work(ctx context.Context, finish context.Context) {
	var wg sync.WaitGroup
	for n := range c.Plan.Agents * c.Plan.Workers {
		wg.Go(func() {
			w := &worker{Crew: c, agent: AgentID(n / c.Plan.Workers)}
			for i := 0; ctx.Err() == nil && finish.Err() == nil && (c.Steps == 0 || i < c.Steps); i++ {
				s := c.Plan.Step(n, i)
				if c.OnStep != nil {
					c.OnStep(s)
				}
				w.act(finish, s)
				pause(ctx, s.Pause)
			}
			c.leave(n)
		})
	}
	wg.Wait()
}

// place gives the slot of a thread.
func (c *Crew) place(h Handle) born {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.threads[h]
	if !ok {
		b.done = make(chan struct{})
		if c.left[h.Worker] {
			close(b.done)
		}
		if c.threads == nil {
			c.threads = map[Handle]born{}
		}
		c.threads[h] = b
	}
	return b
}

// settle says what became of a spawn.
func (c *Crew) settle(h Handle, id actor.ID) {
	b := c.place(h)
	c.mu.Lock()
	b.id = id
	c.threads[h] = b
	c.mu.Unlock()
	close(b.done)
}

// thread waits until a spawn has been answered and gives its child. Whoever waits waits for a step of an earlier
// round, so nobody waits for ever.
func (c *Crew) thread(ctx context.Context, h Handle) (actor.ID, bool) {
	b := c.place(h)
	select {
	case <-b.done:
	case <-ctx.Done():
		return "", false
	}
	b = c.place(h)
	return b.id, b.id != ""
}

// leave settles what a worker that ends early does not come to.
func (c *Crew) leave(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == nil {
		c.left = map[int]bool{}
	}
	c.left[n] = true
	for h, b := range c.threads {
		if h.Worker == n {
			select {
			case <-b.done:
			default:
				close(b.done)
			}
		}
	}
}

// A worker makes one request after the other.
type worker struct {
	*Crew
	agent actor.ID
	step  Handle
	asked int // in this step
}

// act carries a step out. It asks nothing of threads that never came to be.
func (w *worker) act(ctx context.Context, s Step) {
	w.step, w.asked = s.Handle, 0
	var of []actor.ID
	for _, h := range s.Of {
		if id, ok := w.thread(ctx, h); ok {
			of = append(of, id)
		}
	}
	if s.Op == OpSpawn || s.Op == OpCompose {
		id := w.spawn(ctx, s, of)
		if w.settle(s.Handle, id); id != "" {
			w.delegate(ctx, s, id)
		}
		return
	}
	if s.Op == OpList {
		w.ask(ctx, &a2e.ListReq{})
		return
	}
	if len(of) == 0 {
		return
	}
	switch s.Op {
	case OpDelegate:
		w.delegate(ctx, s, of[0])
	case OpSend:
		w.send(ctx, s, of[0])
	case OpAwait:
		w.ask(ctx, &a2e.AwaitReq{SubagentID: of[0], TimeoutSeconds: s.Await})
	case OpCancel:
		w.ask(ctx, &a2e.CancelReq{SubagentID: of[0]})
	case OpTerminate:
		w.ask(ctx, &a2e.TerminateReq{SubagentID: of[0]})
	case OpMerge:
		w.ask(ctx, &a2e.MergeReq{SubagentIDs: of, Strategy: s.Strategy})
	}
}

// ask gives nil when there was no answer.
func (w *worker) ask(ctx context.Context, req a2e.Request) a2e.Message {
	w.asked++
	setID(req, fmt.Sprintf("%d.%d.%d", w.step.Worker, w.step.Step, w.asked))
	msg, err := w.Book.Ask(ctx, w.agent, req)
	if err != nil {
		return nil // told by the inspection
	}
	return msg
}

func (w *worker) spawn(ctx context.Context, s Step, parent []actor.ID) actor.ID {
	req := &a2e.SpawnReq{Agent: *s.Child}
	if s.Op == OpCompose {
		req.Definition, req.ScopedEnv = s.Agent, map[string]json.RawMessage{"KEY": json.RawMessage(`"v"`)}
	}
	if len(parent) > 0 {
		req.ParentAgentID = parent[0]
	}
	resp, ok := w.ask(ctx, req).(*a2e.SpawnResp)
	if !ok {
		return ""
	}
	return resp.SubagentID
}

func (w *worker) delegate(ctx context.Context, s Step, id actor.ID) {
	resp, ok := w.ask(ctx, &a2e.DelegateReq{SubagentID: id, Task: *s.Task}).(*a2e.DelegateResp)
	if ok && resp.Accepted && s.Await > 0 {
		w.ask(ctx, &a2e.AwaitReq{SubagentID: id, TimeoutSeconds: s.Await})
	}
}

func (w *worker) send(ctx context.Context, s Step, id actor.ID) {
	for _, n := range s.Notes {
		resp, ok := w.ask(ctx, &a2e.MessageReq{
			FromSubagentID: w.agent, ToSubagentID: id,
			Message: a2e.MessagePayload{Type: "note", Content: note{w.step.Worker, n}.json()},
		}).(*a2e.MessageResp)
		if !ok || !resp.Delivered {
			return
		}
	}
}
