package spec

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

// TestCase15_RunningCap: a parent's turn holds a slot that its own blocking child needs → it runs; at a cap of one, too.
func TestCase15_RunningCap(t *testing.T) {
	t.Parallel()
	for _, running := range []int{4, 1} {
		t.Run(fmt.Sprint("A2E at ", running), func(t *testing.T) {
			t.Parallel()
			s := startWith(t, host.Config{Running: running, RunningOf: map[string]int{"builtin/*": 1}}, nil)
			const nested = `[{"call":"subagent_spawn","arguments":{"agent":{"name":"inner","model":"builtin/echo"}}},
				{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"deep"}}},
				{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}},
				{"result":"$last.result"}]`
			var ids []string
			for range 5 {
				ids = append(ids, s.run(me, nested))
			}
			for _, id := range ids {
				s.await(me, id).is("result", `{"output":"deep"}`)
			}
		})
		t.Run(fmt.Sprint("composed at ", running), func(t *testing.T) {
			t.Parallel()
			s := startWith(t, host.Config{Running: running}, nil)
			s.agents(
				`{"name":"boss","sideA":{"prompt":`+plays(`[{"call":"subagent_create","arguments":{"agent":"worker","name":"W","arguments":{"message":"deep"}}},{"result":"$last"}]`)+`,
					"subagents":[{"agent":"worker","blocking":true}]}}`,
				`{"name":"worker","sideA":{"prompt":`+plays(`[{"result":{"was":"$inbox.0.content"}}]`)+`}}`,
			)
			var ids []string
			for range 5 {
				id := s.instance("boss")
				s.say(id, `"go"`)
				ids = append(ids, id)
			}
			for _, id := range ids {
				s.rests(id, 1, agent.StatusIdle)
				s.await(me, id).is("result.status", `"idle"`)
			}
		})
	}
}

// A gated model holds every step until it is let go, and counts.
type gated struct {
	let    chan struct{}
	inside atomic.Int32
	most   atomic.Int32

	mu    sync.Mutex
	order []string
}

func (g *gated) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	n := g.inside.Add(1)
	defer g.inside.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	g.mu.Lock()
	g.order = append(g.order, r.Config.Name)
	g.mu.Unlock()
	select {
	case <-g.let:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &model.Response{Done: true, Result: []byte(`{}`)}, nil
}

// A tree with 200 jobs does not starve another's single job, and no more run than may.
func TestRunningIsFair(t *testing.T) {
	t.Parallel()
	g := &gated{let: make(chan struct{})}
	s := startWith(t, host.Config{Running: 2}, map[string]model.Model{"test/gated": g})
	work := func(owner, name string) string {
		id := s.ask(owner, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":%q,"model":"test/gated"}}`, name).text("subagent_id")
		s.ask(owner, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"i"}}`, id).is("accepted", `true`)
		return id
	}
	for i := range 200 {
		work(me, fmt.Sprint("many ", i))
	}
	id := work("another", "single")
	const turns = 5
	for range turns {
		g.let <- struct{}{}
	}
	go func() {
		for {
			select {
			case g.let <- struct{}{}:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	s.await("another", id).is("status", `"COMPLETED"`)
	g.mu.Lock()
	defer g.mu.Unlock()
	at := -1
	for i, name := range g.order {
		if name == "single" {
			at = i
		}
	}
	if at < 0 || at > 20 { // it came behind 200; whoever is quick has let some more through by then
		t.Errorf("the single job of another tree was number %d of %d, want it among the next few", at+1, len(g.order))
	}
	if most := g.most.Load(); most > 2 {
		t.Errorf("%d jobs ran at a time, want at most 2", most)
	}
}
