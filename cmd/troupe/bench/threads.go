package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
)

const (
	childrenEach = 10   // of each parent
	smallThreads = 1000 // of the store that a large one is compared with
	looks        = 101  // lists, and activations, of which the median counts
)

// A census is what was measured of a store with a number of idle threads.
type census struct {
	spawned         float64       // threads a second
	disk            int64         // bytes of the store
	clean, crashed  time.Duration // from the start of the process to the first answer, after a stop and after a kill
	server, worker  int64         // bytes of memory of "troupe up", and of a worker that joins it
	listing, waking time.Duration // a parent's children; a cold thread's first task
}

// threads measures what many idle threads cost, beside what few cost.
func threads(ctx context.Context, o Options) ([]Row, error) {
	few, err := count(ctx, o, min(smallThreads, o.Threads))
	if err != nil {
		return nil, err
	}
	many, err := count(ctx, o, o.Threads)
	if err != nil {
		return nil, err
	}
	n := float64(o.Threads)
	ready := max(time.Duration(float64(5*time.Second)*n/1e6), time.Second)
	each := func(more int64) float64 { return float64(max(more, 0)) / n }
	start := func(name string, d time.Duration) Row {
		return Row{Name: name, Value: milliseconds(d), Unit: "ms", Goal: fmt.Sprintf("≤ %d ms", ready.Milliseconds()), Met: d <= ready}
	}
	atMost := func(name string, bytes, limit float64, goal string) Row {
		return Row{Name: name, Value: bytes, Unit: "bytes each", Goal: goal, Met: bytes <= limit}
	}
	beside := func(name string, many, few time.Duration) Row {
		ratio := float64(many) / float64(few)
		return Row{Name: name, Value: milliseconds(many), Unit: "ms", Ceiling: milliseconds(few), Ratio: ratio, Goal: fmt.Sprintf("≤ 2 times that with %d", min(smallThreads, o.Threads)), Met: ratio <= 2}
	}
	return []Row{
		{Name: fmt.Sprintf("%d idle threads, %d below each parent: spawned", o.Threads, childrenEach), Value: many.spawned, Unit: "/s", Met: true},
		atMost("  disk", each(many.disk), 2048, "≤ 2 KB"),
		start("  start after a stop to the first answer", many.clean),
		start("  start after kill -9 to the first answer", many.crashed),
		atMost("  memory of troupe up, server and worker", each(many.server-few.server), 1024, "≤ 1 KB"),
		atMost("  memory of another worker", each(many.worker-few.worker), 16, "0, but for noise (≤ 16)"),
		beside("  list a parent's 10 children, p50", many.listing, few.listing),
		beside("  first task of a cold thread to its completion, p50", many.waking, few.waking),
	}, nil
}

// count makes a store with n idle threads and measures it.
func count(ctx context.Context, o Options, n int) (c census, err error) {
	err = inTemp(func(dir string) error {
		o.Progress(fmt.Sprintf("spawning %d threads", n))
		u, err := up(ctx, o, dir)
		if err != nil {
			return err
		}
		if c.spawned, err = u.populate(ctx, n, o.Window); err != nil {
			return errors.Join(err, u.kill())
		}
		if err := u.compacted(ctx); err != nil {
			return errors.Join(err, u.kill())
		}
		if err := u.interrupt(); err != nil {
			return err
		}
		if c.disk, err = size(dir); err != nil {
			return err
		}
		if u, c.clean, err = again(ctx, o, dir); err != nil {
			return err
		}
		if err := c.look(ctx, o, u, n); err != nil {
			return errors.Join(err, u.kill())
		}
		if err := u.kill(); err != nil {
			return err
		}
		if u, c.crashed, err = again(ctx, o, dir); err != nil {
			return err
		}
		return u.kill()
	})
	return c, err
}

// again starts a process on a store, and measures how soon it answers.
func again(ctx context.Context, o Options, dir string) (*process, time.Duration, error) {
	started := time.Now()
	u, err := up(ctx, o, dir)
	return u, time.Since(started), err
}

// look measures a process that was just started on a store with n idle threads.
func (c *census) look(ctx context.Context, o Options, u *process, n int) (err error) {
	o.Progress(fmt.Sprintf("measuring %d threads", n))
	if c.server, err = memory(u.cmd); err != nil {
		return err
	}
	if c.worker, err = u.guest(ctx, o); err != nil {
		return err
	}
	var listing, waking []time.Duration
	for range looks {
		agent := parentOf(rand.IntN(n))
		started := time.Now()
		msg, err := u.askAs(ctx, agent, &a2e.ListReq{})
		if err != nil {
			return err
		}
		listing = append(listing, time.Since(started))
		list, ok := msg.(*a2e.ListResp)
		if !ok || len(list.Subagents) == 0 {
			return fmt.Errorf("%s has no children", agent)
		}
		took, err := u.wake(ctx, agent, list.Subagents[0].SubagentID)
		if err != nil {
			return err
		}
		waking = append(waking, took)
	}
	c.listing, c.waking = median(listing), median(waking)
	return nil
}

// wake gives a thread a task and measures the time until its owner has the completion.
func (u *process) wake(ctx context.Context, agent, id actor.ID) (time.Duration, error) {
	reading, stop := context.WithCancel(ctx)
	done := make(chan struct{}, 1)
	ended := make(chan error, 1)
	from, err := u.lastMail(ctx)
	if err != nil {
		stop()
		return 0, err
	}
	go func() {
		ended <- u.asks.ReadMail(reading, u.names, agent, from, func(bus.Mail) { done <- struct{}{} })
	}()
	defer func() { stop(); <-ended }()
	started := time.Now()
	if _, err := u.askAs(ctx, agent, &a2e.DelegateReq{Envelope: u.key(), SubagentID: id, Task: task()}); err != nil {
		return 0, err
	}
	select {
	case <-done:
		return time.Since(started), nil
	case err := <-ended:
		return 0, fmt.Errorf("no completion of %s: %w", id, err)
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("no completion of %s", id)
	}
}

func parentOf(thread int) actor.ID { return actor.ID("parent_" + strconv.Itoa(thread/childrenEach)) }

// populate spawns n threads, and gives the rate.
func (u *process) populate(ctx context.Context, n, window int) (float64, error) {
	started := time.Now()
	err := parallel(n, window, func(i int) error {
		_, err := u.askAs(ctx, parentOf(i), &a2e.SpawnReq{Envelope: u.key(), Agent: config})
		return err
	})
	return float64(n) / time.Since(started).Seconds(), err
}

// compacted waits until the inbox has forgotten what is settled.
func (u *process) compacted(ctx context.Context) error {
	for range 100 {
		s, err := u.asks.JS.Stream(ctx, u.names.InboxStream())
		if err != nil {
			return err
		}
		if s.CachedInfo().State.Msgs < 5000 {
			return nil
		}
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the inbox is not compacted")
}

// guest has a worker join the process, and gives what memory it takes once it has its share.
func (u *process) guest(ctx context.Context, o Options) (bytes int64, err error) {
	cmd := exec.Command(o.Binary, "up", "--nats", u.asks.NC.ConnectedUrl(), "--member", "guest", "--max-live", strconv.Itoa(1<<30),
		"--partitions", strconv.Itoa(o.Partitions), "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ended(cmd)) }()
	c, err := client.New(client.Config{Conn: u.asks, Names: u.names, Agent: parent})
	if err != nil {
		return 0, err
	}
	for range 600 {
		all, err := c.Partitions(ctx)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(all, func(p client.Partition) bool { return p.Owner == "guest" }) {
			return memory(cmd)
		}
		if err := rest(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a worker that joined got no partitions")
}

// interrupt ends the process as an operator would.
func (u *process) interrupt() error {
	u.stop()
	u.asks.Close()
	return ended(u.cmd)
}

func ended(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return cmd.Wait()
}

// memory is the resident memory of a process, as ps tells it.
func memory(cmd *exec.Cmd) (int64, error) {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(cmd.Process.Pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ask ps for the memory of a process: %w", err)
	}
	kb, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return kb << 10, err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
