package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

const dlqLong = `Look after the dead letters: messages that their recipients could not take. They are kept for 30 days.

A message to a subagent that can't take it, for it is no message, has no recipient or comes too late, and one that the
recipient stumbles over again and again, is put aside with the reason. "ls" and "show" tell of it. When what was wrong
is mended, "replay" sends it again; "drop" deletes it for good.`

func (a *app) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look after messages that could not be taken",
		Long:  dlqLong,
		Example: `  troupe dlq ls --since 24h
  troupe dlq show 17
  troupe dlq replay 17 18`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range []*cobra.Command{a.dlqLsCommand(), a.dlqShowCommand(), a.dlqReplayCommand(), a.dlqDropCommand()} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}
	return cmd
}

func (a *app) dlqLsCommand() *cobra.Command {
	var (
		to    string
		since time.Duration
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the dead letters, oldest first",
		Example: "  troupe dlq ls --agent sub_1f0c22aa\n  troupe dlq ls -o json | jq -r '.dead_letters[].seq'",
		Args:    takes(),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, _ []string) error {
			var from time.Time
			if since > 0 {
				from = time.Now().Add(-since)
			}
			letters, err := c.DeadLetters(ctx, actor.ID(to), from)
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(struct {
					DeadLetters []client.DeadLetter `json:"dead_letters"`
				}{letters})
			}
			rows := [][]string{{"SEQ", "AGO", "TO", "LANE", "FROM", "REASON"}}
			for _, l := range letters {
				rows = append(rows, []string{fmt.Sprint(l.Seq), age(time.Since(l.At)), clean(string(l.ID)), string(l.Lane), clean(string(l.From)), clip(clean(l.Reason), maxReasonColumns)})
			}
			return a.table(rows)
		})),
	}
	cmd.Flags().StringVar(&to, "agent", "", "only those to this recipient")
	cmd.Flags().DurationVar(&since, "since", 0, "only those of the last while, such as 24h")
	return a.operating(cmd, requestTimeout)
}

// maxReasonColumns is how much of a reason a list shows.
const maxReasonColumns = 80

func (a *app) dlqShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show SEQ",
		Short:   "Show a dead letter and what is in it",
		Example: "  troupe dlq show 17 -o json | jq .data",
		Args:    takes("SEQ"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			seqs, err := sequences(args)
			if err != nil {
				return err
			}
			l, err := c.DeadLetter(ctx, seqs[0])
			if err != nil {
				return err
			}
			if a.json() {
				return a.print(l)
			}
			return a.showLetter(&l)
		})),
	}
	return a.operating(cmd, requestTimeout)
}

func (a *app) showLetter(l *client.DeadLetter) error {
	rows := [][]string{{"seq", fmt.Sprint(l.Seq)}, {"to", clean(string(l.ID))}, {"at", moment(l.At.UnixMicro())}, {"reason", clean(l.Reason)}}
	if l.Lane != "" {
		rows = append(rows, []string{"from", clean(string(l.From))}, []string{"lane", string(l.Lane)})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	text := l.Data
	if text == nil {
		text = l.Envelope
	}
	switch {
	case text != nil:
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return err
		}
		return a.say("\n%s", shown(b.String(), terminal(a.stdout)))
	case l.Raw != nil:
		return a.say("\n%d bytes that are neither JSON nor an envelope:\n%s", len(l.Raw), strconv.QuoteToASCII(string(l.Raw)))
	}
	return a.say("\n(its data was not kept)")
}

func (a *app) dlqReplayCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "replay SEQ…",
		Short:   "Send dead letters again, and delete them",
		Long:    "Send dead letters to the inboxes that they came to, each as a new message, and delete those that were sent.\nThe runtime's own messages, on the lanes queue, host and ctl, are only sent with --force: who sent them may have gone on\nwithout them.",
		Example: "  troupe dlq replay 17 18",
		Args:    takes("SEQ…"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			return a.eachLetter(args, "replayed", func(seq uint64) error { return c.ReplayDeadLetter(ctx, seq, force) })
		})),
	}
	cmd.Flags().BoolVar(&force, "force", false, "the runtime's own messages, too")
	return a.operating(cmd, requestTimeout)
}

func (a *app) dlqDropCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "drop SEQ…",
		Short:   "Delete dead letters for good",
		Example: "  troupe dlq drop 17 18",
		Args:    takes("SEQ…"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			return a.eachLetter(args, "dropped", func(seq uint64) error { return c.DropDeadLetter(ctx, seq) })
		})),
	}
	return a.operating(cmd, requestTimeout)
}

// eachLetter does something with every letter, also when it fails with some.
func (a *app) eachLetter(args []string, done string, what func(seq uint64) error) error {
	seqs, err := sequences(args)
	if err != nil {
		return err
	}
	var failures []error
	ok := []uint64{}
	for _, seq := range seqs {
		err := what(seq)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		ok = append(ok, seq)
		if !a.json() {
			if err := a.say("%d %s", seq, done); err != nil {
				return err
			}
		}
	}
	if a.json() {
		if err := a.print(map[string][]uint64{done: ok}); err != nil {
			return err
		}
	}
	if len(failures) > 1 {
		return failed("%d of %d letters were not %s, the first: %w", len(failures), len(seqs), done, failures[0])
	}
	return errors.Join(failures...)
}

// sequences reads the numbers of dead letters.
func sequences(args []string) ([]uint64, error) {
	seqs := make([]uint64, len(args))
	for i, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || seq == 0 {
			return nil, usage(fmt.Errorf("%q is not the number of a dead letter", arg))
		}
		seqs[i] = seq
	}
	return seqs, nil
}
