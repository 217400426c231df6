package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// What kills the process that decides it (by its stack, by its memory) would kill the next owner, too. So a partition
// that was taken from dead owners carefulFrom times, without having settled anything meanwhile, is taken with care: what
// may have been under way is decided one message at a time, each named in the lease before. A message that maxDeaths
// owners in a row have died over is not decided again: it is a dead letter, and what it met fails.
//
// maxDeaths is more than the deaths after which a step is given up, since that may be what kills.
const (
	carefulFrom = 2
	maxDeaths   = 10
)

// alone is the care that a partition is taken with.
type alone struct {
	upto      uint64 // the last message that may have been under way; 0 without care
	condemned uint64 // a message that is not to be decided
}

// takeOver gives the lease as its next owner writes it.
func takeOver(l store.Lease, member string) store.Lease {
	if l.Owner != "" { // it was not given back
		l.Takeovers++
		if l.Deciding != 0 {
			l.Deaths++
		}
	}
	l.Owner, l.Epoch = member, l.Epoch+1
	return l
}

// beware finds out whether the partition is to be taken with care.
func (p *partition) beware(ctx context.Context) error {
	if p.lease.Takeovers <= carefulFrom {
		return nil
	}
	end, err := p.h.Conn.InboxEnd(ctx, p.h.Names)
	if err != nil || end <= p.lease.Watermark {
		return err
	}
	p.alone.upto = end
	if p.lease.Deaths >= maxDeaths {
		p.alone.condemned = p.lease.Deciding
	}
	p.h.Log.Warn().Int("partition", p.n).Int("takeovers", p.lease.Takeovers).Uint64("watermark", p.lease.Watermark).
		Uint64("condemned", p.alone.condemned).Msg("owners die without settling anything: messages are decided one at a time")
	return nil
}

// wary names a message in the lease before it is decided. It returns without when the partition is no longer ours.
func (p *partition) wary(seq uint64) {
	for again := (pace{}); p.ctx.Err() == nil; {
		err := p.rewrite(p.ctx, seq)
		if err == nil {
			return
		}
		if errors.Is(err, actor.Conflict) {
			lease, rev, err := p.h.Store.Leases.Get(p.ctx, p.n)
			if err == nil && (lease.Owner != p.h.Member || lease.Epoch != p.epoch) {
				p.stop()
				return
			}
			if err == nil {
				p.found(rev)
				continue
			}
		}
		again.failed(p.ctx, p.h.Log.WithLevel(again.level()).Err(err).Int("partition", p.n).Str("what", "a lease"))
	}
}

// settles waits for a message to be settled.
func (p *partition) settles(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.slots) > 0 && p.slots[0].seq <= seq && !p.closed {
		p.room.Wait()
	}
}

// condemn makes a poison of the message that owners have died over. A batch that has it among others is an error: it is
// to come alone.
func (c *cell) condemn(batch []actor.Envelope) error {
	seq := c.p.alone.condemned
	if seq == 0 || !slices.ContainsFunc(batch, func(e actor.Envelope) bool { return e.Seq == seq }) {
		return nil
	}
	if !oneMessage(batch) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.single, c.good = true, 0
		return errTooMany
	}
	c.poison = poison{seq, batch[0].ID, maxPanics, actor.RuntimeError, fmt.Sprintf("%d processes died while they decided it", maxDeaths)}
	return nil
}

// written is the lease as it was last written.
func (p *partition) written() store.Lease {
	p.leasing.Lock()
	defer p.leasing.Unlock()
	return p.lease
}

// found notes another revision of our own lease.
func (p *partition) found(rev uint64) {
	p.leasing.Lock()
	defer p.leasing.Unlock()
	p.rev = rev
}

// rewrite writes the lease with the present watermark and the actors that are busy. deciding is the message that is
// decided alone from now on; 0 leaves what stands there until it is settled.
func (p *partition) rewrite(ctx context.Context, deciding uint64) error {
	p.leasing.Lock()
	defer p.leasing.Unlock()
	next := p.lease
	next.Watermark, next.Stragglers = p.cut()
	next.Lent = p.stillLent()
	if next.Watermark > p.lease.Watermark {
		next.Takeovers = 0
	}
	switch {
	case deciding != 0 && deciding != next.Deciding:
		next.Deciding, next.Deaths = deciding, 0
	case deciding == 0 && next.Deciding <= next.Watermark:
		next.Deciding, next.Deaths = 0, 0
	}
	rev, err := p.h.Store.Leases.Write(ctx, p.n, next, p.rev)
	if err == nil {
		p.lease, p.rev = next, rev
	}
	return err
}
