package host

import (
	"errors"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// sorry is said to those who wait for turns that fail. It is under the cell's mu.
type sorry struct {
	since time.Time       // when the first turn began that failed and had no success behind it; zero: none
	told  map[string]bool // by reply subject
}

// failed notes that a turn failed that began at a time.
func (c *cell) failed(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorry.since.IsZero() {
		c.sorry.since = began
	}
}

// succeeded notes that turns succeed.
func (c *cell) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sorry = sorry{}
}

// apologise tells whoever waits for an answer of this actor, whose turns have failed for storeTime, that nothing can be
// stored now and that they may try again. Their requests stay where they are and are decided in the end: who tries
// again under the same id then gets the one answer.
func (c *cell) apologise() {
	for _, a := range c.unanswered() {
		why := &actor.Error{ID: c.addr.ID, Kind: actor.Unavailable, Err: errors.New("it is not decided yet, since nothing can be stored now; try again under the same id")}
		data, err := a2e.Encode(a2e.NewError(agent.RequestOf(a), time.Now(), why))
		if err != nil {
			c.p.h.Log.Error().Err(err).Msg("an answer can't be encoded")
			continue
		}
		c.p.h.reply(a.Reply, data)
	}
}

// unanswered gives those who have not been told yet.
func (c *cell) unanswered() (askers []actor.Asker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorry.since.IsZero() || time.Since(c.sorry.since) < storeTime {
		return nil
	}
	if c.sorry.told == nil {
		c.sorry.told = map[string]bool{}
	}
	for _, waiting := range [][]actor.Envelope{c.ctl, c.queue} {
		for i := range waiting {
			if a := waiting[i].Asker; a.Reply != "" && !c.sorry.told[a.Reply] {
				c.sorry.told[a.Reply] = true
				askers = append(askers, a)
			}
		}
	}
	return askers
}
