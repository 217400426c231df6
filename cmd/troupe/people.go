package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

// A waiting is a request to a person.
type waiting struct {
	agent.Awaiting
	SubagentID actor.ID `json:"subagent_id"`
	Name       string   `json:"name"`
}

// waitingFor lists what waits for a person in the client's tree.
func waitingFor(ctx context.Context, c *client.Client) ([]waiting, error) {
	entries, err := c.Entries(ctx, "")
	if err != nil {
		return nil, err
	}
	all := []waiting{}
	for _, e := range entries {
		if e.Awaiting != nil {
			all = append(all, waiting{*e.Awaiting, e.SubagentID, e.Name})
		}
	}
	return all, nil
}

func (a *app) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inbox",
		Short:   "List what waits for a person",
		Long:    "List what waits for a person in the agent's tree: who asks, what, and since when. Answer with \"troupe answer\".",
		Example: "  troupe inbox\n  troupe answer sub_1f0c22aa.1 \"yes, go on\"",
		Args:    takes(),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := waitingFor(ctx, c)
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(map[string]any{"requests": all})
			}
			rows := [][]string{{"REQUEST", "FROM", "SINCE", "QUESTION"}}
			for _, w := range all {
				since := time.Since(time.UnixMicro(w.Since)).Round(time.Second)
				rows = append(rows, []string{w.Request, clean(w.Name), since.String(), clean(w.Question)})
			}
			return a.table(rows)
		})),
	}
	return a.asking(cmd, requestTimeout)
}

func (a *app) answerCommand() *cobra.Command {
	var isJSON bool
	cmd := &cobra.Command{
		Use:     "answer REQUEST CONTENT",
		Short:   "Answer what a person was asked",
		Long:    "Answer what a person was asked. It resumes the thread that asked, and no other; a request that was answered or withdrawn meanwhile is refused: exit code 1.",
		Example: "  troupe answer sub_1f0c22aa.1 \"yes, go on\"",
		Args:    takes("REQUEST", "CONTENT"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			data, err := content(args[1], isJSON)
			if err != nil {
				return err
			}
			if err := c.Answer(ctx, args[0], data); err != nil {
				return err
			}
			if a.json() {
				return a.print(map[string]any{"request": args[0], "answered": true})
			}
			return a.say("%s is answered", args[0])
		})),
	}
	cmd.Flags().BoolVar(&isJSON, "json", false, "CONTENT is JSON, not text")
	return a.asking(cmd, requestTimeout)
}

// pairs reads KEY=VALUE pairs.
func pairs(flag string, all []string) (map[string]string, error) {
	values := map[string]string{}
	for _, pair := range all {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usage(fmt.Errorf("--%s wants KEY=VALUE", flag)) // never with the value, which may be secret
		}
		values[key] = value
	}
	return values, nil
}
