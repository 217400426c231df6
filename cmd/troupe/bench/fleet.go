package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
)

// A fleet is a NATS server in this process, and workers as processes of their own that are hosts at it.
type fleet struct {
	product
	o       Options
	client  *client.Client
	workers map[string]*exec.Cmd // by member
	made    int
	reading context.CancelFunc
}

// assemble starts the server, and the first workers.
func assemble(ctx context.Context, o Options, dir string, workers int) (f *fleet, err error) {
	f = &fleet{product: product{mail: make(chan actor.ID, 1<<20)}, o: o, workers: map[string]*exec.Cmd{}}
	if f.names, err = subjects.New(""); err != nil {
		return nil, err
	}
	if f.server, err = bus.StartServer(bus.ServerConfig{Store: dir, Listen: "127.0.0.1:0"}); err != nil {
		return nil, err
	}
	if f.asks, err = bus.Connect(ctx, bus.Config{Server: f.server}); err != nil {
		return nil, errors.Join(err, f.server.Close())
	}
	f.conn = f.asks
	if f.client, err = client.New(client.Config{Conn: f.asks, Names: f.names, Agent: parent}); err != nil {
		return nil, errors.Join(err, f.disband())
	}
	for range workers {
		if _, err := f.hire(); err != nil {
			return nil, errors.Join(err, f.disband())
		}
	}
	if err := f.balanced(ctx); err != nil {
		return nil, errors.Join(err, f.disband())
	}
	return f, nil
}

// hire starts one more worker.
func (f *fleet) hire() (member string, err error) {
	f.made++
	member = "worker-" + strconv.Itoa(f.made)
	cmd := exec.Command(f.o.Binary, "up", "--nats", f.server.URL(), "--member", member, "--max-live", strconv.Itoa(1<<30),
		"--partitions", strconv.Itoa(f.o.Partitions), "--log-level", "error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	f.workers[member] = cmd
	return member, nil
}

// kill ends a worker as a crash would.
func (f *fleet) kill(member string) error {
	cmd := f.workers[member]
	delete(f.workers, member)
	return killed9(cmd)
}

func killed9(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// disband ends everything.
func (f *fleet) disband() error {
	var errs []error
	for member := range f.workers {
		errs = append(errs, f.kill(member))
	}
	if f.reading != nil {
		f.reading()
	}
	f.asks.Close()
	return errors.Join(append(errs, f.server.Close())...)
}

// balanced waits until every partition has an owner that lives, and every worker has its share.
func (f *fleet) balanced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		owners, err := f.owners(ctx)
		least := f.o.Partitions / len(f.workers)
		fair := err == nil && len(owners) == len(f.workers)
		for member, owned := range owners {
			fair = fair && f.workers[member] != nil && len(owned) >= least
		}
		if fair {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the workers did not share the partitions: %v %w", owners, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// owners gives the partitions of each worker that has any. It is an error when some have no owner.
func (f *fleet) owners(ctx context.Context) (map[string][]int, error) {
	all, err := f.client.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	owners := map[string][]int{}
	for _, p := range all {
		if p.Owner == "" {
			return nil, fmt.Errorf("partition %d has no owner", p.Partition)
		}
		owners[p.Owner] = append(owners[p.Owner], p.Partition)
	}
	return owners, nil
}

// hosts measures how throughput moves with the number of workers at one NATS server.
func hosts(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(func(dir string) (err error) {
		f, err := assemble(ctx, o, dir, 1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.disband()) }()
		f.listen()
		var one float64
		for n := 1; ; n++ {
			if _, err := f.lives(ctx, o.Window, o.Window); err != nil { // everybody is awake
				return err
			}
			rate, err := f.lives(ctx, o.Children, o.Window)
			if err != nil {
				return err
			}
			if n == 1 {
				one = rate
			}
			rows = append(rows, Row{
				Name: fmt.Sprintf("spawn + delegate + complete + parent has it, %d workers", n), Value: rate, Unit: "/s",
				Ceiling: one, Ratio: rate / one, Met: true,
			})
			if n == o.Hosts {
				return nil
			}
			o.Progress(fmt.Sprintf("measuring %d workers", n+1))
			if _, err := f.hire(); err != nil {
				return err
			}
			if err := f.balanced(ctx); err != nil {
				return err
			}
		}
	})
	return rows, err
}

// listen reads the mail.
func (f *fleet) listen() {
	ctx, stop := context.WithCancel(context.Background())
	f.reading = stop
	go func() {
		_ = f.asks.ReadMail(ctx, f.names, parent, 0, func(m bus.Mail) { f.mail <- m.From }) // ends with the context
	}()
}

// task is a small one.
func task() a2e.TaskDefinition { return a2e.TaskDefinition{Name: "task", Instruction: string(payload)} }
