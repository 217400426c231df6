package client

import (
	"context"
	"time"

	"github.com/troupehq/troupe/actor"
)

// An asking is the tries of one request.
type asking struct {
	c        *Client
	outcomes chan outcome
	open     int         // tries that have no outcome yet
	due      *time.Timer // fires when the next try is to be made
	look     *time.Ticker
	lives    uint64        // of the connection, when last looked
	repeat   time.Duration // between the last try and the next
	pause    time.Duration // the next, after a try that found nobody
	err      error         // of the last try, unless others are silent
}

// newAsking is due to make its first try.
func (c *Client) newAsking() *asking {
	s := &asking{c: c, outcomes: make(chan outcome), due: time.NewTimer(0), look: time.NewTicker(lookEvery), pause: firstPause}
	s.lives = c.cfg.Conn.NC.Stats().Reconnects
	return s
}

// close returns when the tries that are under way have ended, whose context is over.
func (s *asking) close() {
	s.due.Stop()
	s.look.Stop()
	for ; s.open > 0; s.open-- {
		<-s.outcomes
	}
}

// send makes a try, and has another follow: after a second at first, then ever later.
func (s *asking) send(ctx context.Context, t try) {
	if s.open > 0 {
		s.err = nil
	}
	s.open++
	go func() { s.outcomes <- s.c.try(ctx, t) }()
	s.repeat = min(max(2*s.repeat, firstRepeat), t.repeat)
	s.due.Reset(s.repeat)
}

// failed takes a try that another should follow: soon if it found nobody, when it is due otherwise.
func (s *asking) failed(err error) {
	s.err = err
	if actor.KindOf(err) != actor.Unavailable {
		return
	}
	s.repeat = 0
	s.due.Reset(s.pause)
	s.pause = min(2*s.pause, maxPause)
}

// lookForLoss makes a try due when the connection has come back from a loss.
func (s *asking) lookForLoss() {
	if now := s.c.cfg.Conn.NC.Stats().Reconnects; now != s.lives {
		s.lives = now
		s.due.Reset(0)
	}
}
