package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

// A progress shows how a job goes: a view that is redrawn on a terminal, lines elsewhere.
type progress struct {
	out   *os.File
	live  bool // out is a terminal
	name  string
	total int
	begun time.Time

	mu     sync.Mutex
	latest map[actor.ID]agent.Entry // of the registry
	ended  map[actor.ID]bool
	why    map[actor.ID]string // of those that failed
	failed int
	over   int // parts that are done, well or not
}

func newProgress(out *os.File, name string, total int) *progress {
	return &progress{
		out: out, live: terminal(out), name: name, total: total, begun: time.Now(),
		latest: map[actor.ID]agent.Entry{}, ended: map[actor.ID]bool{}, why: map[actor.ID]string{},
	}
}

// start shows what happens until ctx ends. The result is done when nothing is shown any more.
func (p *progress) start(ctx context.Context, c *client.Client) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		// Progress that can't be shown, or that nobody reads, does not stop the job.
		_ = c.WatchEntries(ctx, "", p.update)
	})
	if p.live {
		s := screen{out: p.out}
		wg.Go(func() { _ = s.follow(ctx, p.frame) })
	}
	return &wg
}

// settle makes the last picture that of the registry, which what was shown so far may be behind.
func (p *progress) settle(ctx context.Context, c *client.Client) {
	if !p.live || ctx.Err() != nil {
		return
	}
	// Without an answer the picture stays as it is: the result does not depend on it.
	entries, _ := c.Entries(ctx, "")
	for _, e := range entries {
		p.update(e)
	}
}

// update takes a newer entry. Its lines end with the part's own.
func (p *progress) update(e agent.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.latest[e.SubagentID]
	if e.Seq < before.Seq {
		return
	}
	p.latest[e.SubagentID] = e
	status := e.A2E()
	if p.live || p.ended[e.SubagentID] || status == a2e.Ready || status.Closed() {
		return
	}
	if before.A2E() != status || before.StatusText != e.StatusText || e.ParentAgentID != actor.ID(p.name) && before.Step != e.Step {
		p.line(status, row(&e, rowNotes{}, e.Depth-1, 0, time.Now()))
	}
}

// done tells that a part is over.
func (p *progress) done(part *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over++
	p.ended[part.id] = true
	why := part.failure()
	if why != "" {
		p.failed++
		p.why[part.id] = why
		if part.resp != nil {
			p.why[part.id] = part.resp.Error
		}
	}
	if p.live {
		return
	}
	status, text := a2e.Failed, fmt.Sprintf("%s %s  %s", glyphs[a2e.Failed], clean(part.path), part.id)
	if part.resp != nil {
		status = part.resp.Status
		text = fmt.Sprintf("%s %s  %s", glyphs[status], clean(part.path), part.id)
	}
	if why != "" {
		text += "  " + clean(why)
	}
	p.line(status, text)
}

// line writes a line. The caller holds the lock.
func (p *progress) line(status a2e.Status, text string) {
	fmt.Fprintf(p.out, "[%d/%d] %-9s %s\n", p.over, p.total, strings.ToLower(string(status)), text)
}

// rank orders what is shown when there is no room for all: what runs first.
var rank = map[a2e.Status]int{a2e.Running: 1, a2e.Waiting: 1, a2e.Failed: 2, a2e.Cancelled: 3, a2e.Terminated: 3, a2e.Completed: 4, a2e.Ready: 5}

// frame draws the view.
func (p *progress) frame(_, height int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	entries := make([]agent.Entry, 0, len(p.latest))
	running := 0
	for _, e := range p.latest {
		entries = append(entries, e)
		if s := e.A2E(); s == a2e.Running || s == a2e.Waiting {
			running++
		}
	}
	if len(entries) >= height {
		slices.SortFunc(entries, func(x, y agent.Entry) int {
			return cmp.Or(cmp.Compare(rank[x.A2E()], rank[y.A2E()]), cmp.Compare(y.UpdatedAt, x.UpdatedAt), cmp.Compare(x.Order, y.Order))
		})
		entries = entries[:max(0, height-1)]
	}
	shown := newGrove(actor.ID(p.name), actor.ID(p.name), entries)
	shown.why = p.why
	head := fmt.Sprintf("%s  %d/%d done, %d running", clean(p.name), p.over, p.total, running)
	if p.failed > 0 {
		head += fmt.Sprintf(", %d failed", p.failed)
	}
	lines := shown.lines(now)
	lines[0] = head + ", " + age(now.Sub(p.begun))
	return fit(lines, height)
}
