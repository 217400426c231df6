package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	brood   = 10 // children of each parent
	samples = 40 // parents that are listed, and threads that are woken up
	small   = 1000

	settleFrom = 10_000 // threads, before which their memory is not worth waiting for
)

// threads measures what idle threads cost that many parents have, and how soon a store full of them is ready after
// its server and its host were killed. What it does in the full store it does in a small one, too.
func threads(ctx context.Context, o Options) (rows []Row, err error) {
	o.Threads = (o.Threads + brood - 1) / brood * brood
	near, err := inStore(ctx, o, min(small, o.Threads))
	if err != nil {
		return nil, err
	}
	far, err := inStore(ctx, o, o.Threads)
	if err != nil {
		return nil, err
	}
	n := float64(o.Threads)
	disk, server, worker := float64(far.disk)/n, float64(far.server)/n, float64(far.worker)/n
	ready := max(time.Duration(float64(5*time.Second)*n/1e6), time.Second)
	again := compareRow("  list 10 children, again", far.again, near.again)
	again.Goal, again.Met = "≤ 2 times that of a small store", again.Ratio <= 2
	return []Row{
		{Name: fmt.Sprintf("%d idle threads: spawn rate", o.Threads), Value: far.rate, Unit: "/s"},
		{Name: "  server memory", Value: server, Unit: "bytes each", Goal: "≤ 1 KB", Met: server <= 1024},
		{Name: "  server memory, resident", Value: float64(far.resident) / n, Unit: "bytes each"},
		{Name: "  worker memory", Value: worker, Unit: "bytes each", Goal: "0 (≤ 8, and 1 MB)", Met: far.worker <= int64(8*o.Threads)+1<<20},
		{Name: "  disk", Value: disk, Unit: "bytes each", Goal: "≤ 2 KB", Met: disk <= 2048},
		readyRow("  kill -9 to ready", far.ready, ready),
		{Name: "  kill -9 to ready, processor time", Value: milliseconds(far.processor), Unit: "ms"},
		{Name: "  kill -9 to the next completed child", Value: milliseconds(far.next), Unit: "ms"},
		readyRow("  stopped to ready", far.restarted, ready),
		compareRow("  list 10 children, for the first time", far.listing, near.listing),
		again,
		compareRow("  wake a thread up, to its completion", far.waking, near.waking),
	}, nil
}

// compareRow compares with a small store, which is given as the ceiling.
func compareRow(name string, far, near time.Duration) Row {
	return Row{Name: name, Value: milliseconds(far), Unit: "ms", Ceiling: milliseconds(near), Ratio: float64(far) / float64(near)}
}

func readyRow(name string, took, goal time.Duration) Row {
	return Row{Name: name, Value: milliseconds(took), Unit: "ms", Goal: fmt.Sprintf("≤ %d ms", goal.Milliseconds()), Met: took <= goal}
}

// An idleness is what a store of idle threads costs.
type idleness struct {
	rate                     float64
	server, resident, worker int64 // memory, over that of an empty store
	disk                     int64
	ready, next, restarted   time.Duration
	processor                time.Duration // that the restart after the kill took
	listing, again, waking   time.Duration // medians
}

func inStore(ctx context.Context, o Options, n int) (i idleness, err error) {
	err = inTemp(o, func(dir string) error {
		if err := i.fill(ctx, o, dir, n); err != nil {
			return err
		}
		if i.disk, err = size(dir); err != nil {
			return err
		}
		return i.restart(ctx, o, dir, n)
	})
	return i, err
}

// fill spawns n threads, through a host and a server in processes of their own, measures both, and kills both.
func (i *idleness) fill(ctx context.Context, o Options, dir string, n int) (err error) {
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	server, err := partServer(ctx, o, dir, listen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.kill()) }()
	host, err := partHost(ctx, o, listen, server.said) // as whom a "troupe up" restarts
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.kill()) }()
	p := &product{}
	if p.names, err = subjects.New(""); err != nil {
		return err
	}
	if err := p.answers(ctx, "nats://"+listen); err != nil {
		return err
	}
	defer p.asks.Close()
	serverBefore, hostBefore, err := memories(ctx, server, host)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := p.broods(ctx, o, n); err != nil {
		return err
	}
	i.rate = float64(n) / time.Since(started).Seconds()
	await := memories
	if n >= settleFrom {
		o.Progress("waiting until caches have been given up")
		await = settledParts
	}
	serverAfter, hostAfter, err := await(ctx, server, host)
	i.server, i.resident = serverAfter.Heap-serverBefore.Heap, serverAfter.Resident-serverBefore.Resident
	i.worker = max(0, hostAfter.Heap-hostBefore.Heap)
	return err
}

func memories(ctx context.Context, server, host *child) (s, h memory, err error) {
	if s, err = server.memory(ctx); err != nil {
		return s, h, err
	}
	h, err = host.memory(ctx)
	return s, h, err
}

// settledParts waits until caches have been given up, and gives what is held then.
func settledParts(ctx context.Context, server, host *child) (s, h memory, err error) {
	if s, h, err = memories(ctx, server, host); err != nil {
		return s, h, err
	}
	for quiet := 0; quiet < 6; quiet++ {
		select {
		case <-ctx.Done():
			return s, h, ctx.Err()
		case <-time.After(2 * time.Second):
		}
		last := s.Heap + h.Heap
		if s, h, err = memories(ctx, server, host); err != nil {
			return s, h, err
		}
		if now := s.Heap + h.Heap; now < last-last/100 {
			quiet = 0
		}
	}
	return s, h, nil
}

// broods spawns n threads, brood of them under each parent.
func (p *product) broods(ctx context.Context, o Options, n int) error {
	var made atomic.Int64
	return parallel(n, o.Window, func(i int) error {
		if err := p.spawnUnder(ctx, broodOf(i/brood)); err != nil {
			return err
		}
		if m := made.Add(1); m%100_000 == 0 {
			o.Progress(fmt.Sprintf("spawned %d of %d", m, n))
		}
		return ctx.Err()
	})
}

// broodOf names a parent.
func broodOf(n int) actor.ID { return actor.ID(fmt.Sprintf("brood-%d", n)) }

// spawnUnder spawns a thread, and asks again under the same key when there was no answer: machines are shared.
func (p *product) spawnUnder(ctx context.Context, agent actor.ID) (err error) {
	key := p.key()
	for range 5 {
		_, err = p.askAs(ctx, agent, &a2e.SpawnReq{Envelope: key, Agent: config})
		if k := actor.KindOf(err); k != actor.Unavailable && k != actor.Timeout {
			return err
		}
	}
	return err
}

// restart starts a "troupe up" on the store, whose processes were killed, and then once more after it was stopped.
func (i *idleness) restart(ctx context.Context, o Options, dir string, n int) error {
	o.Progress(fmt.Sprintf("restarting on %d threads", n))
	started := time.Now()
	u, err := up(ctx, o, dir)
	if err != nil {
		return err
	}
	i.ready, i.processor = time.Since(started), u.child.cpuSoFar()
	if _, err := u.lives(ctx, 1, 1); err != nil {
		return firstOf(err, u.kill())
	}
	i.next = time.Since(started)
	if i.listing, i.again, err = u.listBroods(ctx, n/brood); err == nil {
		i.waking, err = u.wake(ctx, n/brood)
	}
	u.leave()
	if err = errors.Join(err, u.child.interrupt()); err != nil {
		return err
	}
	started = time.Now()
	if u, err = up(ctx, o, dir); err != nil {
		return err
	}
	i.restarted = time.Since(started)
	return u.kill()
}

// sampled gives parents out of all, spread over the store.
func sampled(parents int) []actor.ID {
	ids := make([]actor.ID, min(samples, parents))
	for i := range ids {
		ids[i] = broodOf(i * parents / len(ids))
	}
	return ids
}

// listBroods lists the children of some parents, each twice, and gives the median times of the first list and the
// second. The first has the server read the blocks from the disk that the entries stand in, in a large store a block for
// each parent.
func (p *product) listBroods(ctx context.Context, parents int) (first, again time.Duration, err error) {
	var times [2][]time.Duration
	for _, parent := range sampled(parents) {
		for i := range times {
			started := time.Now()
			children, err := p.list(ctx, parent)
			if err != nil {
				return 0, 0, err
			}
			times[i] = append(times[i], time.Since(started))
			if len(children) != brood {
				return 0, 0, fmt.Errorf("%s has %d children in its list, not %d", parent, len(children), brood)
			}
		}
	}
	return median(times[0]), median(times[1]), nil
}

func (p *product) list(ctx context.Context, agent actor.ID) ([]a2e.SubagentInfo, error) {
	msg, err := p.askAs(ctx, agent, &a2e.ListReq{})
	if err != nil {
		return nil, err
	}
	return msg.(*a2e.ListResp).Subagents, nil
}

// wake gives a task to the last child of some parents, awaits it, and gives the median time of one.
func (p *product) wake(ctx context.Context, parents int) (time.Duration, error) {
	var times []time.Duration
	for _, parent := range sampled(parents) {
		children, err := p.list(ctx, parent)
		if err != nil {
			return 0, err
		}
		id := children[len(children)-1].SubagentID
		started := time.Now()
		if _, err := p.askAs(ctx, parent, &a2e.DelegateReq{Envelope: p.key(), SubagentID: id, Task: task}); err != nil {
			return 0, err
		}
		msg, err := p.askAs(ctx, parent, &a2e.AwaitReq{SubagentID: id, TimeoutSeconds: 4})
		if err != nil {
			return 0, err
		}
		times = append(times, time.Since(started))
		if resp, ok := msg.(*a2e.AwaitResp); !ok || resp.Status != a2e.Completed {
			return 0, fmt.Errorf("%s was woken up and did not complete: %+v", id, msg)
		}
	}
	return median(times), nil
}
