package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

func (a *app) cancelCommand() *cobra.Command {
	return a.stopCommand((*client.Client).Cancel, &cobra.Command{
		Use:   "cancel ID",
		Short: "Stop a subagent and everything below it",
		Long: `Stop a subagent's task and those of everything below it. They can be given new ones. The id may
be the agent's own: then everything that it has is stopped.`,
	})
}

func (a *app) terminateCommand() *cobra.Command {
	detach := false
	cmd := a.stopCommand(func(c *client.Client, ctx context.Context, id actor.ID) (*a2e.Event, error) {
		if detach {
			return c.Detach(ctx, id)
		}
		return c.Terminate(ctx, id)
	}, &cobra.Command{
		Use:   "terminate ID",
		Short: "End a subagent and everything below it, for good",
	})
	cmd.Flags().BoolVar(&detach, "detach", false, "end it alone: what is below it lives on")
	return cmd
}

func (a *app) stopCommand(stop func(*client.Client, context.Context, actor.ID) (*a2e.Event, error), cmd *cobra.Command) *cobra.Command {
	cmd.Args = takes("ID")
	cmd.RunE = a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
		event, err := stop(c, ctx, actor.ID(args[0]))
		if err != nil {
			return err
		}
		event.Envelope = a2e.Envelope{}
		if a.json() {
			return a.print(event)
		}
		var is struct {
			Status  a2e.Status `json:"status"`
			Changed bool       `json:"changed"`
		}
		if err := json.Unmarshal(event.Content, &is); err != nil {
			return err
		}
		if !is.Changed {
			return a.say("%s is %s already", event.SubagentID, is.Status)
		}
		return a.say("%s %s", event.SubagentID, is.Status)
	}))
	return a.asking(cmd, requestTimeout)
}
