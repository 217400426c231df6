package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

func (a *app) extendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extend ID DURATION",
		Short: "Give a subagent more time for its task",
		Long: `Give a subagent more time for the task that it is at: its deadline, and the one for want of progress,
come so much later. Later tasks have their usual time. One that is at no task, or has no deadline,
is refused: exit code 1.`,
		Example: "  troupe extend sub_1f0c22aa 10m",
		Args:    takes("ID", "DURATION"),
	}
	cmd.RunE = a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
		by, err := time.ParseDuration(args[1])
		if err != nil || by <= 0 {
			return usage(fmt.Errorf("%q is not a duration above zero, such as 90s, 10m or 2h", args[1]))
		}
		event, err := c.Extend(ctx, actor.ID(args[0]), by)
		if err != nil {
			return err
		}
		event.Envelope = a2e.Envelope{}
		if a.json() {
			return a.print(event)
		}
		var is struct {
			Deadline int64 `json:"deadline"`
			Idle     int64 `json:"idleDeadline"`
		}
		if err := json.Unmarshal(event.Content, &is); err != nil {
			return err
		}
		var until []string
		if is.Deadline != 0 {
			until = append(until, "has until "+comes(is.Deadline))
		}
		if is.Idle != 0 {
			until = append(until, "may go without progress until "+comes(is.Idle))
		}
		return a.say("%s %s", event.SubagentID, strings.Join(until, " and "))
	}))
	return a.asking(cmd, requestTimeout)
}

// comes is a time to come, and how far off it is.
func comes(us int64) string {
	at := time.UnixMicro(us)
	return at.Format(time.RFC3339) + " (" + age(time.Until(at)) + ")"
}

// budgetOf reads a budget; nil when nothing is bounded. How much may be asked for the host says.
func budgetOf(pairs map[string]string) (*a2e.Budget, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	var b a2e.Budget
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		value := pairs[key]
		var err error
		switch key {
		case "tokens":
			b.Tokens, err = strconv.ParseInt(value, 10, 64)
		case "steps":
			b.Steps, err = strconv.ParseInt(value, 10, 64)
		case "usd":
			b.USD, err = strconv.ParseFloat(value, 64)
		case "seconds":
			b.Seconds, err = strconv.ParseFloat(value, 64)
		default:
			return nil, fmt.Errorf("%q is not one of tokens, usd, steps, seconds", key)
		}
		if err != nil || b.Tokens < 0 || b.Steps < 0 || !(b.USD >= 0) || !(b.Seconds >= 0) {
			return nil, fmt.Errorf("%s=%s: want a number above zero", key, value)
		}
	}
	if b == (a2e.Budget{}) {
		return nil, errors.New("want numbers above zero")
	}
	return &b, nil
}

// budgetRow tells what of a budget was used.
func budgetRow(b *a2e.Budget, used agent.Usage) string {
	bounds := agent.BudgetAmount(b)
	var parts []string
	if bounds.Steps > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d steps", used.Steps, bounds.Steps))
	}
	if bounds.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", used.Tokens(), bounds.Tokens))
	}
	if bounds.USD > 0 {
		parts = append(parts, fmt.Sprintf("$%s of $%s", used.USD, bounds.USD))
	}
	if b.Seconds > 0 {
		parts = append(parts, fmt.Sprintf("%v for a task", time.Duration(b.Seconds*float64(time.Second))))
	}
	return strings.Join(parts, ", ")
}
