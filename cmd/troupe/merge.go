package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/client"
)

const strategyHelp = "hierarchical_summary, voting, custom or custom:NAME"

func (a *app) mergeCommand() *cobra.Command {
	strategy := string(a2e.HierarchicalSummary)
	cmd := &cobra.Command{
		Use:     "merge ID…",
		Short:   "Combine the results of subagents",
		Long:    "Combine the results of the subagents that completed. The others are skipped, and listed in the JSON.",
		Example: "  troupe merge sub_1f0c22aa sub_9b3d1e02 --strategy voting -o json",
		Args:    takes("ID…"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			if !a2e.Strategy(strategy).Valid() {
				return usage(errors.New("--strategy is " + strategyHelp))
			}
			merged, err := c.Merge(ctx, a2e.Strategy(strategy), ids(args)...)
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(&a2e.MergeResp{MergedResult: merged})
			}
			return a.result(merged)
		})),
	}
	cmd.Flags().StringVar(&strategy, "strategy", strategy, strategyHelp)
	return a.asking(cmd, 0)
}
