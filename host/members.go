package host

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// A lease lasts for Config.LeaseTerm by the observer's own clock, since the revision that it saw last.
const (
	renewals    = 3   // of a lease in its term
	hurries     = 4   // looks at partitions that move, between renewals
	hurryFrom   = 256 // messages settled since the last renewal
	drainTime   = 2 * time.Second
	evictEvery  = time.Second
	compactFrom = 1024 // settled messages that make a compaction worth while
)

func (h *Host) renewEvery() time.Duration { return h.LeaseTerm / renewals }

func (h *Host) hurryEvery() time.Duration { return h.renewEvery() / hurries }

// A watch tells what does not change any more: a lease by its revision, a member by its last beat. It goes by
// this process's own clock.
type watch map[string]seen

type seen struct {
	what  uint64
	since time.Time
}

// still reports for how long what is said of name has been the same.
func (w watch) still(name string, what uint64) time.Duration {
	s, ok := w[name]
	if !ok || s.what != what {
		s = seen{what, time.Now()}
		w[name] = s
	}
	return time.Since(s.since)
}

// serveMembership keeps this process a member and its share of the partitions owned, until ctx ends. Its error is
// conflict when another process goes by the member's name.
func (h *Host) serveMembership(ctx context.Context) error {
	if err := h.claim(ctx); err != nil {
		return err
	}
	seen := watch{}
	news := make(chan struct{}, 1)
	stop, err := h.hearing(ctx, func() (func(), error) {
		return h.Conn.Subscribe(h.Names.Released(), func(string, []byte) {
			select {
			case news <- struct{}{}:
			default: // there are some
			}
		})
	})
	if stop == nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(h.hurryEvery())
	defer tick.Stop()
	for n := 1; ; n++ {
		if h.Conn.Closed() {
			h.leave()
			return &actor.Error{Op: "host.Serve", Kind: actor.Unavailable, Err: errors.New("the connection is closed for good")}
		}
		if n%hurries == 1 || h.anxious {
			err := h.beat(ctx)
			if errors.Is(err, errTaken) {
				h.leave()
				return err
			}
			if err := errors.Join(err, h.round(ctx, seen)); err != nil && ctx.Err() == nil {
				h.Log.Warn().Err(err).Msg("membership: will try again")
			}
		} else {
			h.hurry(ctx)
		}
		select {
		case <-ctx.Done():
			h.leave()
			return nil
		case <-tick.C:
		case <-news:
			n = 0 // a round is next: something is free
		}
	}
}

// hurry renews the leases of partitions where much was settled: what lies above the watermark is read
// again after a crash.
func (h *Host) hurry(ctx context.Context) {
	var wg sync.WaitGroup
	for _, n := range h.ownedNumbers() {
		if p := h.partition(n); p != nil && p.ctx.Err() == nil && p.watermark() >= p.written().Watermark+hurryFrom {
			wg.Go(func() { h.renew(ctx, p) })
		}
	}
	wg.Wait()
	h.compactOwn(ctx)
}

// round renews what is owned, gives back what another is to have, and takes what is free.
func (h *Host) round(ctx context.Context, seen watch) error {
	h.anxious = false
	members, err := h.Store.Members.List(ctx)
	if err != nil {
		return err
	}
	ids, way := h.others(members, seen)
	mine := share(ids, h.Partitions, h.Member, way)
	leases, err := h.Store.Leases.All(ctx)
	if err != nil {
		return err
	}
	held := make(map[int]store.Held, len(leases))
	for _, l := range leases {
		held[l.Partition] = l
	}
	if err := h.mend(ctx, held); err != nil {
		return err
	}
	var wg sync.WaitGroup
	complete := true
	for n := range h.Partitions {
		p := h.partition(n)
		open := h.free(held[n], seen) // asked of all: one that is to be ours may be so later
		switch {
		case p != nil && (p.ctx.Err() != nil || !mine[n]):
			wg.Go(func() { h.handOver(p) })
		case p != nil:
			wg.Go(func() { h.renew(ctx, p) })
		case mine[n] && open:
			wg.Go(func() { h.acquire(ctx, n, held[n]) })
		case mine[n]:
			complete = false
		}
	}
	wg.Wait()
	if complete && len(h.ownedNumbers()) == len(mine) {
		h.isReady.Do(func() {
			h.background.Go(func() {
				select {
				case <-h.open:
					close(h.ready)
				case <-ctx.Done():
				}
			})
		})
	}
	h.compact(ctx, held)
	h.setOverdue(ctx)
	return nil
}

// others gives the members that live, with this one, and the newest way to assign partitions that all of them know. It
// notes which processes live.
func (h *Host) others(members []store.Member, seen watch) (ids []string, way int) {
	ids, way = []string{h.Member}, assignEvenly
	living := map[string]bool{h.self(): true}
	for _, m := range members {
		quiet := seen.still("process "+processOf(m), uint64(m.Seen.UnixNano()))
		h.worry(quiet)
		if quiet > h.LeaseTerm {
			continue
		}
		living[processOf(m)] = true
		if m.ID != h.Member && !m.Leaving {
			ids, way = append(ids, m.ID), min(way, m.Assigns)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.living = living
	return ids, way
}

// free reports whether a lease may be taken: it is nobody's, or ours from before, or was not renewed
// for its term since this process first saw its present revision.
func (h *Host) free(l store.Held, seen watch) bool {
	quiet := seen.still("lease "+strconv.Itoa(l.Partition), l.Rev)
	if l.Lease.Owner == "" || l.Lease.Owner == h.Member {
		return true
	}
	h.worry(quiet)
	return quiet > h.LeaseTerm
}

// worry has the next round come at once when another process is late with its word, but not for ever when it is dead.
func (h *Host) worry(quiet time.Duration) {
	h.anxious = h.anxious || quiet > 2*h.renewEvery() && quiet < h.LeaseTerm+2*h.renewEvery()
}

// The ways to assign partitions. Members of different versions have to agree on who is to have what, or a partition is two
// members' or nobody's: a way is never changed, a new one gets a number, and the newest that all know is used.
const (
	assignGreedily = 0 // nobody has more than a fair share; somebody may have none
	assignEvenly   = 1 // nobody has more than one more than another
)

// share gives the partitions that member is to own: each goes to the member that ranks highest for it
// among those that have room, so that a change of members moves little.
func share(members []string, partitions int, member string, way int) map[int]bool {
	members = slices.Clone(members)
	slices.Sort(members)
	members = slices.Compact(members)
	limit := (partitions + len(members) - 1) / len(members)
	larger := len(members) // members that may reach the limit
	if rest := partitions % len(members); way >= assignEvenly && rest > 0 {
		larger = rest
	}
	count := map[string]int{}
	mine := map[int]bool{}
	for p := range partitions {
		ranked := slices.SortedFunc(slices.Values(members), func(a, b string) int { return cmp.Compare(rank(b, p), rank(a, p)) })
		for _, m := range ranked {
			if count[m] == limit || count[m] == limit-1 && larger == 0 {
				continue
			}
			if count[m]++; count[m] == limit {
				larger--
			}
			if m == member {
				mine[p] = true
			}
			break
		}
	}
	return mine
}

func rank(member string, partition int) uint64 {
	f := fnv.New64a()
	f.Write([]byte(member + "/" + strconv.Itoa(partition)))
	x := f.Sum64() // fnv alone differs too little in its high bits
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func (h *Host) partition(n int) *partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned[n]
}

func (h *Host) ownedNumbers() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var numbers []int
	for n := range h.owned {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// acquire takes a lease with the next epoch and starts to work.
func (h *Host) acquire(ctx context.Context, n int, held store.Held) {
	lease := takeOver(held.Lease, h.Member)
	rev, err := h.Store.Leases.Write(ctx, n, lease, held.Rev)
	if err != nil {
		if !errors.Is(err, actor.Conflict) && ctx.Err() == nil {
			h.Log.Warn().Err(err).Int("partition", n).Msg("a lease was not taken")
		}
		return
	}
	p := newPartition(h, n, lease, rev)
	h.mu.Lock()
	h.owned[n] = p
	h.mu.Unlock()
	if n == 0 {
		h.noRoom.Store(time.Now().UnixMicro()) // it may have been, before
	}
	if err := p.start(ctx); err != nil {
		h.Log.Error().Err(err).Int("partition", n).Msg("a partition can't be started")
		p.stop()
	}
}

// renew writes the lease with the present watermark and the actors that are busy.
func (h *Host) renew(ctx context.Context, p *partition) {
	p.look(ctx)
	switch err := p.rewrite(ctx, 0); {
	case err == nil:
	case errors.Is(err, actor.Conflict):
		h.reread(ctx, p)
	case ctx.Err() == nil:
		h.noteFull(err)
		h.Log.Warn().Err(err).Int("partition", p.n).Msg("a lease was not renewed")
	}
}

// reread finds out whether a lease that another revision was found of is still ours: an earlier write
// of our own may have arrived late.
func (h *Host) reread(ctx context.Context, p *partition) {
	lease, rev, err := h.Store.Leases.Get(ctx, p.n)
	if err != nil {
		return
	}
	if lease.Owner == h.Member && lease.Epoch == p.epoch {
		p.found(rev)
		return
	}
	h.Log.Warn().Int("partition", p.n).Str("owner", lease.Owner).Msg("a partition was taken over by another member")
	h.release(p)
}

// stillOurs reports whether the lease names this process; also when that can't be found out now.
func (p *partition) stillOurs(ctx context.Context) bool {
	lease, _, err := p.h.Store.Leases.Get(ctx, p.n)
	return err != nil || lease.Owner == p.h.Member && lease.Epoch == p.epoch
}

// compact lets the inbox forget what every partition has settled. All watermarks were read from leases,
// where their owners wrote them by compare-and-set.
func (h *Host) compact(ctx context.Context, held map[int]store.Held) {
	if h.partition(0) == nil || len(held) < h.Partitions {
		return
	}
	low := ^uint64(0)
	for _, l := range held {
		low = min(low, l.Lease.Watermark)
	}
	h.compactTo(ctx, low)
}

// compactOwn does the same where this process owns everything: what its own writes have put into the leases
// need not be read. The less there is in the inbox, the sooner a server that was killed is up again.
func (h *Host) compactOwn(ctx context.Context) {
	low := ^uint64(0)
	for n := range h.Partitions {
		p := h.partition(n)
		if p == nil {
			return
		}
		low = min(low, p.written().Watermark)
	}
	h.compactTo(ctx, low)
}

func (h *Host) compactTo(ctx context.Context, low uint64) {
	if low < h.compacted+compactFrom {
		return
	}
	if err := h.Conn.Compact(ctx, h.Names, low); err != nil {
		h.Log.Warn().Err(err).Msg("the inbox was not compacted")
		return
	}
	h.compacted = low
}

// serveEviction drops idle actors from memory until ctx ends.
func (h *Host) serveEviction(ctx context.Context) error {
	for n := 0; sleep(ctx, evictEvery); n++ {
		now := time.Now()
		if n%5 == 0 {
			h.births.age()
		}
		if n%30 == 0 {
			h.revisions.age()
		}
		for _, n := range h.ownedNumbers() {
			if p := h.partition(n); p != nil {
				p.evict(now)
			}
		}
		h.tasks.look(now, h.Log)
	}
	return nil
}
