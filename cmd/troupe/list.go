package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

func (a *app) lsCommand() *cobra.Command {
	var (
		statuses []string
		parent   string
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the agent's subagents",
		Example: "  troupe ls --status running --status waiting\n  troupe ls --agent planner -o json",
		Args:    takes(),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, _ []string) error {
			r := client.ListRequest{Parent: actor.ID(parent)}
			for _, s := range statuses {
				status := a2e.Status(strings.ToUpper(s))
				if !status.Valid() {
					return usage(fmt.Errorf("--status %s: it is READY, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED or TERMINATED", s))
				}
				r.Status = append(r.Status, status)
			}
			all, err := c.List(ctx, r)
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(&a2e.ListResp{Subagents: all})
			}
			name := clean
			if terminal(a.stdout) {
				name = func(s string) string { return clip(clean(s), maxNameColumns) }
			}
			rows := [][]string{{"ID", "STATUS", "NAME", "PARENT", "DEPTH", "MODEL"}}
			for _, s := range all {
				rows = append(rows, []string{string(s.SubagentID), string(s.Status), name(s.Name), clean(string(s.ParentAgentID)), fmt.Sprint(s.Depth), clean(s.Config.Model)})
			}
			return a.table(rows)
		})),
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only those with this status; may be repeated")
	cmd.Flags().StringVar(&parent, "parent", "", "only the children of this one")
	return a.asking(cmd, requestTimeout)
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show all about a subagent, and its last result",
		Example: "  troupe show sub_1f0c22aa -o json | jq .last.result",
		Args:    takes("ID"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			e, below, err := entry(ctx, c, actor.ID(args[0]))
			if err != nil {
				return err
			}
			var last *a2e.AwaitResp
			if e.Status != agent.StatusRunning && e.Status != agent.StatusAwaitingHuman && e.Session > 0 {
				if last, err = c.Await(ctx, e.SubagentID); err != nil {
					return err
				}
				last.Envelope = a2e.Envelope{}
			}
			if a.json() {
				return a.print(struct {
					Entry agent.Entry    `json:"entry"`
					Used  agent.Usage    `json:"usedWithBelow"`
					Last  *a2e.AwaitResp `json:"last"`
				}{e, below, last})
			}
			return a.showText(&e, below, last)
		})),
	}
	return a.asking(cmd, requestTimeout)
}

// entry finds a subagent in the agent's tree, and adds up what it and all below it used.
func entry(ctx context.Context, c *client.Client, id actor.ID) (agent.Entry, agent.Usage, error) {
	entries, err := c.Entries(ctx, "")
	if err != nil {
		return agent.Entry{}, agent.Usage{}, err
	}
	g := newGrove(c.Agent(), id, entries)
	if e, ok := g.entries[id]; ok {
		return e, totals(g.entries)[id], nil
	}
	return agent.Entry{}, agent.Usage{}, notFound(id, fmt.Sprintf("%s has no such subagent", c.Agent()))
}

func notFound(id actor.ID, why string) error {
	return &actor.Error{ID: id, Kind: actor.NotFound, Err: errors.New(why)}
}

func (a *app) showText(e *agent.Entry, below agent.Usage, last *a2e.AwaitResp) error {
	rows := [][]string{
		{"id", string(e.SubagentID)},
		{"name", clean(e.Name)},
		{"status", string(e.A2E())},
		{"model", clean(e.Config.Model)},
		{"parent", clean(string(e.ParentAgentID))},
		{"root", clean(string(e.RootAgentID))},
		{"depth", fmt.Sprint(e.Depth)},
		{"created", moment(e.CreatedAt)},
		{"updated", moment(e.UpdatedAt)},
		{"session", fmt.Sprint(e.Session)},
		{"step", fmt.Sprintf("%d/%d", e.Step, e.MaxSteps)},
		{"reference", e.Reference},
	}
	for _, more := range [][]string{{"role", clean(e.Config.Role)}, {"progress", clean(e.StatusText)}, {"stopped by", string(e.StopReason)}} {
		if more[1] != "" {
			rows = append(rows, more)
		}
	}
	if e.Deadline != 0 {
		rows = append(rows, []string{"deadline", comes(e.Deadline)})
	}
	if own := e.Usage; own != nil {
		rows = append(rows, []string{"used", usageRow(*own)})
	}
	if e.Usage == nil && below.Steps > 0 || e.Usage != nil && below != *e.Usage {
		rows = append(rows, []string{"with all below", usageRow(below)})
	}
	if b := e.Config.Budget; b != nil {
		rows = append(rows, []string{"budget", budgetRow(b, below)})
	}
	if last != nil && last.Error != "" {
		rows = append(rows, []string{"error", clean(last.Error)})
	}
	if err := a.table(rows); err != nil || last == nil || last.Status != a2e.Completed {
		return err
	}
	return a.showResult(last.Result)
}

func (a *app) showResult(result json.RawMessage) error {
	if err := a.say(""); err != nil {
		return err
	}
	return a.result(result)
}

// moment is a time of the registry, and how long ago it was.
func moment(us int64) string {
	at := time.UnixMicro(us)
	return at.Format(time.RFC3339) + " (" + age(time.Since(at)) + " ago)"
}
