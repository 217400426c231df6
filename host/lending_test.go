package host

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
)

// A job begins under its cell's lock, and asks whether another process has it; the lease is written under the
// partition's lock, and asks the cells. Neither may wait for the other.
func TestLendingLocks(t *testing.T) {
	t.Parallel()
	p := &partition{cells: map[actor.Address]*cell{}, spilled: map[*cell]uint64{}, lent: map[lentJob]*loan{}}
	p.room.L = &p.mu
	p.ctx = context.Background()
	a := actor.Address{ID: "sub_1"}
	c := newCell(p, a)
	p.cells[a] = c
	const often = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range uint64(often) {
			c.mu.Lock()
			p.lentTo(a, n)
			c.mu.Unlock()
		}
	})
	wg.Go(func() {
		for range often {
			p.cut()
			p.stillLent()
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the cell and the partition wait for each other: what is asked for under a cell's lock must not take the partition's")
	}
}
