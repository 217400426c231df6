package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// A partition that is given back moves at once, with all its actors. The jobs that have begun in this process go on here
// for at most Drain: the lease lists them as lent, so that the next owner does not begin them a second time, and their
// answers go into the inboxes of their actors, as answers of workers do. The next owner begins a job itself as soon as
// the process that has it does not say any more that it lives, or when the time is over.
//
// None of this is needed for safety: a thread takes one answer to a job, whoever sends it, and none once it waits no more.

const (
	quietTime = time.Second           // for the turns that are under way when nothing more is read
	lookAgain = 10 * time.Millisecond // for the end of the inbox
)

// A lentJob names a job across processes.
type lentJob struct {
	a actor.Address
	n uint64
}

// A loan is a job that an earlier owner of the partition carries out.
type loan struct {
	by    string
	until time.Time
}

// self is how this process calls itself where a name is not enough: one that comes after it may have the same.
func (h *Host) self() string { return processOf(h.me) }

func processOf(m store.Member) string { return fmt.Sprintf("%s@%d", m.ID, m.Started.UnixNano()) }

// loans reads what a lease that was just taken says of lent jobs.
func loans(h *Host, lease store.Lease) map[lentJob]*loan {
	all := map[lentJob]*loan{}
	for _, l := range lease.Lent {
		if l.By != h.self() || h.tasks.runs(l.Actor, l.Job) {
			all[lentJob{l.Actor, l.Job}] = &loan{l.By, time.Now().Add(l.Within)}
		}
	}
	return all
}

func (p *partition) lentTo(a actor.Address, n uint64) (*loan, bool) {
	p.lending.Lock()
	defer p.lending.Unlock()
	l, ok := p.lent[lentJob{a, n}]
	return l, ok
}

// stillLent is what the lease has to go on saying.
func (p *partition) stillLent() (all []store.Lent) {
	p.lending.Lock()
	defer p.lending.Unlock()
	for j, l := range p.lent {
		if left := time.Until(l.until); left > 0 {
			all = append(all, store.Lent{Actor: j.a, Job: j.n, By: l.by, Within: left})
		}
	}
	return all
}

// expect waits for the answer of a lent job, which ends ctx. It reports true when none is to be expected.
func (c *cell) expect(ctx context.Context, t *task) bool {
	p := c.p
	for ctx.Err() == nil && time.Now().Before(t.lent.until) && p.h.lives(t.lent.by) {
		sleep(ctx, min(p.h.hurryEvery(), time.Until(t.lent.until)))
	}
	c.hear(ctx)
	if ctx.Err() != nil && p.handing.Load() {
		return false // it stays lent
	}
	p.lending.Lock()
	delete(p.lent, lentJob{t.actor, t.n})
	p.lending.Unlock()
	return ctx.Err() == nil
}

// hear waits until the cell has decided all that its inbox holds now: an answer may be among it.
func (c *cell) hear(ctx context.Context) {
	err := c.p.h.steadily(ctx, "the end of the inbox", func() error {
		end, err := c.p.h.Conn.InboxEnd(ctx, c.p.h.Names)
		for seq := uint64(0); err == nil && seq < end && sleep(ctx, lookAgain); {
			seq, _, err = c.p.read.CaughtUp(ctx)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.p.h.Log.Warn().Err(err).Str("actor", c.addr.String()).Msg("it is not known whether a job was answered: it is done again")
	}
	for ctx.Err() == nil && !c.quiet() {
		sleep(ctx, time.Millisecond)
	}
}

// quiet reports whether no turn is under way and none is due.
func (c *cell) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.running && len(c.ctl)+len(c.queue)+c.over.n == 0
}

// lives reports whether a process has said within the term of a lease that it lives.
func (h *Host) lives(process string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.living[process]
}

// lend sorts the jobs of a cell that is out of use: those that have begun go on, all others are abandoned, as is one whose
// answer was lost with the mailbox.
func (c *cell) lend() (going []*task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, t := range c.jobs {
		if c.p.handing.Load() && c.sent == nil && !t.remote && !t.pushed.Load() && (c.p.h.tasks.has(t) || t.brought.Load()) {
			going = append(going, t)
			continue
		}
		t.cancel()
		delete(c.jobs, n)
	}
	return going
}

// bring sends the answer to a job into the inbox of its actor. One that can't be sent is lost: the next owner does the job.
func (c *cell) bring(ctx context.Context, t *task, env actor.Envelope) {
	t.brought.Store(true)
	h, lane := c.p.h, env.Lane
	if c.addr.Host {
		lane = actor.LaneHost
	}
	env.From = c.addr.ID
	subject, data := h.Names.Inbox(c.addr.ID, lane, env.From), agent.Pack(&env)
	err := h.steadily(ctx, "an answer for the next owner", func() error {
		_, err := h.Conn.Send(subject, data).Wait(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		h.Log.Warn().Err(err).Str("actor", c.addr.String()).Uint64("job", t.n).Msg("an answer was lost: the next owner does the job again")
	}
}

// handOver stops a partition that is still ours and gives it back at once, free for whoever is to have it. Jobs that have
// begun go on.
func (h *Host) handOver(p *partition) {
	p.drain(drainTime)
	if h.Drain > 0 && p.ctx.Err() == nil {
		p.handing.Store(true)
		p.until(time.Now().Add(quietTime), p.quiet)
	}
	h.release(p)
}

// quiet reports whether no actor has a turn under way or due.
func (p *partition) quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.cells {
		if !c.quiet() {
			return false
		}
	}
	return true
}

// release stops a partition. If it is still ours it is given back with its watermark.
func (h *Host) release(p *partition) {
	busy, going := p.close()
	h.mu.Lock()
	delete(h.owned, p.n)
	h.mu.Unlock()
	next, rev := p.written(), p.rev // nobody writes it any more
	next.Owner, next.Deciding, next.Deaths, next.Lent = "", 0, 0, p.stillLent()
	next.Watermark, next.Stragglers = inLease(p.watermark(), busy)
	for _, t := range going {
		next.Lent = append(next.Lent, store.Lent{Actor: t.actor, Job: t.n, By: h.self(), Within: h.Drain})
	}
	if len(going) > 0 {
		time.AfterFunc(h.Drain, func() { h.giveBack(p, going) })
	} else {
		p.quit()
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_, err := h.Store.Leases.Write(ctx, p.n, next, rev)
	if err == nil {
		_ = h.Conn.Publish(h.Names.Released(), nil) // else the others see it within a second
		return
	}
	p.quit() // whoever has it does not know of the jobs
	if actor.KindOf(err) != actor.Conflict {
		h.Log.Warn().Err(err).Int("partition", p.n).Msg("a lease was not given back")
	}
}

// leave gives everything back. That this process is no member any more is said first, so that the others take what it
// gives back without delay.
func (h *Host) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if h.Drain > 0 {
		h.linger(ctx)
	}
	if h.rev != 0 { // else the name is another's
		if err := h.Store.Members.Leave(ctx, h.Member); err != nil {
			h.Log.Debug().Err(err).Msg("this member could not say that it leaves")
		}
	}
	var wg sync.WaitGroup
	for _, n := range h.ownedNumbers() {
		p := h.partition(n)
		wg.Go(func() { h.handOver(p) })
	}
	wg.Wait()
}

// giveBack ends the jobs that were lent and are not done in time.
func (h *Host) giveBack(p *partition, lent []*task) {
	for _, t := range lent {
		if h.tasks.has(t) && p.work.Err() == nil {
			t.tell(h.Log.Warn()).Msg("a job was not done in time, and is given back")
		}
	}
	p.quit()
}

func (h *Host) linger(ctx context.Context) {
	if err := h.Store.Members.Linger(ctx, h.me); err != nil && ctx.Err() == nil {
		h.Log.Debug().Err(err).Msg("this process could not say that it still lives")
	}
}

// lastWords is how long what was ended may take to end.
const lastWords = 2 * time.Second

// finish waits for the jobs that were lent, whose time is bounded, and then a little for everything to end. What does not
// end even so is told of and left behind.
func (h *Host) finish() {
	ended := make(chan struct{})
	go func() {
		h.background.Wait()
		close(ended)
	}()
	if n := h.tasks.count(); n > 0 && h.Drain > 0 {
		h.Log.Info().Int("jobs", n).Dur("drain", h.Drain).Msg("everything is given back; jobs under way may end")
	}
	over := time.NewTimer(max(h.Drain, 0) + lastWords)
	defer over.Stop()
	tick := time.NewTicker(h.renewEvery())
	defer tick.Stop()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-over.C:
			going = false
			for _, t := range h.tasks.all() {
				t.tell(h.Log.Error()).Msg("a job does not end: it is left behind")
			}
		case <-tick.C:
			if h.Drain > 0 {
				ctx, cancel := context.WithTimeout(context.Background(), h.renewEvery())
				h.linger(ctx)
				cancel()
			}
		}
	}
	if h.Drain <= 0 || h.Conn.Closed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if err := h.Store.Members.Gone(ctx, h.Member); err != nil {
		h.Log.Debug().Err(err).Msg("this process could not say that it ends")
	}
}
