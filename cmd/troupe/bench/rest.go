package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// idle measures what threads cost that do nothing, and how soon a store full of them is ready.
func idle(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(o, func(dir string) error {
		before := heap()
		p, err := open(ctx, dir, o.Partitions)
		if err != nil {
			return err
		}
		if _, err = p.spawnAll(ctx, o.Idle, o.Window); err != nil {
			return firstOf(err, p.stop())
		}
		used := int64(settled(ctx)) - int64(before)
		if err := p.stop(); err != nil {
			return err
		}
		disk, err := size(dir)
		if err != nil {
			return err
		}
		rows, err = reopen(ctx, o, dir)
		n := float64(o.Idle)
		rows = append([]Row{
			{Name: fmt.Sprintf("%d idle threads: server and worker memory", o.Idle), Value: float64(used) / n, Unit: "bytes each", Goal: "≤ 1 KB", Met: float64(used)/n <= 1024},
			{Name: "  disk", Value: float64(disk) / n, Unit: "bytes each", Goal: "≤ 2 KB", Met: float64(disk)/n <= 2048},
		}, rows...)
		return err
	})
	return rows, err
}

// reopen measures how soon a full store is ready, and one list of a small tree in it.
func reopen(ctx context.Context, o Options, dir string) ([]Row, error) {
	started := time.Now()
	p, err := open(ctx, dir, o.Partitions)
	if err != nil {
		return nil, err
	}
	if _, err := p.lives(ctx, 1, 1); err != nil {
		return nil, firstOf(err, p.stop())
	}
	took := time.Since(started)
	listing, err := p.listSmall(ctx)
	goal := max(time.Duration(float64(5*time.Second)*float64(o.Idle)/1e6), time.Second)
	return []Row{
		{Name: "  restart to the next completed child", Value: milliseconds(took), Unit: "ms", Goal: fmt.Sprintf("≤ %d ms", goal.Milliseconds()), Met: took <= goal},
		{Name: "  list another agent's 10 children", Value: milliseconds(listing), Unit: "ms", Goal: "by children, not by threads", Met: listing < 50*time.Millisecond},
	}, firstOf(err, p.stop())
}

// listSmall lists ten children of an agent that has no more, in a store that has many threads.
func (p *product) listSmall(ctx context.Context) (time.Duration, error) {
	const small actor.ID = "small"
	for range 10 {
		if _, err := p.askAs(ctx, small, &a2e.SpawnReq{Envelope: p.key(), Agent: config}); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	msg, err := p.askAs(ctx, small, &a2e.ListReq{})
	took := time.Since(started)
	if list, ok := msg.(*a2e.ListResp); err == nil && (!ok || len(list.Subagents) != 10) {
		err = fmt.Errorf("the list has not the 10 children")
	}
	return took, err
}

// settled waits until caches have been given up, and gives the heap that is left.
func settled(ctx context.Context) uint64 {
	last := heap()
	for quiet := 0; quiet < 6 && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		now := heap()
		if quiet++; now < last-last/100 {
			quiet = 0
		}
		last = now
	}
	return last
}

func size(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// killed fills the store of a process of its own with finished children, kills it with SIGKILL, and measures
// from the restart to the next completed child.
func killed(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(o, func(dir string) error {
		u, err := up(ctx, o, dir)
		if err != nil {
			return err
		}
		if _, err := u.lives(ctx, o.Finished, o.Window); err != nil {
			return firstOf(err, u.kill())
		}
		if err := u.kill(); err != nil {
			return err
		}
		started := time.Now()
		if u, err = up(ctx, o, dir); err != nil {
			return err
		}
		_, err = u.lives(ctx, 1, 1)
		took := time.Since(started)
		rows = []Row{{
			Name: fmt.Sprintf("kill -9 with %d finished children to the next completed child", o.Finished), Value: milliseconds(took), Unit: "ms", Goal: "≤ 1000 ms", Met: took <= time.Second,
		}}
		return firstOf(err, u.kill())
	})
	return rows, err
}

// A process is a "troupe up" of its own, with a client in this one.
type process struct {
	product
	child *child
	stop  context.CancelFunc
}

// up starts a "troupe up" on a store, with more arguments, and returns once it answers.
func up(ctx context.Context, o Options, dir string, args ...string) (*process, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	u := &process{product: product{mail: make(chan actor.ID, 1<<20)}}
	if u.names, err = subjects.New(""); err != nil {
		return nil, err
	}
	if u.child, err = upChild(ctx, o, append([]string{"--store", dir, "--listen", listen}, args...)...); err != nil {
		return nil, err
	}
	if err := u.connect(ctx, "nats://"+listen); err != nil {
		return nil, firstOf(err, u.kill())
	}
	return u, nil
}

// connect waits until the process answers, and begins to read the mail that comes from then on.
func (u *process) connect(ctx context.Context, url string) error {
	if err := u.answers(ctx, url); err != nil {
		return err
	}
	reading, stop := context.WithCancel(context.Background())
	u.stop = stop
	last, err := u.lastMail(ctx)
	if err != nil {
		return err
	}
	go func() {
		_ = u.asks.ReadMail(reading, u.names, parent, last, func(m bus.Mail) { u.mail <- m.From }) // ends with the context
	}()
	return nil
}

// answers connects, and returns once a host answers.
func (p *product) answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := bus.Connect(ctx, bus.Config{URL: url})
		if err == nil {
			p.asks = conn
			if _, err = p.askAs(ctx, "probe", &a2e.ListReq{}); err == nil {
				return nil
			}
			conn.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (u *process) lastMail(ctx context.Context) (uint64, error) {
	s, err := u.asks.JS.Stream(ctx, u.names.MailStream())
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq + 1, nil
}

// kill ends the process as a crash would.
func (u *process) kill() error {
	u.leave()
	return u.child.kill()
}

// leave closes the client.
func (u *process) leave() {
	if u.stop != nil {
		u.stop()
	}
	if u.asks != nil {
		u.asks.Close()
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
