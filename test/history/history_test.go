package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The seeds of a plain run, and how many are played at a time: mostly they wait.
const (
	seedsOfOne     = 20
	seedsOfCluster = 3
	atOnce         = 6
	atOnceCluster  = 2
)

const (
	historySteps = 8 // of each worker
	settling     = 30 * time.Second
	finishing    = 60 * time.Second
)

// TestHistory plays short histories on one server.
func TestHistory(t *testing.T) {
	t.Parallel()
	play(t, "TROUPE_SEEDS", seedsOfOne, atOnce, func(t *testing.T, seed uint64) {
		live(t, seed, newWorld(t, 1, 2+int(seed%2)))
	})
}

// TestHistoryOfCluster plays short histories on three servers.
func TestHistoryOfCluster(t *testing.T) {
	t.Parallel()
	play(t, "TROUPE_CLUSTER_SEEDS", seedsOfCluster, atOnceCluster, func(t *testing.T, seed uint64) {
		live(t, seed, newWorld(t, 3, 2+int(seed%2)))
	})
}

// number reads a variable.
func envNumber(t *testing.T, name string, or uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// play plays the seeds that the environment asks for, some at a time.
func play(t *testing.T, count string, seeds uint64, atOnce int, one func(*testing.T, uint64)) {
	t.Helper()
	first, n := rand.Uint64N(1_000_000)*1000, envNumber(t, count, seeds)
	if only := envNumber(t, "TROUPE_SEED", 0); only != 0 {
		first, n = only, 1
	}
	began := time.Now()
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for seed := range next {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					defer func() {
						if t.Failed() {
							t.Logf("once more: TROUPE_SEED=%d go test -count=1 -run '^%s$' ./test/history", seed, strings.Split(t.Name(), "/")[0])
						}
					}()
					one(t, seed)
				})
			}
		})
	}
	for seed := first; seed < first+n; seed++ {
		next <- seed
	}
	close(next)
	wg.Wait()
	t.Logf("%d seeds from %d in %v", n, first, time.Since(began).Round(time.Second))
}

// live plays one history and inspects what it leaves behind.
func live(t *testing.T, seed uint64, w *world) {
	t.Helper()
	plan := NewPlan(PlanConfig{Seed: seed, Agents: 2, Workers: 2, Quick: true})
	w.source.Agents = plan.IDs()
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	faults := w.plan(rand.New(rand.NewPCG(seed, 1<<32)), historySteps*plan.Agents*plan.Workers)

	watching, watched := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.source.Watch(watching); err != nil {
			t.Errorf("watch the registry: %v", err)
		}
	})
	var (
		steps counter
		mu    sync.Mutex
		trace strings.Builder
	)
	crew := &Crew{Plan: plan, Book: w.source.Book, Steps: historySteps, OnStep: func(s Step) {
		steps.tick()
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&trace, "%s %s\n", clock(time.Now()), s)
	}}
	wg.Add(1)
	go func() {
		defer wg.Done()
		defer watched()
		crew.Work(ctx, ctx)
	}()
	told := w.suffer(ctx, faults, &steps)
	wg.Wait()
	w.inspect()
	if t.Failed() {
		t.Logf("faults:\n%s\nsteps:\n%s\nlog:\n%s", told(), trace.String(), tail(w.log.String()))
	}
}

// inspect waits until the records are as they have to be, or will not be any more.
func (w *world) inspect() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), settling)
	defer cancel()
	for {
		w.source.Rest(ctx, 8*50*time.Millisecond)
		r, err := w.source.Read(w.t.Context()) // within a time of its own: what is not at rest is told, too
		wrong := Violations{}
		if err == nil {
			wrong = Inspect(r)
		}
		if err == nil && len(wrong) == 0 {
			return
		}
		if pause(ctx, leaseTerm) {
			continue
		}
		if err != nil {
			w.t.Errorf("what there is can't be read: %v", err)
			return
		}
		w.t.Errorf("%s\n%s", r.Told(), wrong)
		return
	}
}

func tail(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}
