package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	idBlock = 4096    // so many ids are reserved at once; a process that ends loses the rest of them
	idSpace = 1 << 32 // so many there are
	maxTake = 1 << 20
)

// IDs makes the ids of subagents: "sub_" and 8 lower-case hex digits, no two alike in a namespace.
// They are unique by construction: processes reserve blocks of one counter by compare-and-set, and
// a fixed bijection on 32 bits spreads them.
type IDs struct {
	kv        bucket
	lock      chan struct{} // holds one token; whoever has it may touch next and end
	next, end uint64        // the rest of the reserved block
}

// NewIDs gives a source of ids with a block of its own. A Store has one already.
func NewIDs(s *Store) *IDs {
	return &IDs{kv: s.leases, lock: make(chan struct{}, 1)}
}

// Next gives one new id. QuotaExceeded means that all 2^32 ids are given out.
func (i *IDs) Next(ctx context.Context) (actor.ID, error) {
	ids, err := i.Take(ctx, 1)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// Take gives n new ids, at most 2^20. With an error none of them is used, nor will be.
func (i *IDs) Take(ctx context.Context, n int) ([]actor.ID, error) {
	const op = "store.IDs.Take"
	if n < 0 || n > maxTake {
		return nil, &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: "n",
			Err: fmt.Errorf("%d ids, at most %d at once", n, maxTake)}
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	select {
	case i.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, fault(op, "", ctx.Err())
	}
	defer func() { <-i.lock }()

	ids := make([]actor.ID, 0, min(n, idBlock))
	for len(ids) < n {
		if i.next == i.end {
			if err := i.reserve(ctx, n-len(ids)); err != nil {
				return nil, fault(op, "", err)
			}
		}
		ids = append(ids, actor.ID(fmt.Sprintf("sub_%08x", scramble(uint32(i.next)))))
		i.next++
	}
	return ids, nil
}

var errNoIDs = errors.New("all 2^32 ids are given out")

// A counter is the record under subjects.IDsKey: the first count that is not reserved.
type counter struct {
	Next uint64 `json:"next"`
}

// reserve takes the next block, of at least n ids while there are so many. A write whose outcome is
// unknown costs at most a block.
func (i *IDs) reserve(ctx context.Context, n int) error {
	for {
		var c counter
		rev, err := i.kv.load(ctx, subjects.IDsKey, &c)
		if err != nil {
			return err
		}
		if c.Next >= idSpace {
			return errNoIDs
		}
		end := min(c.Next+uint64(max(n, idBlock)), idSpace)
		_, err = i.kv.save(ctx, "", subjects.IDsKey, counter{end}, expect(rev))
		if err == nil {
			i.next, i.end = c.Next, end
			return nil
		}
		if !conflict(err) {
			return err
		}
		pause(ctx, time.Duration(rand.Int64N(int64(5*time.Millisecond))))
	}
}

// load reads the JSON value of a key from the leader. A key without a value leaves v as it is; the
// revision is what a save must expect, also behind a deletion.
func (b bucket) load(ctx context.Context, key string, v any) (rev uint64, err error) {
	m, err := b.get(ctx, query{Last: b.subject(key)})
	if errors.Is(err, errNoMessage) {
		return 0, nil
	}
	if err != nil || m.deleted() {
		return m.Seq, err
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return 0, fmt.Errorf("key %q, revision %d: %w", key, m.Seq, err)
	}
	return m.Seq, nil
}
