package client

import (
	"context"
	"slices"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
)

// Members lists the processes that have said within the last seconds that they live, by id. It needs the right to
// read the bucket of members.
func (c *Client) Members(ctx context.Context) ([]store.Member, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	members, err := c.store.Members.List(ctx)
	slices.SortFunc(members, func(a, b store.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return members, err
}

// Services tells how the jobs stand that are for workers, by model and tool. It needs the right to list the consumers
// of the work stream.
func (c *Client) Services(ctx context.Context) ([]bus.Service, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	return c.cfg.Conn.Jobs(c.cfg.Names).Services(ctx)
}

// A Partition is a share of the inboxes, and how it does.
type Partition struct {
	Partition  int        `json:"partition"`
	Owner      string     `json:"owner"` // the member that holds the lease; "": nobody
	Live       bool       `json:"live"`  // the owner is among the members
	Epoch      uint64     `json:"epoch"` // how often it has changed hands
	Watermark  uint64     `json:"watermark"`
	Lag        uint64     `json:"lag"`        // messages above the watermark: waiting, or settled since the lease was written
	Stragglers []actor.ID `json:"stragglers"` // threads with jobs under way or sends not acknowledged; of a host, its tree's root
}

// Partitions tells of every partition of the namespace, also of those that nobody has owned yet. Watermarks are as of
// the last renewal of a lease, a second ago or less while its owner lives.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	ctx, cancel := c.within(ctx, nil)
	defer cancel()
	layout, err := c.cfg.Conn.Layout(ctx, c.cfg.Names)
	if err != nil {
		return nil, err
	}
	leases, err := c.store.Leases.All(ctx)
	if err != nil {
		return nil, err
	}
	members, err := c.store.Members.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Partition, layout.Partitions)
	for n := range all {
		all[n] = Partition{Partition: n, Stragglers: []actor.ID{}}
	}
	for _, held := range leases {
		if held.Partition < len(all) {
			all[held.Partition].tell(held.Lease, members)
		}
	}
	for n := range all {
		if all[n].Lag, err = c.cfg.Conn.Waiting(ctx, c.cfg.Names, n, all[n].Watermark); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tell sets what a lease says.
func (p *Partition) tell(l store.Lease, members []store.Member) {
	p.Owner, p.Epoch, p.Watermark = l.Owner, l.Epoch, l.Watermark
	p.Live = slices.ContainsFunc(members, func(m store.Member) bool { return m.ID == l.Owner })
	for _, a := range l.Stragglers {
		p.Stragglers = append(p.Stragglers, a.ID)
	}
}
