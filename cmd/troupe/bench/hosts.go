package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
)

// The most that may be asked for.
const (
	MaxHosts   = 32
	MaxThreads = 1_000_000
)

// A fleet is a NATS server and hosts at it, each in a process of its own, and a client in this one.
type fleet struct {
	o      Options
	url    string
	server *child
	hosts  map[string]*child // by member
	next   int
	conn   *bus.Conn
	names  subjects.Names
	client *client.Client
}

// newFleet starts a server on dir and n hosts, and returns once each owns its share of the partitions. The caller
// closes it, also after an error.
func newFleet(ctx context.Context, o Options, dir string, n int) (f *fleet, err error) {
	f = &fleet{o: o, hosts: map[string]*child{}}
	listen, err := freeAddress()
	if err != nil {
		return f, err
	}
	f.url = "nats://" + listen
	if f.server, err = partServer(ctx, o, dir, listen); err != nil {
		return f, err
	}
	if f.names, err = subjects.New(""); err != nil {
		return f, err
	}
	if f.conn, err = bus.Connect(ctx, bus.Config{URL: f.url}); err != nil {
		return f, err
	}
	if f.client, err = client.New(client.Config{Conn: f.conn, Names: f.names, Agent: parent}); err != nil {
		return f, err
	}
	for range n {
		if err := f.join(ctx); err != nil {
			return f, err
		}
	}
	return f, f.balanced(ctx)
}

// join starts one more host.
func (f *fleet) join(ctx context.Context) error {
	f.next++
	name := fmt.Sprintf("host-%d", f.next)
	host, err := upChild(ctx, f.o, "--nats", f.url, "--member", name)
	if err == nil {
		f.hosts[name] = host
	}
	return err
}

// owners gives the owner of each partition that a running host owns.
func (f *fleet) owners(ctx context.Context) (map[int]string, error) {
	partitions, err := f.client.Partitions(ctx)
	owners := map[int]string{}
	for _, p := range partitions {
		if f.hosts[p.Owner] != nil {
			owners[p.Partition] = p.Owner
		}
	}
	return owners, err
}

// balanced returns once every partition is owned, and every host owns its share or one less.
func (f *fleet) balanced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		owners, err := f.owners(ctx)
		if err == nil && len(owners) == f.o.Partitions && f.even(owners) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the partitions are not shared: %v", owners), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (f *fleet) even(owners map[int]string) bool {
	owns := map[string]int{}
	for _, owner := range owners {
		owns[owner]++
	}
	return len(owns) == len(f.hosts) && slices.Max(slices.Collect(maps.Values(owns))) <= (f.o.Partitions+len(f.hosts)-1)/len(f.hosts)
}

func (f *fleet) close() error {
	var errs []error
	if f.conn != nil {
		f.conn.Close()
	}
	for _, h := range f.hosts {
		errs = append(errs, h.kill())
	}
	if f.server != nil {
		errs = append(errs, f.server.kill())
	}
	return errors.Join(errs...)
}

// A pull is what hosts at one server get done, and what each child takes of the processors.
type pull struct {
	rate          float64
	server, hosts time.Duration
}

// hosts measures the throughput of 1 to o.Hosts hosts at one server, each number on a store of its own.
func hosts(ctx context.Context, o Options) (rows []Row, err error) {
	o.Partitions = max(o.Partitions, o.Hosts)
	var one float64
	for _, n := range steps(o.Hosts) {
		o.Progress(fmt.Sprintf("%d of %d hosts", n, o.Hosts))
		p, err := pulled(ctx, o, n)
		if err != nil {
			return rows, err
		}
		if n == 1 {
			one = p.rate
		}
		rows = append(rows,
			Row{Name: fmt.Sprintf("spawn + delegate + complete + parent has it, hosts: %d", n), Value: p.rate, Unit: "/s", Ceiling: one, Ratio: p.rate / one},
			Row{Name: "  of the processors: the server", Value: float64(p.server.Microseconds()), Unit: "µs a child"},
			Row{Name: "  of the processors: the hosts", Value: float64(p.hosts.Microseconds()), Unit: "µs a child"})
	}
	return rows, nil
}

// steps are the numbers of hosts that are tried: each up to 4, then every second power of two, and the last.
func steps(most int) []int {
	var all []int
	for n := 1; n < most; n++ {
		if n <= 4 || n&(n-1) == 0 {
			all = append(all, n)
		}
	}
	return append(all, most)
}

func pulled(ctx context.Context, o Options, n int) (p pull, err error) {
	err = inTemp(o, func(dir string) error {
		f, err := newFleet(ctx, o, dir, n)
		if err == nil {
			p.rate, err = f.pull(ctx)
		}
		all := time.Duration(warmUp(o) + o.Children)
		if err = errors.Join(err, f.close()); err != nil {
			return err
		}
		p.server = f.server.cpu() / all
		for _, h := range f.hosts {
			p.hosts += h.cpu() / all
		}
		return nil
	})
	return p, err
}

// warmUp is how many children go before those whose time counts.
func warmUp(o Options) int { return max(o.Children/10, 1) }

// pull measures the rate of children, and sees to it that none is lost and none comes twice.
func (f *fleet) pull(ctx context.Context) (rate float64, err error) {
	l, err := newLoad(ctx, f.conn, f.names, config)
	if err != nil {
		return 0, err
	}
	defer l.close()
	if err := l.run(ctx, warmUp(f.o), f.o.Window); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := l.run(ctx, f.o.Children, f.o.Window); err != nil {
		return 0, err
	}
	rate = float64(f.o.Children) / time.Since(started).Seconds()
	t, err := l.tally(ctx)
	if err == nil && (t.lost > 0 || t.twice > 0) {
		err = fmt.Errorf("with %d hosts %d children were lost and %d came twice", len(f.hosts), t.lost, t.twice)
	}
	return rate, err
}
