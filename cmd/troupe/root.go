package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

const rootLong = `Troupe runs subagents as durable actors on NATS JetStream.

"troupe run" does a whole job and ends: one subagent for each file, and their results merged.
"troupe up" keeps a server and a host running; all other commands work with one that runs, as
does anything that can publish JSON to a NATS subject.

Exit codes:
  0    done
  1    failed: a subagent failed, or the request was refused
  2    used wrongly: an unknown flag, a missing argument
  3    no NATS server or no host answered
  4    there is no such subagent, or no such agent
  130  interrupted`

const rootExample = `  troupe run "Summarise this document" --each 'docs/*.md' --each README.md

  troupe up &
  id=$(troupe spawn researcher --model builtin/echo)
  troupe delegate "$id" "hello" --await
  troupe tree`

// An app is one run of the program: where it prints to, and the flags that commands share. A flag
// whose default differs from command to command is not among them: the last would count for all.
type app struct {
	stdout, stderr *os.File
	began          bool // the arguments were right, and the command has begun

	agent, url, context, namespace, key string

	output choice
}

// execute runs the program and gives its exit code.
func execute(ctx context.Context, args []string) int {
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.began {
		err = usage(err)
	}
	code := codeOf(ctx, err)
	if text := explain(err); text != "" {
		fmt.Fprintln(a.stderr, "troupe: "+text)
	}
	if code == exitUsage && !a.began {
		fmt.Fprintln(a.stderr, `Run "troupe --help", or a command with --help, for how it is used.`)
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Durable subagents on NATS JetStream",
		Long:          rootLong,
		Example:       rootExample,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"},
		&cobra.Group{ID: "define", Title: "Define agents:"},
		&cobra.Group{ID: "work", Title: "Give work:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "stop", Title: "Stop:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			c.DisableFlagsInUseLine = true
			root.AddCommand(c)
		}
	}
	cobra.EnableCommandSorting = false // they stand in the order in which they are used
	add("run", a.runCommand(), a.upCommand(), a.workerCommand(), a.mcpCommand())
	add("define", a.agentsCommand())
	add("work", a.spawnCommand(), a.delegateCommand(), a.awaitCommand(), a.sendCommand(), a.extendCommand(), a.mergeCommand(), a.chatCommand(), a.answerCommand())
	add("look", a.lsCommand(), a.treeCommand(), a.showCommand(), a.inboxCommand())
	add("stop", a.cancelCommand(), a.terminateCommand())
	add("operate", a.membersCommand(), a.dlqCommand(), a.gcCommand())
	root.AddCommand(a.benchCommand(), a.benchPartCommand(), a.versionCommand())
	return root
}

// does makes a command's RunE of what it does. From there on an error is no longer one of usage,
// unless it says so itself.
func (a *app) does(what func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		ctx := cmd.Context()
		if cmd.Flags().Lookup("timeout") != nil {
			limit, err := cmd.Flags().GetDuration("timeout")
			if err != nil || limit < 0 {
				return usage(errors.New("--timeout is below zero"))
			}
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
				defer cancel()
			}
		}
		return what(ctx, args)
	}
}
