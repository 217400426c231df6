package host

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/actor"
)

// inLine starts jobs that wait for a place, each after the one before waits. Every job that has one says its name,
// and leaves.
func inLine(t *testing.T, s *slots, jobs ...[2]string) (order func() []string) {
	var said []string
	for _, j := range jobs {
		go func() {
			leave, err := s.enter(t.Context(), actor.ID(j[0]), j[1])
			if err != nil {
				t.Errorf("a job of %s: %v", j[0], err)
				return
			}
			said = append(said, j[0]) // one at a time: they all pass through one place
			leave()
		}()
		synctest.Wait()
	}
	return func() []string { synctest.Wait(); return said }
}

func mustEnter(t *testing.T, s *slots, root actor.ID, model string) (leave func()) {
	t.Helper()
	leave, err := s.enter(t.Context(), root, model)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// Trees take turns: one with many jobs keeps no other waiting for longer than a turn of each.
func TestSlotsAreFairBetweenTrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, nil)
		leave := mustEnter(t, s, "busy", "")
		order := inLine(t, s, [2]string{"busy"}, [2]string{"busy"}, [2]string{"busy"}, [2]string{"b"}, [2]string{"c"}, [2]string{"b"})
		if got := order(); len(got) > 0 {
			t.Fatalf("%v ran beside a job that had the only place", got)
		}
		leave()
		if got, want := order(), []string{"busy", "b", "c", "busy", "b", "busy"}; !slices.Equal(got, want) {
			t.Errorf("they ran in the order %v, want %v: one of each tree after the other", got, want)
		}
	})
}

// What waits for a model that is busy keeps nobody else from the place.
func TestSlotsOfAModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(10, map[string]int{"big/*": 2, "big/one": 1})
		first := mustEnter(t, s, "a", "big/one")
		second := mustEnter(t, s, "a", "big/two")
		one, two := inLine(t, s, [2]string{"b", "big/one"}), inLine(t, s, [2]string{"c", "big/two"})
		other := inLine(t, s, [2]string{"d", "small"}, [2]string{"e", ""})
		if a, b := one(), two(); len(a)+len(b) > 0 {
			t.Fatalf("%v %v run, though two of big/* do", a, b)
		}
		if got := other(); len(got) != 2 {
			t.Fatalf("of those that need no big model only %v run", got)
		}
		second()
		if a, b := one(), two(); len(a) > 0 || len(b) != 1 {
			t.Fatalf("with a place of big/* free, and none of big/one, ran: %v %v", a, b)
		}
		first()
		if got := one(); len(got) != 1 {
			t.Fatal("the place of big/one is free, and nobody has it")
		}
		leave, err := s.think(t.Context(), "a", "big/one")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		if s.process.free != 10 || s.models[0].free != 2 || s.models[1].free != 1 {
			t.Errorf("in the end %d places are free, and %d and %d of the models", s.process.free, s.models[0].free, s.models[1].free)
		}
	})
}

// Whoever gives up has no place and leaves none behind, also when it was called at the same moment.
func TestSlotsAreNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		running := rapid.IntRange(1, 3).Draw(rt, "running")
		s := newSlots(running, map[string]int{"m": 1})
		var inside []func()
		var waiting []context.CancelFunc
		came := make(chan func(), 1000)
		over := make(chan struct{}, 1000)
		for range rapid.IntRange(1, 60).Draw(rt, "acts") {
			switch rapid.IntRange(0, 3).Draw(rt, "act") {
			case 0, 1:
				ctx, cancel := context.WithCancel(context.Background())
				waiting = append(waiting, cancel)
				root := actor.ID(fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "tree")))
				model := rapid.SampledFrom([]string{"", "m"}).Draw(rt, "model")
				go func() {
					defer func() { over <- struct{}{} }()
					if leave, err := s.enter(ctx, root, model); err == nil {
						came <- leave
					}
				}()
			case 2:
				select {
				case leave := <-came:
					inside = append(inside, leave)
				default:
				}
				if len(inside) > running {
					rt.Fatalf("%d have a place at a time, want at most %d", len(inside), running)
				}
				if len(inside) > 0 {
					inside[0]()
					inside = inside[1:]
				}
			case 3:
				if len(waiting) > 0 {
					waiting[rapid.IntRange(0, len(waiting)-1).Draw(rt, "who")]()
				}
			}
		}
		for _, leave := range inside {
			leave()
		}
		for n := 0; n < len(waiting); {
			select {
			case leave := <-came:
				leave()
			case <-over:
				n++
			}
		}
		for len(came) > 0 {
			(<-came)()
		}
		for _, cancel := range waiting {
			cancel()
		}
		if s.process.free != running || s.models[0].free != 1 {
			rt.Fatalf("at rest %d of %d places are free, and %d of the model's one", s.process.free, running, s.models[0].free)
		}
	})
}
