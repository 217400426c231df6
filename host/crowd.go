package host

import (
	"fmt"
	"sync"

	"github.com/troupehq/troupe/actor"
)

// A crowd bounds how many requests are inside at a time, in all and of one caller: nobody can keep the
// others out.
type crowd struct {
	most, mostOfOne int

	mu     sync.Mutex
	inside int
	of     map[actor.ID]int
}

func newCrowd(most, mostOfOne int) *crowd {
	return &crowd{most: most, mostOfOne: mostOfOne, of: map[actor.ID]int{}}
}

// enter lets a request in, or says why not. Who was let in has to leave.
func (c *crowd) enter(caller actor.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.of[caller] >= c.mostOfOne:
		return &actor.Error{ID: caller, Kind: actor.Unavailable, Err: fmt.Errorf("%d such requests of this agent are under way here", c.mostOfOne)}
	case c.inside >= c.most:
		return &actor.Error{Kind: actor.Unavailable, Err: fmt.Errorf("%d such requests are under way here", c.most)}
	}
	c.inside++
	c.of[caller]++
	return nil
}

func (c *crowd) leave(caller actor.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	if c.of[caller]--; c.of[caller] == 0 {
		delete(c.of, caller)
	}
}
