package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

func (a *app) treeCommand() *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use:   "tree [ROOT]",
		Short: "Show a tree of subagents",
		Long: `Show the agent's subagents with their children below them, or those of another ROOT: another
agent, or one of the subagents.

  ○ ready   ● running   ◐ waiting   ✓ completed   ✗ failed   ⊘ cancelled   ■ terminated

Behind the step stands what it and all below it used: tokens and US dollars, where models count.

With --live the picture is kept up to date until interrupted; where stdout is no terminal, each
change is a line.`,
		Example: "  troupe tree\n  troupe tree run-1f0c22aa --live",
		Args:    takes("[ROOT]"),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			g, err := readGrove(ctx, c, args)
			switch {
			case err != nil:
				return err
			case live:
				return a.liveTree(ctx, c, g)
			case a.json():
				return a.print(g.inOrder())
			}
			width := 1 << 20
			if terminal(a.stdout) {
				width, _ = (&screen{out: a.stdout}).size()
			}
			for _, line := range g.lines(time.Now()) {
				if err := a.say("%s", clip(line, width)); err != nil {
					return err
				}
			}
			return nil
		})),
	}
	cmd.Flags().BoolVar(&live, "live", false, "keep it up to date until interrupted")
	a.asking(cmd, 0)
	return cmd
}

// readGrove reads the tree that the arguments name.
func readGrove(ctx context.Context, c *client.Client, args []string) (*grove, error) {
	entries, err := c.Entries(ctx, "")
	if err != nil {
		return nil, err
	}
	g := newGrove(c.Agent(), c.Agent(), entries)
	if len(args) == 0 || actor.ID(args[0]) == c.Agent() {
		return g, nil
	}
	top := actor.ID(args[0])
	if _, ok := g.entries[top]; ok {
		g.top = top
		return g, nil
	}
	if entries, err = c.Entries(ctx, top); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, notFound(top, "no such tree, and no such subagent of "+string(c.Agent()))
	}
	return newGrove(top, top, entries), nil
}

// liveTree shows a tree until ctx ends, which is how it is meant to end.
func (a *app) liveTree(ctx context.Context, c *client.Client, g *grove) error {
	if !terminal(a.stdout) || a.json() {
		return c.WatchEntries(ctx, g.root, func(e agent.Entry) {
			g.put(e)
			if !g.below(e.SubagentID) {
				return
			}
			// A reader that is gone ends the process by signal.
			if a.json() {
				_ = a.print(&e)
			} else {
				_ = a.say("%s", row(&e, rowNotes{}, g.depth(e.SubagentID), 0, time.Now()))
			}
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan error, 1)
	go func() {
		defer cancel()
		watching <- c.WatchEntries(ctx, g.root, g.put)
	}()
	s := screen{out: a.stdout}
	err := s.follow(ctx, func(_, height int) []string { return fit(g.lines(time.Now()), height) })
	cancel()
	return cmp.Or(<-watching, err)
}

// fit cuts lines to a height and says how many are missing.
func fit(lines []string, height int) []string {
	if len(lines) <= height {
		return lines
	}
	return append(lines[:height-1], fmt.Sprintf("… and %d more", len(lines)-height+1))
}

// A grove is the entries of a tree, seen from its top.
type grove struct {
	root actor.ID            // of the whole tree
	top  actor.ID            // what is shown: the root, or a subagent
	why  map[actor.ID]string // of those that failed, where the error is known

	mu      sync.Mutex
	entries map[actor.ID]agent.Entry
}

func newGrove(root, top actor.ID, entries []agent.Entry) *grove {
	g := &grove{root: root, top: top, entries: map[actor.ID]agent.Entry{}}
	for _, e := range entries {
		g.entries[e.SubagentID] = e
	}
	return g
}

// put takes a newer entry.
func (g *grove) put(e agent.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries[e.SubagentID] = e
}

// below reports whether a subagent is shown.
func (g *grove) below(id actor.ID) bool { return g.depth(id) >= 0 }

// depth is how far below the top a subagent stands, or -1.
func (g *grove) depth(id actor.ID) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := 0; n <= len(g.entries)+1; n++ {
		if id == g.top {
			return n
		}
		e, ok := g.entries[id]
		if !ok {
			break
		}
		id = e.ParentAgentID
	}
	return -1
}

// A branch is an entry, how far below the top it stands, and what it and all below it used.
type branch struct {
	agent.Entry
	depth int
	used  agent.Usage
}

// branches gives what is shown, each parent before its children, children in the order of their birth.
func (g *grove) branches() []branch {
	g.mu.Lock()
	defer g.mu.Unlock()
	children := map[actor.ID][]agent.Entry{}
	for _, e := range slices.SortedFunc(maps.Values(g.entries), func(x, y agent.Entry) int { return cmp.Compare(x.Order, y.Order) }) {
		children[e.ParentAgentID] = append(children[e.ParentAgentID], e)
	}
	used := totals(g.entries)
	var all []branch
	var grow func(id actor.ID, depth int)
	grow = func(id actor.ID, depth int) {
		for _, e := range children[id] {
			all = append(all, branch{e, depth, used[e.SubagentID]})
			grow(e.SubagentID, depth+1)
		}
	}
	depth := 1
	if e, ok := g.entries[g.top]; ok {
		all = append(all, branch{e, 0, used[g.top]})
	}
	grow(g.top, depth)
	return all
}

// inOrder is what is shown, as JSON.
func (g *grove) inOrder() []agent.Entry {
	entries := []agent.Entry{}
	for _, b := range g.branches() {
		entries = append(entries, b.Entry)
	}
	return entries
}

// lines draws the tree.
func (g *grove) lines(now time.Time) []string {
	all := g.branches()
	var lines []string
	if g.top == g.root {
		lines = append(lines, clean(string(g.root)))
		if len(all) == 0 {
			lines[0] += "  (no subagents)"
		}
	}
	width, spending := 0, 0
	for _, b := range all {
		spending = max(spending, columns(spent(b.used)))
		width = max(width, 2*b.depth+columns(clip(clean(b.Name), maxNameColumns)))
	}
	for _, b := range all {
		b.Name = clip(clean(b.Name), maxNameColumns)
		notes := rowNotes{why: g.why[b.SubagentID]}
		if spending > 0 {
			notes.spent = pad(spent(b.used), spending)
		}
		lines = append(lines, row(&b.Entry, notes, b.depth, width, now))
	}
	return lines
}

// maxNameColumns is how much of a name is shown where columns follow it.
const maxNameColumns = 40

// rowNotes are what is known of a subagent besides its entry.
type rowNotes struct {
	why   string // it failed
	spent string // by it and all below it
}

// row is a subagent in one line: status, name, id, age, step, what was spent, and the last progress or, of one that
// failed, why: the error if it is known, else the stop reason.
func row(e *agent.Entry, notes rowNotes, depth, width int, now time.Time) string {
	indent := strings.Repeat("  ", depth)
	name := pad(clean(e.Name), width-len(indent))
	line := fmt.Sprintf("%s%s %s  %s  %4s", indent, glyphs[e.A2E()], name, e.SubagentID, age(now.Sub(time.UnixMicro(e.CreatedAt))))
	if e.Session > 0 {
		line += fmt.Sprintf("  step %d/%d", e.Step, e.MaxSteps)
	}
	if notes.spent != "" {
		line += "  " + notes.spent
	}
	text := e.StatusText
	if e.ThreadName != "" {
		text = strings.TrimSpace(e.ThreadName + "  " + text)
	}
	if e.Awaiting != nil {
		text += "  asks: " + clip(e.Awaiting.Question, maxNameColumns)
	}
	if e.A2E() == a2e.Failed {
		text = cmp.Or(notes.why, "stopped by "+string(e.StopReason))
	}
	if text != "" {
		line += "  " + clean(text)
	}
	return strings.TrimRight(line, " ")
}
