package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
)

// parents is how many agents a load asks as: each has a tree, and trees are what partitions share.
const parents = 32

// A load keeps children of several parents under way, each with one task, through the client library, which asks
// again when a host dies. It remembers what was accepted and what came of it.
type load struct {
	config  a2e.SubagentConfig // of the children
	clients []*client.Client
	stop    context.CancelFunc // of the reading of mail
	reading sync.WaitGroup

	mu      sync.Mutex
	tasks   map[actor.ID]*life
	mails   int         // completions that came
	twice   int         // of these, for a child that had one
	spawned map[int]int // by parent
	fault   error       // the first
}

// A life is one child's.
type life struct {
	given time.Time // when its task was accepted
	ended time.Time // when its completion was stored, by the server; zero: it has not come
	over  chan struct{}
}

func newLoad(ctx context.Context, conn *bus.Conn, names subjects.Names, config a2e.SubagentConfig) (*load, error) {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &load{config: config, stop: stop, tasks: map[actor.ID]*life{}, spawned: map[int]int{}}
	for i := range parents {
		c, err := client.New(client.Config{Conn: conn, Names: names, Agent: actor.ID(fmt.Sprintf("load-%d", i)), Timeout: patience})
		if err != nil {
			stop()
			return nil, err
		}
		l.clients = append(l.clients, c)
		l.reading.Go(func() {
			if err := c.Mail(reading, 0, l.take); err != nil {
				l.fail(err)
			}
		})
	}
	return l, nil
}

func (l *load) close() {
	l.stop()
	l.reading.Wait()
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.fault = err
	}
}

// of finds the life of a child, which may have completed before its delegate was answered.
func (l *load) of(id actor.ID) *life {
	if l.tasks[id] == nil {
		l.tasks[id] = &life{over: make(chan struct{})}
	}
	return l.tasks[id]
}

// take takes a completion.
func (l *load) take(d client.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of(d.From)
	l.mails++
	if !t.ended.IsZero() {
		l.twice++
		return
	}
	t.ended = d.At
	close(t.over)
}

// run makes children one after the other in window lanes, until n were begun or ctx ends, and waits until all that
// were accepted have completed.
func (l *load) run(ctx context.Context, n, window int) error {
	_ = parallel(n, window, func(i int) error { // the fault says more
		if ctx.Err() != nil {
			return errEnough
		}
		err := l.live(context.WithoutCancel(ctx), i%parents)
		if err != nil {
			l.fail(err)
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// errEnough ends a load that is to begin no more children.
var errEnough = errors.New("enough")

// live takes one child through its life. A child whose completion does not come is not waited for for ever.
func (l *load) live(ctx context.Context, parent int) error {
	c := l.clients[parent]
	id, err := c.Spawn(ctx, client.SpawnRequest{Agent: l.config})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.spawned[parent]++
	t := l.of(id)
	l.mu.Unlock()
	resp, err := c.Delegate(ctx, id, task)
	if err != nil {
		return err
	}
	if !resp.Accepted {
		return fmt.Errorf("%s did not take its only task: %s", id, resp.Status)
	}
	l.mu.Lock()
	t.given = time.Now()
	l.mu.Unlock()
	select {
	case <-t.over:
	case <-time.After(patience): // it is counted as lost
	}
	return nil
}

// A tally is what came of a load: tasks that were accepted and have no completion, and what is there twice,
// completions and children.
type tally struct{ accepted, lost, twice int }

func (l *load) tally(ctx context.Context) (t tally, err error) {
	for parent, c := range l.clients {
		children, err := c.List(ctx, client.ListRequest{})
		if err != nil {
			return t, err
		}
		l.mu.Lock()
		t.twice += max(0, len(children)-l.spawned[parent])
		t.lost += max(0, l.spawned[parent]-len(children))
		for _, child := range children {
			if life := l.of(child.SubagentID); child.Status != a2e.Completed && !life.ended.IsZero() {
				t.lost++ // its completion came, and its entry does not know
			}
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.twice += l.twice
	for _, life := range l.tasks {
		if !life.given.IsZero() {
			t.accepted++
			if life.ended.IsZero() {
				t.lost++
			}
		}
	}
	return t, nil
}
