package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/subjects"
)

const (
	failoverHosts  = 3
	failoverWindow = 128 // children under way
)

// slow is a thread whose task takes its time, so that a host that is killed has many under way.
var slow = a2e.SubagentConfig{
	Name: "slow", Model: "builtin/script",
	Metadata: map[string]json.RawMessage{"script": json.RawMessage(`[{"sleep_ms":200},{"result":"done"}]`)},
}.WithDefaults()

// failover kills hosts under load with SIGKILL, one after the other, and measures how soon their threads go on
// elsewhere: from before the kill until, in every partition that the host owned, one of the children that were under
// way then has completed, as told by the mail that was stored after the host had gone. At the end nothing may be lost
// and nothing there twice.
func failover(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(o, func(dir string) (err error) {
		f, err := newFleet(ctx, o, dir, max(o.Hosts, failoverHosts))
		defer func() { err = errors.Join(err, f.close()) }()
		if err != nil {
			return err
		}
		l, err := newLoad(ctx, f.conn, f.names, slow)
		if err != nil {
			return err
		}
		defer l.close()
		loading, rest := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- l.run(loading, 1<<30, min(o.Window, failoverWindow)) }()
		times, last, err := f.kills(ctx, l)
		rest()
		if err = errors.Join(err, <-ended); err != nil {
			return err
		}
		t, err := l.tally(ctx)
		rows = failoverRows(times, last, t)
		return err
	})
	return rows, err
}

func failoverRows(times, last []time.Duration, t tally) []Row {
	middle := median(times)
	return []Row{
		{
			Name: fmt.Sprintf("kill -9 of a host under load to its threads going on, median of %d", len(times)), Value: milliseconds(middle), Unit: "ms",
			Goal: "≤ 5000 ms", Met: middle <= 5*time.Second,
		},
		{Name: "  the slowest", Value: milliseconds(slices.Max(times)), Unit: "ms"},
		{Name: "  to the last of its children that were under way, median", Value: milliseconds(median(last)), Unit: "ms"},
		{Name: "  tasks accepted", Value: float64(t.accepted), Unit: "tasks"},
		{Name: "  lost", Value: float64(t.lost), Unit: "tasks", Goal: "0", Met: t.lost == 0, Must: true},
		{Name: "  twice", Value: float64(t.twice), Unit: "tasks", Goal: "0", Met: t.twice == 0, Must: true},
	}
}

// kills kills a host as often as is asked for, and starts another in its place each time.
func (f *fleet) kills(ctx context.Context, l *load) (times, last []time.Duration, err error) {
	for i := range f.o.Kills {
		owners, err := f.owners(ctx)
		if err != nil {
			return nil, nil, err
		}
		victim := slices.Min(slices.Collect(maps.Values(owners)))
		if err := f.busy(ctx, l, victim, owners); err != nil {
			return nil, nil, err
		}
		first, all, err := f.killOne(ctx, l, victim, owners)
		if err != nil {
			return nil, nil, fmt.Errorf("kill %d, of %s: %w", i+1, victim, err)
		}
		f.o.Progress(fmt.Sprintf("kill %d of %d: threads go on after %d ms, all after %d ms", i+1, f.o.Kills, first.Milliseconds(), all.Milliseconds()))
		times, last = append(times, first), append(last, all)
		if err := f.join(ctx); err != nil {
			return nil, nil, err
		}
		if err := f.balanced(ctx); err != nil {
			return nil, nil, err
		}
	}
	return times, last, nil
}

// busy returns once children are under way in every partition of a host: one that has just been started gets its load
// when the askers of the one before have asked again.
func (f *fleet) busy(ctx context.Context, l *load, host string, owners map[int]string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	mine := func(p int) bool { return owners[p] == host }
	owns := 0
	for p := range owners {
		if mine(p) {
			owns++
		}
	}
	for len(l.underWay(f.o.Partitions, mine)) < owns {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s gets no load: %w", host, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// killOne kills a host. It gives when in each partition of it a child has gone on, and when the last has.
func (f *fleet) killOne(ctx context.Context, l *load, victim string, owners map[int]string) (first, last time.Duration, err error) {
	host := f.hosts[victim]
	delete(f.hosts, victim)
	theirs := func(p int) bool { return owners[p] == victim }
	started := time.Now()
	if err := host.kill(); err != nil {
		return 0, 0, err
	}
	gone := time.Now()
	under := l.underWay(f.o.Partitions, theirs)
	firsts := map[int]time.Time{}
	var slowest, latest time.Time
	for p, lives := range under {
		for _, t := range lives {
			select {
			case <-t.over:
			case <-time.After(patience):
				return 0, 0, errors.New("a child that was under way does not complete")
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			}
			if t.ended.Before(gone) {
				continue // its completion was on its way
			}
			if firsts[p].IsZero() || t.ended.Before(firsts[p]) {
				firsts[p] = t.ended
			}
			latest = later(latest, t.ended)
		}
	}
	for _, at := range firsts {
		slowest = later(slowest, at)
	}
	if slowest.IsZero() {
		return 0, 0, errors.New("it had no child under way")
	}
	return slowest.Sub(started), latest.Sub(started), nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// underWay lists, by partition, the children with an accepted task whose completion has not come.
func (l *load) underWay(partitions int, of func(partition int) bool) map[int][]*life {
	l.mu.Lock()
	defer l.mu.Unlock()
	under := map[int][]*life{}
	for id, t := range l.tasks {
		if p := subjects.Partition(id, partitions); of(p) && !t.given.IsZero() && t.ended.IsZero() {
			under[p] = append(under[p], t)
		}
	}
	return under
}
