package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

func (a *app) sendCommand() *cobra.Command {
	var (
		m            client.Message
		from         string
		isJSON, open bool
	)
	cmd := &cobra.Command{
		Use:   "send ID CONTENT",
		Short: "Send a subagent a message",
		Long: `Send a subagent a message, which its model sees before its next step. An idle subagent keeps
it for its next task; with --open it begins to work on it at once. With --open the message is
published to the inbox itself, and stays there until a host runs.`,
		Example: "  troupe send sub_1f0c22aa \"Also look at 2025\"\n  troupe send sub_1f0c22aa '{\"budget\":10}' --json --type limits --open",
		Args:    takes("ID", "CONTENT"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) (err error) {
			m.From, m.To = actor.ID(from), actor.ID(args[0])
			if m.Content, err = content(args[1], isJSON); err != nil {
				return err
			}
			if open {
				return a.publish(ctx, c, m)
			}
			delivered, err := c.Send(ctx, m)
			switch {
			case err != nil:
				return err
			case a.json():
				err = a.print(&a2e.MessageResp{Delivered: delivered})
			case delivered:
				err = a.say("%s has it", m.To)
			}
			if err == nil && !delivered {
				err = failed("%s did not take the message: it is %s", m.To, a2e.Terminated)
			}
			return err
		})),
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "a subagent to send it in the name of (default: the agent)")
	f.StringVar(&m.Type, "type", "text", "the message's type, any text")
	f.BoolVar(&isJSON, "json", false, "CONTENT is JSON, not text")
	f.BoolVar(&open, "open", false, "an idle subagent begins to work on it")
	return a.asking(cmd, requestTimeout)
}

// content is an argument as JSON.
func content(arg string, isJSON bool) (json.RawMessage, error) {
	if !isJSON {
		return json.Marshal(arg)
	}
	if !json.Valid([]byte(arg)) {
		return nil, usage(errors.New("CONTENT is not JSON"))
	}
	return json.RawMessage(arg), nil
}

func (a *app) publish(ctx context.Context, c *client.Client, m client.Message) error {
	seq, err := c.Publish(ctx, m)
	if err != nil {
		return err
	}
	if a.json() {
		return a.print(map[string]any{"to": m.To, "seq": seq})
	}
	return a.say("in the inbox of %s, message %d", m.To, seq)
}
