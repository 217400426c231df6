package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

const runLong = `Do one job on many files: a subagent for each file that --each matches is told PROMPT and the
file's content; when all are done their results are merged and printed to stdout. Progress goes
to stderr, as a live view on a terminal, else line by line.

Without --nats it runs a server of its own, in a temporary store unless --store names one. With
--nats it works at that server, and is a host there itself if none is running.

Subagents that fail are named on stderr, and the results of the others are merged all the same;
the exit code is then 1. An interrupt cancels all of them.`

// cancelTime is how long a cancelled run may take to say so to its subagents.
const cancelTime = 5 * time.Second

// runFlags are the flags of run.
type runFlags struct {
	prompt, model, store, name, prices string
	each, pairs                        []string
	metadata                           map[string]json.RawMessage
	bounds                             map[string]string
	budget                             *a2e.Budget
	strategy                           string
}

func (a *app) runCommand() *cobra.Command {
	r := runFlags{strategy: string(a2e.HierarchicalSummary)}
	cmd := &cobra.Command{
		Use:   "run PROMPT --each GLOB…",
		Short: "One subagent for each file, and their results merged",
		Long:  runLong,
		Example: `  troupe run "Summarise this document" --each 'docs/*.md' --each README.md
  troupe run "Summarise this document" --each 'notes/*.txt' -o json --nats nats://127.0.0.1:4222`,
		Args: takes("PROMPT"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			r.prompt = args[0]
			return a.runAll(ctx, &r)
		}),
	}
	a.where(cmd, "URL of a NATS server to work at, instead of starting one")
	a.printing(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&r.each, "each", nil, "files to work on, as a `GLOB`; may be repeated")
	f.StringVar(&r.model, "model", "builtin/extractive", "what the subagents think with")
	f.StringArrayVar(&r.pairs, "metadata", nil, "KEY=JSON for the subagents, such as the script of builtin/script; may be repeated")
	f.StringVar(&r.strategy, "merge", r.strategy, "how results are merged: "+strategyHelp)
	f.StringVar(&r.store, "store", "", "directory of the server's store (default: a temporary one, removed at the end)")
	f.StringToStringVar(&r.bounds, "budget", nil, "what each subagent and all below it may use, as `KEY=N,…`: tokens, usd, steps and seconds")
	pricing(cmd, &r.prices)
	f.StringVar(&r.name, "name", "", "the agent that the subagents belong to (default: run- and 8 random hex digits)")
	f.Duration("timeout", 0, "how long it may take, 0 for as long as it does")
	must(cmd.MarkFlagRequired("each"))
	exclude(cmd, "store", "nats", "context")
	return cmd
}

func (a *app) runAll(ctx context.Context, r *runFlags) error {
	names, err := a.names()
	if err != nil {
		return err
	}
	if !a2e.Strategy(r.strategy).Valid() {
		return usage(errors.New("--merge is " + strategyHelp))
	}
	if r.metadata, err = metadata(r.pairs); err != nil {
		return err
	}
	if r.budget, err = budgetOf(r.bounds); err != nil {
		return usage(fmt.Errorf("--budget: %w", err))
	}
	documents, err := documentsOf(r.each)
	if err != nil {
		return err
	}
	r.name = cmp.Or(r.name, "run-"+random())
	var s stage
	if err = s.set(ctx, a, names, r, len(documents)); err == nil {
		err = a.perform(ctx, s.conn, names, r, documents)
	}
	return errors.Join(err, s.close())
}

// perform runs the job and prints its result.
func (a *app) perform(ctx context.Context, conn *bus.Conn, names subjects.Names, r *runFlags, documents []document) error {
	c, err := newClient(conn, names, r.name)
	if err != nil {
		return err
	}
	j := newJob(c, r, documents, a.stderr)
	if err := j.check(); err != nil {
		return err
	}
	merged, err := j.run(ctx)
	if err != nil {
		return j.stopped(ctx, err)
	}
	switch {
	case a.json():
		err = a.print(j.report(merged))
	case j.failures() < len(j.parts) && isEmpty(merged):
		fmt.Fprintln(a.stderr, "troupe: there is no summary: no file has any text to summarise")
	case j.failures() < len(j.parts):
		err = a.result(merged)
	}
	for _, part := range j.parts {
		if why := part.failure(); why != "" {
			fmt.Fprintf(a.stderr, "troupe: %s: %s\n", clean(part.path), oneLine(why))
		}
	}
	if n := j.failures(); err == nil && n > 0 {
		return failed("%d of %d subagents did not complete", n, len(j.parts))
	}
	return err
}

// isEmpty reports whether a merge made a summary with nothing in it.
func isEmpty(merged json.RawMessage) bool {
	var of struct {
		Strategy a2e.Strategy `json:"strategy"`
		Summary  string       `json:"summary"`
	}
	return json.Unmarshal(merged, &of) == nil && of.Strategy == a2e.HierarchicalSummary && of.Summary == ""
}

// A report is what run prints as JSON.
type report struct {
	Name         string          `json:"name"`
	Model        string          `json:"model"`
	Strategy     a2e.Strategy    `json:"strategy"`
	Failed       int             `json:"failed"`
	Subagents    []partReport    `json:"subagents"`
	MergedResult json.RawMessage `json:"merged_result"`
}

// partReport is how one file went.
type partReport struct {
	Name       string          `json:"name"` // the file's path
	SubagentID actor.ID        `json:"subagent_id,omitempty"`
	Status     a2e.Status      `json:"status"`
	Error      string          `json:"error,omitempty"`
	Result     json.RawMessage `json:"result"`
}

func (j *job) report(merged json.RawMessage) *report {
	r := report{Name: j.flags.name, Model: j.flags.model, Strategy: a2e.Strategy(j.flags.strategy), Failed: j.failures(), MergedResult: merged}
	for _, p := range j.parts {
		one := partReport{Name: p.path, SubagentID: p.id, Status: a2e.Failed, Error: p.failure()}
		if p.resp != nil {
			one.Status, one.Result, one.Error = p.resp.Status, p.resp.Result, p.resp.Error
		}
		r.Subagents = append(r.Subagents, one)
	}
	return &r
}

// stopped words the end of a job that was not finished, and cancels what goes on of it.
func (j *job) stopped(ctx context.Context, err error) error {
	cancelling, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	if _, cancelErr := j.client.Cancel(cancelling, j.client.Agent()); cancelErr != nil {
		return fmt.Errorf("%s was not cancelled (%s): %w", j.client.Agent(), explain(cancelErr), err)
	}
	if ctx.Err() != nil {
		return failed("%s was cancelled: %w", j.client.Agent(), context.Cause(ctx))
	}
	return err
}
