package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/subjects"
)

// A fault is something that goes wrong in a world.
type fault struct {
	after  int    // steps that were begun before
	kind   string // a key of troubles
	target int    // host, server or stream
	lasts  time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("after %d steps: %s %d for %v", f.after, f.kind, f.target, f.lasts)
}

// A trouble is a kind of fault: it comes, lasts, and is over when do returns.
type trouble struct {
	do   func(ctx context.Context, w *world, f fault)
	most time.Duration // that it lasts
	of   func(w *world) int
}

func hosts(w *world) int { return len(w.members) }
func nodes(w *world) int { return len(w.nodes) }

var troubles = map[string]trouble{
	"kill host": {killHost, 3 * leaseTerm, hosts},
	"hold host": {holdHost, 4 * leaseTerm, hosts},
	"cut host":  {cutHost, 4 * leaseTerm, hosts},
	"restart":   {restartNode, leaseTerm, nodes},
	"step down": {stepDown, 0, func(w *world) int { return len(w.streams()) }},
}

// kinds are the troubles that a world can have.
func (w *world) kinds() []string {
	kinds := []string{"kill host", "hold host", "cut host", "kill host", "hold host", "restart"}
	if w.cluster != nil {
		kinds = append(kinds, "step down", "step down", "restart")
	}
	return kinds
}

// plan plans the faults of a history.
func (w *world) plan(rng *rand.Rand, steps int) []fault {
	kinds := w.kinds()
	faults := make([]fault, 1+rng.IntN(4))
	for i := range faults {
		kind := kinds[rng.IntN(len(kinds))]
		what := troubles[kind]
		faults[i] = fault{after: 1 + rng.IntN(steps), kind: kind, target: rng.IntN(what.of(w)), lasts: time.Duration(rng.Int64N(int64(what.most) + 1))}
		if kind == "hold host" || kind == "cut host" && rng.IntN(2) == 0 {
			faults[i].lasts = max(faults[i].lasts, leaseTerm*3/2) // the lease is lost
		}
	}
	slices.SortFunc(faults, func(a, b fault) int { return a.after - b.after })
	return faults
}

// A counter counts the steps that were begun.
type counter struct {
	mu   sync.Mutex
	n    int
	wait map[int][]chan struct{}
}

// tick counts one.
func (c *counter) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	for _, ch := range c.wait[c.n] {
		close(ch)
	}
}

// at is closed when n were begun.
func (c *counter) at(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan struct{})
	if c.n >= n {
		close(ch)
		return ch
	}
	if c.wait == nil {
		c.wait = map[int][]chan struct{}{}
	}
	c.wait[n] = append(c.wait[n], ch)
	return ch
}

// suffer lets the faults happen, each when its time has come, and returns when all are over.
func (w *world) suffer(ctx context.Context, faults []fault, steps *counter) (told func() string) {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		log strings.Builder
	)
	tell := func(f fault, what string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&log, "%s %s: %s\n", clock(time.Now()), what, f)
	}
	for _, f := range faults {
		wg.Go(func() {
			select {
			case <-steps.at(f.after):
				tell(f, "begins")
				troubles[f.kind].do(ctx, w, f)
				tell(f, "is over")
			case <-ctx.Done():
			}
		})
	}
	wg.Wait()
	return log.String
}

func killHost(ctx context.Context, w *world, f fault) {
	m := w.members[f.target]
	m.kill()
	pause(ctx, f.lasts)
	m.start()
}

func holdHost(ctx context.Context, w *world, f fault) {
	m := w.members[f.target]
	m.proxy.Hold()
	pause(ctx, f.lasts)
	m.proxy.Heal()
}

func cutHost(ctx context.Context, w *world, f fault) {
	m := w.members[f.target]
	m.proxy.Cut()
	pause(ctx, f.lasts)
	m.proxy.Heal()
}

func restartNode(ctx context.Context, w *world, f fault) {
	w.restarting.Lock() // one after the other
	defer w.restarting.Unlock()
	w.nodes[f.target].Stop(w.t)
	pause(ctx, f.lasts)
	w.nodes[f.target].Restart(w.t)
}

// streams are those that matter most.
func (w *world) streams() []string {
	n := w.names()
	return []string{n.JournalStream(), n.InboxStream(), subjects.KVStream(n.LeasesBucket()), subjects.KVStream(n.RegistryBucket()), n.MailStream(), n.TimerStream()}
}

func stepDown(ctx context.Context, w *world, f fault) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// Without a leader there is none to step down.
	_, _ = w.source.Conn.Request(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+w.streams()[f.target], nil)
}
