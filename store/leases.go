package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A Lease says who owns a partition. It is kept as JSON, for operators to read.
type Lease struct {
	Owner      string          // member id; "" when it was released
	Epoch      uint64          // grows with each owner
	Watermark  uint64          // inbox messages of the partition up to here are settled
	Stragglers []actor.Address // actors with something outstanding at or below the watermark
	Takeovers  int             // from owners that had died, since the watermark last moved
	Deciding   uint64          // the message that the owner decides alone, or 0
	Deaths     int             // of owners, one after the other, while they decided it
	Lent       []Lent          // jobs of stragglers that an earlier owner still carries out
}

// A Lent is a job that whoever owned the partition before has begun and goes on with. Its answer comes into the inbox. A
// version that does not know of this carries the job out again, and drops the list when it writes the lease.
type Lent struct {
	Actor  actor.Address
	Job    uint64
	By     string        // the process, as it calls itself
	Within time.Duration // after which it is given up, counted from when the lease was taken over
}

type leaseJSON struct {
	Owner      string          `json:"owner"`
	Epoch      uint64          `json:"epoch"`
	Watermark  uint64          `json:"watermark"`
	Stragglers []stragglerJSON `json:"stragglers,omitempty"`
	Takeovers  int             `json:"takeovers,omitempty"`
	Deciding   uint64          `json:"deciding,omitempty"`
	Deaths     int             `json:"deaths,omitempty"`
	Lent       []lentJSON      `json:"lent,omitempty"`
}

type lentJSON struct {
	stragglerJSON
	Job    uint64 `json:"job"`
	By     string `json:"by"`
	Within int64  `json:"within_ms"`
}

type stragglerJSON struct {
	ID   actor.ID `json:"id"`
	Host bool     `json:"host,omitempty"`
}

// MarshalJSON spells the fields as operators see them.
func (l Lease) MarshalJSON() ([]byte, error) {
	j := leaseJSON{l.Owner, l.Epoch, l.Watermark, nil, l.Takeovers, l.Deciding, l.Deaths, nil}
	for _, a := range l.Stragglers {
		j.Stragglers = append(j.Stragglers, stragglerJSON{a.ID, a.Host})
	}
	for _, t := range l.Lent {
		j.Lent = append(j.Lent, lentJSON{stragglerJSON{t.Actor.ID, t.Actor.Host}, t.Job, t.By, t.Within.Milliseconds()})
	}
	return json.Marshal(j)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Lease) UnmarshalJSON(data []byte) error {
	var j leaseJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*l = Lease{j.Owner, j.Epoch, j.Watermark, nil, j.Takeovers, j.Deciding, j.Deaths, nil}
	for _, s := range j.Stragglers {
		l.Stragglers = append(l.Stragglers, actor.Address{ID: s.ID, Host: s.Host})
	}
	for _, t := range j.Lent {
		l.Lent = append(l.Lent, Lent{actor.Address{ID: t.ID, Host: t.Host}, t.Job, t.By, time.Duration(t.Within) * time.Millisecond})
	}
	return nil
}

// Leases holds one lease for each partition.
type Leases struct{ kv bucket }

// Get reads the lease of a partition from the leader. A partition that nobody has owned yet has the
// zero Lease and the revision 0.
func (l *Leases) Get(ctx context.Context, partition int) (lease Lease, rev uint64, err error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	rev, err = l.kv.load(ctx, subjects.LeaseKey(partition), &lease)
	if err != nil {
		return Lease{}, 0, fault("store.Leases.Get", "", err)
	}
	return lease, rev, nil
}

// Write replaces the lease of a partition whose present revision is rev, and gives the new
// revision. Conflict means that it has another: somebody else has written it, or an earlier Write
// whose outcome was unknown has arrived.
func (l *Leases) Write(ctx context.Context, partition int, lease Lease, rev uint64) (newRev uint64, err error) {
	return l.kv.save(ctx, "store.Leases.Write", subjects.LeaseKey(partition), lease, expect(rev))
}

// A Held is a Lease with its partition and its revision.
type Held struct {
	Partition int
	Rev       uint64
	Lease     Lease
}

// All reads the leases of all partitions that were ever owned, from the leader, in the order of
// their last write. While they are renewed it is not one cut: each is as of some moment during the
// call.
func (l *Leases) All(ctx context.Context) ([]Held, error) {
	const op = "store.Leases.All"
	found, err := l.kv.list(ctx, subjects.LeaseFilter)
	if err != nil {
		return nil, fault(op, "", err)
	}
	all := make([]Held, len(found))
	for i, m := range found {
		all[i].Rev = m.Seq
		if all[i].Partition, err = subjects.ParseLeaseKey(l.kv.key(m.Subject)); err == nil {
			err = json.Unmarshal(m.Data, &all[i].Lease)
		}
		if err != nil {
			return nil, fault(op, "", fmt.Errorf("key %q, revision %d: %w", l.kv.key(m.Subject), m.Seq, err))
		}
	}
	return all, nil
}
