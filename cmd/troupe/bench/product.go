package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
)

// parent is the agent that the bench asks as.
const parent actor.ID = "bench"

// A product is Troupe in this process.
type product struct {
	server *bus.Server
	conn   *bus.Conn
	asks   *bus.Conn // the parent's own connection, as a client has it
	names  subjects.Names
	host   *host.Host
	stop   func() error
	mail   chan actor.ID
}

// open starts Troupe on a store.
func open(ctx context.Context, dir string, partitions int) (p *product, err error) {
	p = &product{mail: make(chan actor.ID, 1<<20)}
	if p.server, err = bus.StartServer(bus.ServerConfig{Store: dir}); err != nil {
		return nil, err
	}
	if p.conn, err = bus.Connect(ctx, bus.Config{Server: p.server}); err != nil {
		return nil, err
	}
	if p.asks, err = bus.Connect(ctx, bus.Config{Server: p.server}); err != nil {
		return nil, err
	}
	if p.names, err = subjects.New(""); err != nil {
		return nil, err
	}
	if p.host, err = newHost(ctx, p.conn, partitions, p.server.Member()); err != nil {
		return nil, err
	}
	halt, err := serve(p.host)
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(context.Background())
	p.stop = func() error {
		cancel()
		err := halt()
		p.asks.Close()
		p.conn.Close()
		return firstOf(err, p.server.Close())
	}
	go func() {
		_ = p.asks.ReadMail(serving, p.names, parent, 0, func(m bus.Mail) { // ends with the context
			p.mail <- m.From
		})
	}()
	return p, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ask makes one request and reads its answer.
func (p *product) ask(ctx context.Context, req a2e.Request) (a2e.Message, error) {
	return p.askAs(ctx, parent, req)
}

func (p *product) askAs(ctx context.Context, agent actor.ID, req a2e.Request) (a2e.Message, error) {
	data, err := a2e.Encode(req)
	if err != nil {
		return nil, err
	}
	if data, err = p.asks.Request(ctx, p.names.A2E(agent), data); err != nil {
		return nil, err
	}
	msg, err := a2e.DecodeAnswer(data)
	if e, ok := msg.(*a2e.Error); ok {
		return nil, e.Err()
	}
	return msg, err
}

// started makes the keys of this run its own.
var (
	started = time.Now().UnixNano()
	keys    atomic.Int64
)

// key is an idempotency key, as a client library makes one for each logical request.
func (p *product) key() a2e.Envelope {
	return a2e.Envelope{ID: fmt.Sprintf("%x-%d", started, keys.Add(1))}
}

var task = a2e.TaskDefinition{
	Name: "task", Instruction: string(payload), SuccessCriteria: []string{}, Metadata: map[string]json.RawMessage{},
}

var config = a2e.SubagentConfig{Name: "worker", Model: "builtin/echo"}.WithDefaults()

func (p *product) spawn(ctx context.Context) (actor.ID, error) {
	msg, err := p.ask(ctx, &a2e.SpawnReq{Envelope: p.key(), Agent: config})
	if err != nil {
		return "", err
	}
	return msg.(*a2e.SpawnResp).SubagentID, nil
}

func (p *product) delegate(ctx context.Context, id actor.ID) error {
	msg, err := p.ask(ctx, &a2e.DelegateReq{Envelope: p.key(), SubagentID: id, Task: task})
	if err != nil {
		return err
	}
	if !msg.(*a2e.DelegateResp).Accepted {
		return fmt.Errorf("%s did not take the task", id)
	}
	return nil
}

// spawnAll spawns n children and gives their ids.
func (p *product) spawnAll(ctx context.Context, n, window int) ([]actor.ID, error) {
	ids := make([]actor.ID, n)
	return ids, parallel(n, window, func(i int) (err error) {
		ids[i], err = p.spawn(ctx)
		return err
	})
}

// cycles gives each child a task and waits until the parent has every completion.
func (p *product) cycles(ctx context.Context, ids []actor.ID, window int) (float64, error) {
	return p.timed(ctx, len(ids), window, func(i int) error { return p.delegate(ctx, ids[i]) })
}

// lives spawns n children, gives each a task and waits until the parent has every completion.
func (p *product) lives(ctx context.Context, n, window int) (float64, error) {
	return p.timed(ctx, n, window, func(int) error {
		id, err := p.spawn(ctx)
		if err != nil {
			return err
		}
		return p.delegate(ctx, id)
	})
}

// timed runs f n times, with at most window under way from the request to the completion in the parent's
// mail, and gives the rate.
func (p *product) timed(ctx context.Context, n, window int, f func(i int) error) (float64, error) {
	started := time.Now()
	room := make(chan struct{}, window)
	fault := make(chan error, 1)
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range window {
		wg.Go(func() {
			for i := range jobs {
				if err := f(i); err != nil {
					select {
					case fault <- err:
					default:
					}
				}
			}
		})
	}
	go func() {
		for i := range n {
			room <- struct{}{}
			jobs <- i
		}
		close(jobs)
	}()
	for range n {
		select {
		case <-p.mail:
			<-room
		case err := <-fault:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	rate := float64(n) / time.Since(started).Seconds()
	wg.Wait()
	return rate, nil
}

// single gives the time of each of n cycles, one at a time.
func (p *product) single(ctx context.Context, ids []actor.ID) ([]time.Duration, error) {
	times := make([]time.Duration, len(ids))
	for i, id := range ids {
		started := time.Now()
		if err := p.delegate(ctx, id); err != nil {
			return nil, err
		}
		select {
		case <-p.mail:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		times[i] = time.Since(started)
	}
	return times, nil
}

// writes counts the messages that were ever stored in the streams of the namespace.
func (p *product) writes(ctx context.Context) (total uint64, err error) {
	streams := p.conn.JS.ListStreams(ctx)
	for info := range streams.Info() {
		if strings.Contains(info.Config.Name, p.names.Namespace()) {
			total += info.State.LastSeq
		}
	}
	return total, streams.Err()
}

// parallel calls f for 0 to n-1, at most window at a time, and gives the first error.
func parallel(n, window int, f func(i int) error) error {
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		once sync.Once
		err  error
	)
	for range window {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if e := f(i); e != nil {
					once.Do(func() { err = e })
					return
				}
			}
		})
	}
	wg.Wait()
	return err
}
