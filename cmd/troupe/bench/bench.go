package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

// The defaults of Options.
const (
	DefaultChildren = 10_000
	DefaultWindow   = 256
	DefaultRounds   = 3
	DefaultIdle     = 50_000
	DefaultFinished = 50_000
	DefaultKills    = 20
)

// Options say how much is measured.
type Options struct {
	Children   int // of each throughput measurement
	Window     int // children under way at a time
	Rounds     int // ceiling, product, ceiling, …: the median ratio counts
	Partitions int
	Idle       int    // idle threads, for memory, disk and restart; 0 leaves that out
	Finished   int    // finished children in the store that is killed; 0 leaves that out
	Threads    int    // idle threads of many parents, in processes of their own; only this is measured
	Hosts      int    // hosts at one NATS server, 1 to this many; only this is measured
	Failover   bool   // kills of hosts under load; only this is measured
	Kills      int    // of those
	Crowd      int    // messages to one thread: its neighbours are measured, and nothing else
	Binary     string // the troupe binary, which is run and killed
	Temp       string // the directory in which stores are made for a time; empty is the system's
	Progress   func(string)
}

// A Row is one measurement. Ratio is to the ceiling of the same run, where there is one.
type Row struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Ceiling float64 `json:"ceiling,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Goal    string  `json:"goal,omitempty"`
	Met     bool    `json:"met"` // meaningful with a goal
	Must    bool    `json:"-"`   // a bench whose row does not meet its goal has failed
}

// Broken names the goals that were missed and have to be met on any machine.
func Broken(rows []Row) (names []string) {
	for _, r := range rows {
		if r.Must && !r.Met {
			names = append(names, r.Name)
		}
	}
	return names
}

// A part is something that is measured by itself.
type part struct {
	what string
	run  func(context.Context, Options) ([]Row, error)
	skip bool
}

// Run measures everything and gives the rows in the order in which they are printed.
func Run(ctx context.Context, o Options) (rows []Row, err error) {
	o = o.defaults()
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	for _, part := range o.parts() {
		if part.skip {
			continue
		}
		o.Progress("measuring " + part.what)
		more, err := part.run(ctx, o)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", part.what, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// parts are what is measured: what is asked for by name, or else everything that fits on one machine in minutes.
func (o Options) parts() []part {
	if o.Threads > 0 || o.Hosts > 0 || o.Failover || o.Crowd > 0 {
		return []part{
			{fmt.Sprintf("%d idle threads of many parents", o.Threads), threads, o.Threads == 0},
			{"more hosts at one server", hosts, o.Hosts == 0},
			{"kill -9 of hosts under load", failover, !o.Failover},
			{"the neighbours of a crowded thread", crowd, o.Crowd == 0},
		}
	}
	return []part{
		{"an empty store to the first completed child", first, false},
		{"idle threads", idle, o.Idle == 0},
		{"throughput and latency", throughput, false},
		{"kill -9 and restart", killed, o.Finished == 0 || o.Binary == ""},
	}
}

// gcPercent is what troupe runs with unless GOGC says otherwise.
const gcPercent = 400

func (o Options) defaults() Options {
	for _, d := range []struct {
		field *int
		value int
	}{{&o.Children, DefaultChildren}, {&o.Window, DefaultWindow}, {&o.Rounds, DefaultRounds}, {&o.Partitions, 8}, {&o.Kills, DefaultKills}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// inTemp runs f on a temporary directory.
func inTemp(o Options, f func(dir string) error) error {
	dir, err := os.MkdirTemp(o.Temp, "troupe-bench-")
	if err != nil {
		return err
	}
	return firstOf(f(dir), os.RemoveAll(dir))
}

// first measures from an empty store to the first completed child.
func first(ctx context.Context, o Options) (rows []Row, err error) {
	var times []time.Duration
	for range 5 {
		err := inTemp(o, func(dir string) error {
			started := time.Now()
			p, err := open(ctx, dir, o.Partitions)
			if err != nil {
				return err
			}
			_, err = p.lives(ctx, 1, 1)
			times = append(times, time.Since(started))
			return firstOf(err, p.stop())
		})
		if err != nil {
			return nil, err
		}
	}
	ms := milliseconds(median(times))
	return []Row{{Name: "empty store to first completed child", Value: ms, Unit: "ms", Goal: "≤ 150 ms", Met: ms <= 150}}, nil
}

// throughput measures ceiling and product in turns, and compares neighbours.
func throughput(ctx context.Context, o Options) (rows []Row, err error) {
	err = inTemp(o, func(dir string) error {
		p, err := open(ctx, dir, o.Partitions)
		if err != nil {
			return err
		}
		defer func() { err = firstOf(err, p.stop()) }()
		r, err := newRaw(ctx, p.conn)
		if err != nil {
			return err
		}
		defer r.close()
		rows, err = compare(ctx, o, p, r)
		return err
	})
	return rows, err
}

// A round is one comparison of the product with the ceiling before and after it.
type round struct{ before, rate, after float64 }

func (r round) ceiling() float64 { return (r.before + r.after) / 2 }
func (r round) ratio() float64   { return r.rate / r.ceiling() }

func compare(ctx context.Context, o Options, p *product, r *raw) ([]Row, error) {
	var (
		cycles, lives           []round
		cycleWrites, lifeWrites float64
	)
	ceiling := func() (float64, error) { return r.cycles(ctx, o.Children, o.Window) }
	for range o.Rounds {
		ids, err := p.spawnAll(ctx, o.Children, o.Window)
		if err != nil {
			return nil, err
		}
		one, writes, err := p.round(ctx, o.Children, ceiling, func() (float64, error) { return p.cycles(ctx, ids, o.Window) })
		if err != nil {
			return nil, err
		}
		cycles, cycleWrites = append(cycles, one), writes
		if one, writes, err = p.round(ctx, o.Children, ceiling, func() (float64, error) { return p.lives(ctx, o.Children, o.Window) }); err != nil {
			return nil, err
		}
		lives, lifeWrites = append(lives, one), writes
	}
	single, err := latency(ctx, p, r)
	return []Row{
		rateRow("delegate → complete → parent has it", cycles, 0.35),
		{Name: "  JetStream writes", Value: cycleWrites, Unit: "a child", Goal: "≤ 7", Met: cycleWrites <= 7.1},
		rateRow("spawn + delegate + complete + parent has it", lives, 0.2),
		{Name: "  JetStream writes", Value: lifeWrites, Unit: "a child", Goal: "≤ 11", Met: lifeWrites <= 11.1},
		single,
	}, err
}

// round measures f between two measurements of the ceiling, and counts writes a child.
func (p *product) round(ctx context.Context, n int, ceiling, f func() (float64, error)) (r round, writes float64, err error) {
	if r.before, err = ceiling(); err != nil {
		return r, 0, err
	}
	before, err := p.writes(ctx)
	if err != nil {
		return r, 0, err
	}
	if r.rate, err = f(); err != nil {
		return r, 0, err
	}
	after, err := p.writes(ctx)
	if err != nil {
		return r, 0, err
	}
	r.after, err = ceiling()
	return r, float64(after-before) / float64(n), err
}

func rateRow(name string, rounds []round, goal float64) Row {
	slices.SortFunc(rounds, func(a, b round) int {
		if a.ratio() < b.ratio() {
			return -1
		}
		return 1
	})
	m := rounds[len(rounds)/2]
	return Row{
		Name: name, Value: m.rate, Unit: "/s", Ceiling: m.ceiling(), Ratio: m.ratio(),
		Goal: fmt.Sprintf("≥ %g of the ceiling", goal), Met: m.ratio() >= goal,
	}
}

// singles is how many cycles are measured one at a time.
const singles = 300

// latency delegates to fresh children, as most delegates are.
func latency(ctx context.Context, p *product, r *raw) (Row, error) {
	ids, err := p.spawnAll(ctx, singles, singles)
	if err != nil {
		return Row{}, err
	}
	bare, err := r.single(ctx, singles)
	if err != nil {
		return Row{}, err
	}
	times, err := p.single(ctx, ids)
	if err != nil {
		return Row{}, err
	}
	own, ceiling := median(times), median(bare)
	ratio := float64(own) / float64(ceiling)
	return Row{
		Name: "delegate → parent has it, one at a time, p50", Value: milliseconds(own), Unit: "ms",
		Ceiling: milliseconds(ceiling), Ratio: ratio, Goal: "≤ 5 times the ceiling's", Met: ratio <= 5,
	}, nil
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
