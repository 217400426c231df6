package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/cmd/troupe/bench"
)

const benchLong = `Measure Troupe against the ceiling that JetStream sets, in the same run: the hops of a child
without a child, written against plain nats.go. Machines differ and are shared; ratios hold.

With --threads, --hosts, --failover or --crowd only that is measured, on processes of their own: what idle threads
cost, up to a million of them, and how soon a store full of them is ready after kill -9; how throughput
moves with more hosts at one NATS server; how soon the threads of a host that is killed under load go on
elsewhere; what a thread with very many messages queued costs its neighbours. The exit code is 1 if anything is lost or comes twice.

Everything runs on this machine, over the loopback interface and on temporary stores, and ends by
itself, in about two minutes without these flags.`

func (a *app) benchCommand() *cobra.Command {
	var o bench.Options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure it against the ceiling that JetStream sets",
		Long:  benchLong,
		Args:  takes(),
		RunE:  a.does(func(ctx context.Context, _ []string) error { return a.bench(ctx, o) }),
	}
	f := cmd.Flags()
	f.IntVar(&o.Children, "children", bench.DefaultChildren, "children of each throughput measurement")
	f.IntVar(&o.Window, "window", bench.DefaultWindow, "children under way at a time")
	f.IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "comparisons of ceiling and product; the median counts")
	f.IntVar(&o.Idle, "idle", bench.DefaultIdle, "idle threads to measure memory, disk and restart with; 0 leaves that out")
	f.IntVar(&o.Finished, "finished", bench.DefaultFinished, "finished children in the store that is killed and restarted; 0 leaves that out")
	f.IntVar(&o.Threads, "threads", 0, "measure only idle threads, this many, of many parents; up to 1000000")
	f.IntVar(&o.Hosts, "hosts", 0, "measure only throughput, with 1 to this many hosts at one NATS server")
	f.BoolVar(&o.Failover, "failover", false, "measure only how soon the threads of a killed host go on")
	f.IntVar(&o.Kills, "kills", bench.DefaultKills, "how often --failover kills a host")
	f.IntVar(&o.Crowd, "crowd", 0, "measure only the neighbours of one thread with so many messages queued")
	f.StringVar(&o.Temp, "store", "", "a `DIRECTORY` to make the temporary stores in (default: the system's); a million threads take 2 GB")
	a.printing(cmd)
	return cmd
}

// benchPartCommand is how bench runs a server or a host in a process of its own.
func (a *app) benchPartCommand() *cobra.Command {
	var p bench.Part
	cmd := &cobra.Command{
		Use:    bench.PartName,
		Hidden: true,
		Args:   takes(),
		RunE:   a.does(func(ctx context.Context, _ []string) error { return bench.ServePart(ctx, p, os.Stdin, a.stdout) }),
	}
	f := cmd.Flags()
	f.StringVar(&p.Store, "store", "", "of a server")
	f.StringVar(&p.Listen, "listen", "", "of a server")
	f.StringVar(&p.URL, "nats", "", "of a host")
	f.StringVar(&p.Member, "member", "", "of a host")
	f.IntVar(&p.Partitions, "partitions", 0, "of a host")
	return cmd
}

func (a *app) bench(ctx context.Context, o bench.Options) (err error) {
	if o.Threads < 0 || o.Threads > bench.MaxThreads || o.Hosts < 0 || o.Hosts > bench.MaxHosts || o.Kills < 1 {
		return usage(fmt.Errorf("--threads is at most %d, --hosts at most %d, --kills at least 1", bench.MaxThreads, bench.MaxHosts))
	}
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	o.Progress = func(text string) { fmt.Fprintln(a.stderr, text) }
	rows, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := a.measured(rows); err != nil {
		return err
	}
	if broken := bench.Broken(rows); len(broken) > 0 {
		return failed("not met: %s", strings.Join(broken, "; "))
	}
	return nil
}

func (a *app) measured(rows []bench.Row) error {
	if a.json() {
		return a.print(map[string]any{"version": version, "go": runtime.Version(), "cores": runtime.GOMAXPROCS(0), "rows": rows})
	}
	table := [][]string{{"WHAT", "VALUE", "", "CEILING", "RATIO", "GOAL", ""}}
	for _, r := range rows {
		ceiling := ""
		if r.Ceiling != 0 {
			ceiling = figure(r.Ceiling)
		}
		table = append(table, []string{r.Name, figure(r.Value), r.Unit, ceiling, ratio(r.Ratio), r.Goal, verdict(r)})
	}
	return a.table(table)
}

func figure(v float64) string {
	if v < 100 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func ratio(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func verdict(r bench.Row) string {
	switch {
	case r.Goal == "":
		return ""
	case r.Met:
		return "met"
	}
	return "missed"
}
