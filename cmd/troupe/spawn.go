package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

func (a *app) spawnCommand() *cobra.Command {
	var (
		config  a2e.SubagentConfig
		pairs   []string
		parent  string
		budget  map[string]string
		memory  = choice{string(a2e.MemoryShared), []string{"shared", "isolated", "snapshot"}}
		tooling = choice{string(a2e.ToolsRestricted), []string{"shared", "restricted", "isolated"}}
	)
	cmd := &cobra.Command{
		Use:     "spawn NAME --model MODEL",
		Short:   "Make a subagent, and print its id",
		Example: "  troupe spawn researcher --model builtin/echo\n  troupe spawn scripted --model builtin/script --metadata 'script=[{\"result\":{\"answer\":42}}]'",
		Args:    takes("NAME"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) (err error) {
			if config.Name = args[0]; config.Name == "" {
				return usage(errors.New("NAME is empty"))
			}
			config.MemoryScope, config.ToolScope = a2e.MemoryScope(memory.value), a2e.ToolScope(tooling.value)
			if config.MaxSteps < 1 || config.TimeoutSeconds < 1 {
				return usage(errors.New("--max-steps and --timeout-seconds are at least 1"))
			}
			if config.IdleTimeoutSeconds < 0 {
				return usage(errors.New("--idle-timeout-seconds is below zero"))
			}
			if config.Metadata, err = metadata(pairs); err != nil {
				return err
			}
			if config.Budget, err = budgetOf(budget); err != nil {
				return usage(fmt.Errorf("--budget: %w", err))
			}
			id, err := c.Spawn(ctx, client.SpawnRequest{Agent: config, Parent: actor.ID(parent)})
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(&a2e.SpawnResp{SubagentID: id, Status: a2e.Ready})
			}
			return a.say("%s", id)
		})),
	}
	f := cmd.Flags()
	f.StringVar(&config.Model, "model", "", "what it thinks with, such as builtin/echo, builtin/extractive, builtin/script")
	f.StringVar(&config.Role, "role", "", "what it is for")
	f.StringVar(&config.SystemPrompt, "system-prompt", "", "what its model is told first")
	f.StringArrayVar(&config.Capabilities, "capability", nil, "tools, memory or multi_agent; may be repeated")
	f.Var(&memory, "memory-scope", "whose memory it works on")
	f.Var(&tooling, "tool-scope", "which tools it may use")
	f.IntVar(&config.MaxSteps, "max-steps", a2e.DefaultMaxSteps, "steps that a task may take")
	f.IntVar(&config.TimeoutSeconds, "timeout-seconds", a2e.DefaultTimeoutSeconds, "seconds that a task may take")
	f.IntVar(&config.IdleTimeoutSeconds, "idle-timeout-seconds", 0, "seconds that a task may go without progress (default: without limit)")
	f.StringToStringVar(&budget, "budget", nil, "what it and all below it may use, as `KEY=N,…`: tokens, usd and steps in its life, seconds in each task")
	f.StringArrayVar(&pairs, "metadata", nil, "KEY=JSON; may be repeated")
	f.StringVar(&parent, "parent", "", "a subagent to make it a child of (default: the agent)")
	must(cmd.MarkFlagRequired("model"))
	return a.asking(cmd, requestTimeout)
}

func (a *app) delegateCommand() *cobra.Command {
	var (
		task  a2e.TaskDefinition
		pairs []string
		wait  bool
	)
	cmd := &cobra.Command{
		Use:     "delegate ID INSTRUCTION",
		Short:   "Give a subagent a task",
		Long:    "Give a subagent a task. One that is busy with another task, or was terminated, does not take it: exit code 1.",
		Example: `  troupe delegate sub_1f0c22aa "Find the three largest ports of Europe" --await --timeout 5m`,
		Args:    takes("ID", "INSTRUCTION"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) (err error) {
			id := actor.ID(args[0])
			task.Instruction = args[1]
			if task.Metadata, err = metadata(pairs); err != nil {
				return err
			}
			resp, err := c.Delegate(ctx, id, task)
			if err != nil {
				return err
			}
			if resp.Accepted && wait {
				return a.awaited(c.Await(ctx, id))
			}
			resp.Envelope = a2e.Envelope{}
			switch {
			case a.json():
				err = a.print(resp)
			case resp.Accepted:
				err = a.say("%s accepted, %s", id, resp.Status)
			}
			if err == nil && !resp.Accepted {
				err = failed("%s did not take the task: it is %s", id, resp.Status)
			}
			return err
		})),
	}
	f := cmd.Flags()
	f.StringVar(&task.Name, "name", "task", "the task's name")
	f.StringArrayVar(&task.SuccessCriteria, "criterion", nil, "what the result has to fulfil; may be repeated")
	f.StringArrayVar(&pairs, "metadata", nil, "KEY=JSON; may be repeated")
	f.BoolVar(&wait, "await", false, "wait for the result and print it")
	return a.asking(cmd, 0)
}

// must is for what fails only by a mistake in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
