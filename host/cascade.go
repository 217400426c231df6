package host

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// fanOut is how many envelopes one turn sends; a larger fan-out goes on in the next.
const fanOut = 1000

// A cascade stops a thread and everything below it. While it goes on nothing is spawned below its
// target. It stops every live descendant; each answers once all that it sent before is where it
// went to, and names the threads that it gave work to. Those are stopped next, if it was that work
// that opened their session, and so on until none is left.
type cascade struct {
	N         uint64
	Target    actor.ID
	Terminate bool
	Detach    bool // nothing below the target is touched
	Found     bool // the target is a thread, not the root outside
	Status    a2e.Status
	Changed   bool       // the target was stopped by it
	First     bool       // the first round goes on: it stops all there are, whoever opened their sessions
	After     actor.ID   // how far it has come, in the order of ids
	Queue     []actor.ID // of later rounds: still to be sent a stop
	Waiting   int        // stops not answered yet
	Floors    []agent.Opener
	Askers    []asked
}

// asked is who gets the event when the cascade is over.
type asked struct {
	From    actor.ID
	Session uint64
	Asker   actor.Asker
}

// target begins a cascade.
func (x *treeTurn) target(b *agent.Target, terminate bool) {
	k := x.known(b.ID)
	caller := x.env.From
	if !k.Found || !k.Under(caller) {
		x.refuse(&actor.Error{ID: b.ID, Kind: actor.NotFound, Field: "subagent_id", Err: errors.New("no such subagent")})
		return
	}
	x.head.Last++
	c := cascade{
		N: x.head.Last, Target: b.ID, Terminate: terminate, Detach: b.Detach && terminate, Found: b.ID != x.head.Root || IsThread(b.ID), First: true,
		Askers: []asked{{From: caller, Session: x.env.Session, Asker: x.env.Asker}},
	}
	x.head.Cascades = append(x.head.Cascades, c)
}

// below lists the threads that the first round of a cascade has yet to reach, in the order of ids: the
// target, the live ones under it, and for terminate the idle ones as well. The list is kept in memory
// only, for it may be long; what a record holds is how far the round has come.
func (x *treeTurn) below(c *cascade) []actor.ID {
	if ids, ok := x.rounds[c.N]; ok {
		return ids
	}
	found := map[actor.ID]bool{}
	if c.Found {
		found[c.Target] = true
	}
	for id, m := range x.members {
		if m.Lineage.Under(c.Target) && !c.Detach {
			found[id] = true
		}
	}
	for _, l := range x.head.Loose {
		if l.Giver.Under(c.Target) && !c.Detach {
			found[l.ID] = true
		}
	}
	if c.Terminate && !c.Detach {
		for _, k := range x.in.Tree {
			if !k.Terminated && k.Under(c.Target) {
				found[k.ID] = true
			}
		}
	}
	var ids []actor.ID
	for id := range found {
		if id > c.After {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// goOn sends the stops that are due, at most fanOut in one turn, and ends the cascades that wait for
// nothing.
func (x *treeTurn) goOn() {
	room := fanOut
	for i := range x.head.Cascades {
		c := &x.head.Cascades[i]
		if c.First {
			ids := x.below(c)
			n := min(room, len(ids))
			for _, id := range ids[:n] {
				x.stop(c, id, nil)
				c.After = id
			}
			x.rounds[c.N] = ids[n:]
			if c.First = n < len(ids); !c.First {
				delete(x.rounds, c.N)
			}
			room -= n
		}
		if c.First {
			continue
		}
		n := min(room, len(c.Queue))
		for _, id := range c.Queue[:n] {
			x.stop(c, id, c.Floors)
		}
		c.Queue = c.Queue[n:]
		room -= n
	}
	x.head.Cascades = slices.DeleteFunc(x.head.Cascades, func(c cascade) bool {
		x.out.More = x.out.More || c.First || len(c.Queue) > 0
		over := !c.First && len(c.Queue) == 0 && c.Waiting == 0
		if over {
			x.over(&c)
		}
		return over
	})
}

// stop sends a stop. With openers it is meant for a session that one of them opened only.
func (x *treeTurn) stop(c *cascade, id actor.ID, openers []agent.Opener) {
	c.Waiting++
	stop := agent.Stop{Cascade: c.N, Terminate: c.Terminate, Openers: openers, Floors: c.Floors}
	x.effect(actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: id}, Lane: actor.LaneCtl, Name: agent.KindStop, Body: agent.Pack(&stop)})
}

// stopped takes a thread's answer to a stop.
func (x *treeTurn) stopped(s *agent.Stopped) {
	at := slices.IndexFunc(x.head.Cascades, func(c cascade) bool { return c.N == s.Cascade })
	if at < 0 {
		return
	}
	c := &x.head.Cascades[at]
	id := x.env.From
	c.Waiting--
	x.heard(id)
	if id == c.Target {
		c.Status, c.Changed = s.Status, c.Changed || s.Changed
	}
	if c.Terminate || len(s.Opened) == 0 || !c.floor(agent.Opener{ID: id, Session: s.Session}) {
		return
	}
	for _, opened := range s.Opened {
		_, due := slices.BinarySearch(x.rounds[c.N], opened) // the first round will tell it of the floor
		if !due && !slices.Contains(c.Queue, opened) {
			c.Queue = append(c.Queue, opened)
		}
	}
}

// floor remembers that a session was stopped, and reports whether that is news: only then may there be
// more to stop, so that every cascade comes to an end.
func (c *cascade) floor(f agent.Opener) bool {
	for i := range c.Floors {
		if c.Floors[i].ID == f.ID {
			known := c.Floors[i].Session >= f.Session
			c.Floors[i].Session = max(c.Floors[i].Session, f.Session)
			return !known
		}
	}
	c.Floors = append(c.Floors, f)
	return true
}

// over answers whoever asked for the cascade. Success shows as an event (S0: no response messages):
// the one that the target itself published, or that it was over already.
func (x *treeTurn) over(c *cascade) {
	if c.Terminate && !c.Detach {
		x.closeAccounts(c.Target)
	}
	name := "cancelled"
	if c.Terminate {
		name = "terminated"
	}
	told := outcome{c.Status, true}
	switch {
	case !c.Found:
		told.Status = stoppedStatus(c.Terminate)
	case !c.Changed:
		name, told.Changed = "status_changed", false
	}
	content, err := json.Marshal(told)
	if err != nil {
		panic("host: encode the end of a cascade: " + err.Error())
	}
	for _, a := range c.Askers {
		env := actor.Envelope{From: a.From, Session: a.Session, Asker: a.Asker}
		agent.Reply(&x.out, &env, &a2e.Event{Envelope: agent.Around(a.Asker, x.in.Now), SubagentID: c.Target, Event: name, Content: content}, false)
	}
	if !c.Found {
		x.effect(actor.Effect{Kind: actor.EffectEvent, To: actor.Address{ID: c.Target}, Name: name, Body: content})
	}
}

// outcome is what the end of a cascade says of its target.
type outcome struct {
	Status  a2e.Status `json:"status"`
	Changed bool       `json:"changed"`
}

func stoppedStatus(terminate bool) a2e.Status {
	if terminate {
		return a2e.Terminated
	}
	return a2e.Cancelled
}
