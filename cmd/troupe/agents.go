package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/agentfile"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
)

const agentsLong = `Check, store and show the definitions of agents.

Definitions are written in YAML or JSON; docs/agent.schema.json says what may stand in them, and
examples/assistant.yaml shows it. A directory stands for the *.yaml, *.yml and *.json in it. Files that
belong together are given together: prompts and agents of one may be named in another.`

func (a *app) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents",
		Short:   "Check, store and show the definitions of agents",
		Long:    agentsLong,
		Example: "  troupe agents validate agents/\n  troupe agents apply agents/",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range []*cobra.Command{a.validateCommand(), a.applyCommand(), a.agentsListCommand(), a.agentsShowCommand()} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}
	return cmd
}

// A checked is what validate and apply print as JSON.
type checked struct {
	Agents   []applied           `json:"agents"`
	Problems []agentfile.Problem `json:"problems"`
}

// An applied is one agent of the files, with its version once it is stored.
type applied struct {
	Name    string `json:"name"`
	Version uint64 `json:"version,omitempty"`
	Changed bool   `json:"changed,omitempty"`
}

func (a *app) validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR…",
		Short: "Check definitions, without a server",
		Long: `Check definitions and print every problem: its file, line and column, its code, what it is about, and
what is wrong. No server is needed; agents that are stored, and not in the files, are unknown.`,
		Example: "  troupe agents validate agents/ shared/prompts.yaml",
		Args:    takes("FILE|DIR…"),
		RunE: a.does(func(_ context.Context, args []string) error {
			files := agentfile.Read(args...)
			if err := a.complain(files, files.Validate()); err != nil {
				return err
			}
			if !a.json() {
				return a.say("%s, no problems", count(len(files.Agents), "agent"))
			}
			done := checked{Agents: []applied{}, Problems: []agentfile.Problem{}}
			for _, d := range files.Agents {
				done.Agents = append(done.Agents, applied{Name: d.Name})
			}
			return a.print(done)
		}),
	}
	a.printing(cmd)
	return cmd
}

// complain prints problems and fails if there are any, or if there is nothing else.
func (a *app) complain(files *agentfile.Files, problems []agentfile.Problem) error {
	if len(problems) == 0 {
		if len(files.Agents) == 0 {
			return failed("there are no agents in these files")
		}
		return nil
	}
	if a.json() {
		if err := a.print(checked{[]applied{}, problems}); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			if err := a.say("%s", clean(p.String())); err != nil {
				return err
			}
		}
	}
	return failed("%s", count(len(problems), "problem"))
}

// count is a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// stores connects, and lets the command work with what the namespace keeps.
func (a *app) stores(what func(ctx context.Context, st *store.Store, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		names, err := a.names()
		if err != nil {
			return err
		}
		conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Name: "troupe agents"})
		if err != nil {
			return err
		}
		defer conn.Close()
		st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
		if err != nil {
			return err
		}
		return what(ctx, st, args)
	}
}

// storing adds the flags of a command that works with the store.
func (a *app) storing(cmd *cobra.Command) *cobra.Command {
	a.where(cmd, "URL of the NATS server (default $NATS_URL, else nats://127.0.0.1:4222)")
	a.printing(cmd)
	cmd.Flags().Duration("timeout", requestTimeout, "how long to wait, 0 for as long as it takes")
	return cmd
}

func (a *app) applyCommand() *cobra.Command {
	return a.storing(&cobra.Command{
		Use:   "apply FILE|DIR…",
		Short: "Store definitions, each as a new version if it changed",
		Long: `Check definitions together with those that are stored, and store each as the newest version of its agent.
What is the newest version already stays it. With a problem nothing is stored. Threads keep the version that
they were born with.`,
		Example: "  troupe agents apply agents/",
		Args:    takes("FILE|DIR…"),
		RunE: a.does(a.stores(func(ctx context.Context, st *store.Store, args []string) error {
			files := agentfile.Read(args...)
			stored, err := beside(ctx, st.Agents, files.Agents)
			if err != nil {
				return err
			}
			if err := a.complain(files, files.Validate(stored...)); err != nil {
				return err
			}
			return a.apply(ctx, st.Agents, files.Agents)
		})),
	})
}

// apply stores definitions one after the other, and tells of each that was stored even if a later one fails.
func (a *app) apply(ctx context.Context, agents *store.Agents, defs []agent.Definition) error {
	done := checked{Agents: []applied{}, Problems: []agentfile.Problem{}}
	failure := func() error {
		for i := range defs {
			data, err := agent.EncodeDefinition(&defs[i])
			if err != nil {
				return err
			}
			version, changed, err := agents.Apply(ctx, defs[i].Name, data)
			if err != nil {
				return err
			}
			done.Agents = append(done.Agents, applied{defs[i].Name, version, changed})
		}
		return nil
	}()
	if a.json() {
		return errors.Join(failure, a.print(done))
	}
	rows := [][]string{}
	for _, d := range done.Agents {
		row := []string{clean(d.Name), fmt.Sprint("version ", d.Version)}
		if !d.Changed {
			row = append(row, "unchanged")
		}
		rows = append(rows, row)
	}
	return errors.Join(failure, a.table(rows))
}

// beside reads the stored definitions that some definitions lead to, and those that these lead to in turn.
func beside(ctx context.Context, agents *store.Agents, defs []agent.Definition) ([]agent.Definition, error) {
	have := map[string]bool{}
	for i := range defs {
		have[defs[i].Name] = true
	}
	var found []agent.Definition
	names := targets(nil, defs...)
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if have[name] || agent.ValidName(name) != nil {
			continue
		}
		have[name] = true
		data, version, err := agents.Get(ctx, name, 0)
		if errors.Is(err, actor.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d, err := agent.ParseDefinition(data)
		if err != nil {
			return nil, fmt.Errorf("version %d of %s in the store: %w", version, name, err)
		}
		found = append(found, *d)
		names = targets(names, *d)
	}
	return found, nil
}

// targets adds the agents that definitions have relationships to.
func targets(names []string, defs ...agent.Definition) []string {
	for _, d := range defs {
		for _, side := range []*agent.Side{d.SideA, d.SideB} {
			if side == nil {
				continue
			}
			for _, r := range side.Subagents {
				names = append(names, r.Agent)
			}
		}
	}
	return names
}

func (a *app) agentsListCommand() *cobra.Command {
	return a.storing(&cobra.Command{
		Use:   "list",
		Short: "List the agents that are stored",
		Args:  takes(),
		RunE: a.does(a.stores(func(ctx context.Context, st *store.Store, _ []string) error {
			all, err := st.Agents.List(ctx)
			if err != nil {
				return err
			}
			type entry struct {
				Name    string    `json:"name"`
				Version uint64    `json:"version"`
				Applied time.Time `json:"applied"`
			}
			entries := []entry{}
			rows := [][]string{{"NAME", "VERSION", "APPLIED"}}
			for _, v := range all {
				entries = append(entries, entry(v))
				rows = append(rows, []string{clean(v.Name), fmt.Sprint(v.Version), moment(v.Applied.UnixMicro())})
			}
			if a.json() {
				return a.print(map[string]any{"agents": entries})
			}
			return a.table(rows)
		})),
	})
}

func (a *app) agentsShowCommand() *cobra.Command {
	var version uint64
	cmd := a.storing(&cobra.Command{
		Use:   "show NAME",
		Short: "Print the definition of an agent, as a file that can be applied",
		Long: `Print the definition of an agent as JSON, with its prompts in place: a file that can be applied. With -o json the
definition stands beside its name and version.`,
		Example: "  troupe agents show assistant_agent --version 2 > assistant.json",
		Args:    takes("NAME"),
		RunE: a.does(a.stores(func(ctx context.Context, st *store.Store, args []string) error {
			if err := agent.ValidName(args[0]); err != nil {
				return usage(err)
			}
			data, found, err := st.Agents.Get(ctx, args[0], version)
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(map[string]any{"name": args[0], "version": found, "definition": json.RawMessage(data)})
			}
			var b bytes.Buffer
			if err := json.Indent(&b, data, "", "  "); err != nil {
				return fmt.Errorf("version %d of %s in the store: %w", found, args[0], err)
			}
			text := b.String()
			if terminal(a.stdout) {
				text = escaped(text)
			}
			return a.say("%s", strings.TrimSpace(text))
		})),
	})
	cmd.Flags().Uint64Var(&version, "version", 0, "which version (default: the newest)")
	return cmd
}
