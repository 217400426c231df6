package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/cmd/troupe/bench"
)

const benchLong = `Measure Troupe against the ceiling that JetStream sets, in the same run: the hops of a child
without a child, written against plain nats.go. Machines differ and are shared; ratios hold.

Everything runs on this machine, over the loopback interface and on temporary stores, and ends by
itself, in about two minutes.`

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
		return a.print(map[string]any{"version": version, "go": runtime.Version(), "cores": runtime.GOMAXPROCS(0), "rows": rows})
	}
	table := [][]string{{"WHAT", "VALUE", "", "CEILING", "RATIO", "GOAL", ""}}
	for _, r := range rows {
		table = append(table, []string{r.Name, figure(r.Value), r.Unit, figure(r.Ceiling), ratio(r.Ratio), r.Goal, verdict(r.Met)})
	}
	return a.table(table)
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
