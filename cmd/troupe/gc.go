package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/sweep"
)

const gcLong = `Remove subagents that were terminated long ago, with all that is kept of them, and blobs that nothing names any more.

A subagent goes when it has been terminated for so long, and when all below it go too. One that is not terminated is
never touched, however long it has been idle. With a subagent go its history, files, memory, scoped values, timers and
mail; what others heard from it stays with them. Its id is not given out again: requests for it are answered with
not_found. Blobs go when they are a day old and nothing names them. Of what the hosts of trees have written, all goes
that is as old as the subagents that go, at least a day, and that they no longer need.

With --archive each subagent is kept first, as a file of JSON lines: its entry in the registry, each record of its
journal, and the blobs that they name. It is a directory, or bucket:NAME for an object store of the NATS server.

Hosts may run meanwhile. It can be interrupted anywhere and run again.`

// gcFlags are the flags of gc.
type gcFlags struct {
	older   string
	archive string
	dry     bool
}

func (a *app) gcCommand() *cobra.Command {
	var g gcFlags
	cmd := &cobra.Command{
		Use:   "gc --terminated-older-than AGE",
		Short: "Remove subagents that were terminated long ago",
		Long:  gcLong,
		Example: `  troupe gc --terminated-older-than 30d --dry-run
  troupe gc --terminated-older-than 30d --archive /var/lib/troupe-archive`,
		Args: takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.gc(ctx, &g) }),
	}
	f := cmd.Flags()
	f.StringVar(&g.older, "terminated-older-than", "", "for how long they have been terminated: 30d, 12h, 0s for all")
	f.StringVar(&g.archive, "archive", "", "a directory, or bucket:NAME, that keeps what is removed")
	f.BoolVar(&g.dry, "dry-run", false, "only tell what would be removed")
	must(cmd.MarkFlagRequired("terminated-older-than"))
	return a.operating(cmd, 0)
}

func (a *app) gc(ctx context.Context, g *gcFlags) error {
	older, err := days(g.older)
	if err != nil {
		return usage(fmt.Errorf("--terminated-older-than %s: %w", g.older, err))
	}
	names, err := a.names()
	if err != nil {
		return err
	}
	conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Name: "troupe gc"})
	if err != nil {
		return err
	}
	defer conn.Close()
	layout, err := conn.Layout(ctx, names)
	if err != nil {
		return err
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		return err
	}
	cfg := sweep.Config{Store: st, Partitions: layout.Partitions, Older: older, DryRun: g.dry}
	if bucket, ok := strings.CutPrefix(g.archive, "bucket:"); ok {
		if cfg.Archive, err = st.Archive(ctx, bucket); err != nil {
			return err
		}
	} else if g.archive != "" {
		cfg.Archive = sweep.Dir(g.archive)
	}
	var removed []sweep.Removed
	var printed error
	switch {
	case g.dry && a.json():
		cfg.Removed = func(r sweep.Removed) { removed = append(removed, r) }
	case g.dry:
		cfg.Removed = func(r sweep.Removed) {
			printed = errors.Join(printed, a.say("%s  terminated %s ago, below %s", r.ID, age(time.Since(r.UpdatedAt)), clean(string(r.Parent))))
		}
	}
	s, err := sweep.New(cfg)
	if err != nil {
		return err
	}
	report, err := s.Run(ctx)
	return errors.Join(err, printed, a.showGC(g, report, removed))
}

func (a *app) showGC(g *gcFlags, r sweep.Report, removed []sweep.Removed) error {
	if a.json() {
		return a.print(struct {
			sweep.Report
			DryRun  bool            `json:"dry_run"`
			Removes []sweep.Removed `json:"removes,omitempty"`
		}{r, g.dry, removed})
	}
	verb := "removed"
	if g.dry {
		verb = "would remove"
	}
	if err := a.say("%s %d subagents, %d blobs of %d bytes, %d marks of earlier runs", verb, r.Threads, r.Swept.Blobs, r.Swept.Bytes, r.Marks); err != nil {
		return err
	}
	for _, more := range []struct {
		n    int
		text string
	}{
		{r.Records, "with them %d records of the hosts of trees that the hosts no longer need"},
		{r.Kept, "%d terminated ones stay, for some below them do"},
		{r.Busy, "%d terminated ones stay until a later run, for not all that they sent is known to have arrived"},
		{r.Swept.Chunks, "with them %d contents that never became a blob"},
	} {
		if more.n > 0 {
			if err := a.say(more.text, more.n); err != nil {
				return err
			}
		}
	}
	return nil
}

// days reads a duration, which may be a number of days.
func days(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(n, 10, 16)
		return time.Duration(days) * 24 * time.Hour, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("it is below zero")
	}
	return d, err
}
