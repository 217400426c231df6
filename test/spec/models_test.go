package spec

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// modelFunc is a model that is one function.
type modelFunc func(context.Context, *model.Request) (*model.Response, error)

func (f modelFunc) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	return f(ctx, r)
}

// ends is a model that completes with a result at once.
func ends(result string) model.Model {
	return modelFunc(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Done: true, Result: json.RawMessage(result)}, nil
	})
}

// A gate is a model whose steps wait until the test lets them go on.
type gate struct {
	entered chan string   // the thread, when its step begins
	aborted chan string   // the thread, when its step was interrupted
	open    chan struct{} // closed or sent to by the test
}

func newGate() *gate {
	return &gate{entered: make(chan string, 1000), aborted: make(chan string, 1000), open: make(chan struct{})}
}

func (g *gate) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	g.entered <- string(r.Thread)
	select {
	case <-g.open:
		return &model.Response{Done: true, Result: json.RawMessage(`{"output":"through the gate"}`)}, nil
	case <-ctx.Done():
		g.aborted <- string(r.Thread)
		return nil, ctx.Err()
	}
}

// next takes one value that has to come.
func next[T any](s *stage, what string, from <-chan T) T {
	s.t.Helper()
	select {
	case v := <-from:
		return v
	case <-s.ctx.Done():
		s.t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// deaf is Step for a model that goes on when it is interrupted.
func (g *gate) deaf(_ context.Context, r *model.Request) (*model.Response, error) {
	g.entered <- string(r.Thread)
	<-g.open
	g.aborted <- string(r.Thread)
	return &model.Response{Done: true, Result: json.RawMessage(`{"output":"too late"}`)}, nil
}

// twoSteps is a model that notes which messages each of its two steps is the first to see, and that
// waits at the gate in the first.
func twoSteps(g *gate, seen *[]string) model.Model {
	return modelFunc(func(ctx context.Context, r *model.Request) (*model.Response, error) {
		for _, e := range r.History {
			if e.Kind == model.EntryMessage && e.Session == r.Session && e.Step == r.Step {
				*seen = append(*seen, fmt.Sprintf("step %d is shown %s", r.Step, e.Content))
			}
		}
		if r.Step == 1 {
			if _, err := g.Step(ctx, r); err != nil {
				return nil, err
			}
			return &model.Response{}, nil
		}
		return &model.Response{Done: true, Result: json.RawMessage(`{}`)}, nil
	})
}

// keepMessages keeps the messages of the history, each as JSON.
func keepMessages(seen *[]json.RawMessage) modelFunc {
	return func(_ context.Context, r *model.Request) (*model.Response, error) {
		for _, e := range r.History {
			if e.Kind == model.EntryMessage {
				data, err := json.Marshal(e)
				if err != nil {
					return nil, err
				}
				*seen = append(*seen, data)
			}
		}
		return &model.Response{Done: true, Result: json.RawMessage(`{}`)}, nil
	}
}

func parseID(id string) actor.ID { return actor.ID(id) }
