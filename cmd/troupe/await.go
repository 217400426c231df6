package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

func (a *app) awaitCommand() *cobra.Command {
	mode := choice{string(a2e.ModeAll), []string{"any", "all", "quorum"}}
	quorum := 0
	cmd := &cobra.Command{
		Use:   "await ID…",
		Short: "Wait for results, and print them",
		Long: `Wait until subagents are done, and print what they found. One that never had a task is
READY, which is an answer. Exit code 1 says that one failed or was stopped; of several, that
fewer completed than were asked for.`,
		Example: "  troupe await sub_1f0c22aa\n  troupe await sub_1f0c22aa sub_9b3d1e02 sub_40f7c6d8 --mode quorum --quorum 2 --timeout 1m",
		Args:    takes("ID…"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			if quorum != 0 && mode.value != "quorum" {
				return usage(errors.New("--quorum is for --mode quorum"))
			}
			if len(args) == 1 && mode.value != "quorum" {
				return a.awaited(c.Await(ctx, actor.ID(args[0])))
			}
			resp, err := c.Gather(ctx, a2e.Mode(mode.value), quorum, ids(args)...)
			if errors.Is(err, actor.SchemaViolation) {
				return usage(err)
			}
			return a.awaited(resp, err)
		})),
	}
	cmd.Flags().Var(&mode, "mode", "how many of several to wait for")
	cmd.Flags().IntVar(&quorum, "quorum", 0, "in mode quorum: how many have to complete")
	return a.asking(cmd, 0)
}

func ids(args []string) []actor.ID {
	all := make([]actor.ID, len(args))
	for i, arg := range args {
		all[i] = actor.ID(arg)
	}
	return all
}

// awaited prints an answer. A task that did not complete is an error.
func (a *app) awaited(resp *a2e.AwaitResp, err error) error {
	if err != nil {
		return err
	}
	resp.Envelope = a2e.Envelope{}
	if a.json() {
		err = a.print(resp)
	} else {
		err = a.outcome(resp)
	}
	switch {
	case err != nil:
		return err
	case resp.Status == a2e.Completed || resp.Status == a2e.Ready && resp.Results == nil:
		return nil
	case resp.Results != nil && resp.Error != "":
		return failed("%s", resp.Error)
	}
	return failed("%s", ended(resp))
}

// outcome prints an answer as text: a single result bare, several with a line above each.
func (a *app) outcome(resp *a2e.AwaitResp) error {
	if resp.Results == nil {
		if resp.Status == a2e.Completed {
			return a.result(resp.Result)
		}
		if resp.Status == a2e.Ready {
			return a.say("%s %s", resp.SubagentID, resp.Status)
		}
		return nil
	}
	for i := range resp.Results {
		r := &resp.Results[i]
		err := a.say("%s", ended(r))
		if err == nil && r.Status == a2e.Completed {
			err = a.result(r.Result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ended says how a subagent ended, in one line.
func ended(resp *a2e.AwaitResp) string {
	text := string(resp.SubagentID) + " " + string(resp.Status)
	if resp.Error != "" {
		text += ": " + resp.Error
	}
	return oneLine(text)
}
