package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/subjects"
)

// requestTimeout is how long a command that only asks something waits for the answer.
const requestTimeout = 10 * time.Second

// A choice is a flag with few values.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }

// Type is what the help shows for the value.
func (c *choice) Type() string { return strings.Join(c.of, "|") }

// Set takes the flag's value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("it is one of %s", strings.Join(c.of, ", "))
	}
	c.value = s
	return nil
}

// takes checks the number of arguments: one for each name, any number more for a last "NAME…", and none
// has to stand for a "[NAME]".
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…")
		if len(args) > len(names) && !many {
			return fmt.Errorf("%q is one argument too many", args[len(names)])
		}
		var missing []string
		for _, name := range names[min(len(args), len(names)):] {
			if !strings.HasPrefix(name, "[") {
				missing = append(missing, name)
			}
		}
		if missing != nil {
			return fmt.Errorf("missing %s", strings.Join(missing, " and "))
		}
		return nil
	}
}

// where adds the flags that say which NATS and which namespace.
func (a *app) where(cmd *cobra.Command, url string) {
	f := cmd.Flags()
	f.StringVar(&a.url, "nats", "", url)
	f.StringVar(&a.context, "context", "", "name of a saved nats context to connect with")
	f.StringVar(&a.namespace, "namespace", subjects.DefaultNamespace, "the namespace: subjects and streams begin with it")
	exclude(cmd, "nats", "context")
}

// exclude refuses a flag together with any of the others.
func exclude(cmd *cobra.Command, flag string, others ...string) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, other := range others {
			if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
				return fmt.Errorf("--%s and --%s exclude each other", flag, other)
			}
		}
		if before == nil {
			return nil
		}
		return before(cmd, args)
	}
}

// printing adds the flag that says how to print.
func (a *app) printing(cmd *cobra.Command) {
	a.output = choice{"text", []string{"text", "json"}}
	cmd.Flags().VarP(&a.output, "output", "o", "how to print")
}

// asking adds the flags of a command that works with a running troupe.
func (a *app) asking(cmd *cobra.Command, timeout time.Duration) *cobra.Command {
	a.where(cmd, "URL of the NATS server (default $NATS_URL, else nats://127.0.0.1:4222)")
	a.printing(cmd)
	f := cmd.Flags()
	f.StringVar(&a.agent, "agent", "cli", "who is asking: the agent whose subagents these are")
	f.StringVar(&a.key, "idempotency-key", "", "the same request with the same key is done once (default: a random one)")
	f.Duration("timeout", timeout, "how long to wait, 0 for as long as it takes")
	return cmd
}

// operating adds the flags of a command for who runs a troupe. It is no agent's.
func (a *app) operating(cmd *cobra.Command, timeout time.Duration) *cobra.Command {
	a.where(cmd, "URL of the NATS server (default $NATS_URL, else nats://127.0.0.1:4222)")
	a.printing(cmd)
	cmd.Flags().Duration("timeout", timeout, "how long to wait, 0 for as long as it takes")
	return cmd
}

// metadata reads KEY=JSON pairs.
func metadata(pairs []string) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok || key == "":
			return nil, usage(fmt.Errorf("--metadata %s: want KEY=JSON", pair))
		case !json.Valid([]byte(value)):
			return nil, usage(fmt.Errorf(`--metadata %s: the value is not JSON; a text needs quotes: '%s="…"'`, pair, key))
		}
		all[key] = json.RawMessage(value)
	}
	return all, nil
}
