package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/cmd/troupe/bench"
)

const benchLong = `Measure Troupe against the ceiling that JetStream sets, in the same run: the hops of a child
without a child, written against plain nats.go. Machines differ and are shared; ratios hold.

With --threads, --hosts or --failover only that is measured. A task that is lost or done twice under
--failover makes the exit code 1.

Everything runs on this machine, over the loopback interface and on temporary stores, and ends by
itself, in about two minutes; a million threads take ten minutes and 3 GB of disk.`

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
	f.IntVar(&o.Threads, "threads", 0, "measure only what so many idle threads cost, up to 1,000,000 and more")
	f.IntVar(&o.Hosts, "hosts", 0, "measure only how throughput moves from 1 to so many workers at one NATS server")
	f.BoolVar(&o.Failover, "failover", false, "measure only how soon the threads of a worker that is killed move on, and that nothing is lost or done twice")
	f.IntVar(&o.Kills, "kills", bench.DefaultKills, "how often --failover kills a worker")
	cmd.MarkFlagsMutuallyExclusive("threads", "hosts", "failover")
	a.printing(cmd)
	return cmd
}

func (a *app) bench(ctx context.Context, o bench.Options) (err error) {
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	o.Progress = func(text string) { fmt.Fprintln(a.stderr, text) }
	rows, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	if a.json() {
		err := a.print(map[string]any{"version": version, "go": runtime.Version(), "cores": runtime.GOMAXPROCS(0), "rows": rows})
		return errors.Join(err, broken(rows))
	}
	table := [][]string{{"WHAT", "VALUE", "", "CEILING", "RATIO", "GOAL", ""}}
	for _, r := range rows {
		table = append(table, []string{r.Name, figure(r.Value), r.Unit, figure(r.Ceiling), ratio(r.Ratio), r.Goal, verdict(r.Met)})
	}
	return errors.Join(a.table(table), broken(rows))
}

// broken is an error when something was lost or done twice, which no machine's speed excuses.
func broken(rows []bench.Row) error {
	for _, r := range rows {
		if r.Never && r.Value > 0 {
			return fmt.Errorf("%s: %g", strings.TrimSpace(r.Name), r.Value)
		}
	}
	return nil
}

func figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 100:
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

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
