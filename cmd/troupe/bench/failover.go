package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
)

const (
	failoverLoad = 64 // threads that are always at work
	failoverGoal = 5 * time.Second
)

// A ledger knows which tasks were accepted, and the completions that came of them.
type ledger struct {
	mu       sync.Mutex
	accepted map[actor.ID]int            // tasks of each thread
	sessions map[actor.ID]map[string]int // completions of each thread, by session
	arrived  map[actor.ID]chan struct{}  // gets a token for each completion
}

func (l *ledger) add(id actor.ID) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{}, 1024)
	l.arrived[id], l.sessions[id] = c, map[string]int{}
	return c
}

func (l *ledger) take(m bus.Mail) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.arrived[m.From]; c != nil {
		l.sessions[m.From][m.Session]++
		c <- struct{}{}
	}
}

// balance counts accepted tasks, those of them that no completion came of, and completions that came of none.
func (l *ledger) balance() (accepted, lost, doubled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.accepted {
		completions := 0
		for _, times := range l.sessions[id] {
			completions += times
		}
		accepted += n
		lost += max(n-completions, 0)
		doubled += max(completions-n, 0)
	}
	return accepted, lost, doubled
}

// failover kills a worker of two under load, again and again, and measures how long its threads stand still.
func failover(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(func(dir string) (err error) {
		f, err := assemble(ctx, o, dir, 2)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.disband()) }()
		rows, err = f.failover(ctx)
		return err
	})
	return rows, err
}

func (f *fleet) failover(ctx context.Context) ([]Row, error) {
	l := &ledger{accepted: map[actor.ID]int{}, sessions: map[actor.ID]map[string]int{}, arrived: map[actor.ID]chan struct{}{}}
	reading, stop := context.WithCancel(context.Background())
	f.reading = stop
	go func() { _ = f.asks.ReadMail(reading, f.names, parent, 0, l.take) }() // ends with the context

	probes, err := f.probes(ctx, l)
	if err != nil {
		return nil, err
	}
	load, err := f.load(ctx, l)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for i := range f.o.Kills {
		took, err := f.once(ctx, l, probes)
		if err != nil {
			return nil, errors.Join(err, load())
		}
		f.o.Progress(fmt.Sprintf("killed worker %d of %d: its threads moved on after %d ms", i+1, f.o.Kills, took.Milliseconds()))
		times = append(times, took)
	}
	if err := load(); err != nil {
		return nil, err
	}
	accepted, lost, doubled := l.balance()
	middle := median(times)
	return []Row{
		{Name: fmt.Sprintf("kill -9 of a worker to progress of all its threads, median of %d", f.o.Kills), Value: milliseconds(middle), Unit: "ms", Goal: "≤ 5000 ms", Met: middle <= failoverGoal},
		{Name: "  the longest", Value: milliseconds(slices.Max(times)), Unit: "ms", Met: true},
		{Name: "  tasks accepted meanwhile", Value: float64(accepted), Met: true},
		{Name: "  of them lost", Value: float64(lost), Goal: "0", Met: lost == 0, Never: true},
		{Name: "  completions doubled", Value: float64(doubled), Goal: "0", Met: doubled == 0, Never: true},
	}, nil
}

// probes spawns a thread in each partition.
func (f *fleet) probes(ctx context.Context, l *ledger) (map[int]actor.ID, error) {
	probes := map[int]actor.ID{}
	for len(probes) < f.o.Partitions {
		id, err := f.client.Spawn(ctx, client.SpawnRequest{Agent: config})
		if err != nil {
			return nil, err
		}
		if p := subjects.Partition(id, f.o.Partitions); probes[p] == "" {
			probes[p] = id
			l.add(id)
		}
	}
	return probes, nil
}

// load keeps threads at work until it is stopped; stop returns once every task is over.
func (f *fleet) load(ctx context.Context, l *ledger) (stop func() error, err error) {
	working, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	errs := make(chan error, failoverLoad)
	for range failoverLoad {
		id, err := f.client.Spawn(ctx, client.SpawnRequest{Agent: config})
		if err != nil {
			cancel()
			wg.Wait()
			return nil, err
		}
		done := l.add(id)
		wg.Go(func() {
			for working.Err() == nil {
				if err := f.work(ctx, l, id, done); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		close(errs)
		var all []error
		for err := range errs {
			all = append(all, err)
		}
		return errors.Join(all...)
	}, nil
}

// work gives a thread a task and waits for the completion.
func (f *fleet) work(ctx context.Context, l *ledger, id actor.ID, done chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	resp, err := f.client.Delegate(ctx, id, task())
	if err != nil {
		return err
	}
	if !resp.Accepted {
		return fmt.Errorf("%s did not take a task", id)
	}
	l.mu.Lock()
	l.accepted[id]++
	l.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no completion of %s: %w", id, ctx.Err())
	}
}

// once kills the worker that owns more, and waits until a thread in each of its partitions has done a task that it was
// given right after. Then another worker takes its place.
func (f *fleet) once(ctx context.Context, l *ledger, probes map[int]actor.ID) (time.Duration, error) {
	owners, err := f.owners(ctx)
	if err != nil {
		return 0, err
	}
	victim := ""
	for member, owned := range owners {
		if victim == "" || len(owned) > len(owners[victim]) || len(owned) == len(owners[victim]) && number(member) < number(victim) {
			victim = member
		}
	}
	if err := f.kill(victim); err != nil {
		return 0, err
	}
	killed := time.Now()
	errs := make(chan error, len(owners[victim]))
	for _, p := range owners[victim] {
		go func() { errs <- f.work(ctx, l, probes[p], l.arrived[probes[p]]) }()
	}
	for range owners[victim] {
		err = errors.Join(err, <-errs)
	}
	took := time.Since(killed)
	if err != nil {
		return took, err
	}
	if _, err := f.hire(); err != nil {
		return took, err
	}
	return took, f.balanced(ctx)
}

func number(member string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(member, "worker-")) // one of ours
	return n
}
