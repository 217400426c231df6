package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// prompt notes that a message prompts a side: it forces the side's next turn, unless a step of that side
// will show it anyway.
func (x *turn) prompt(side actor.Lane, content []byte) {
	c := x.head.Composed
	if side == actor.LaneB && x.def.SideB == nil {
		return // it is in the history; nobody of this thread acts on it
	}
	if c.Unseen[0]+c.Unseen[1] == 0 {
		c.Next = Opener{ID: x.env.From, Session: x.env.Session}
	}
	c.Unseen[index(side)]++
	if s := x.def.side(side); s != nil && s.Human && content != nil {
		c.Question = clipValue(content)
	}
}

// alternate goes on with a composed thread: a step of the side whose turn it is, or the other side's turn, or
// a person's.
func (x *turn) alternate() {
	h, c := &x.head, x.head.Composed
	if h.Ending {
		return
	}
	if !h.Open && !h.Terminated {
		for _, side := range []actor.Lane{actor.LaneA, actor.LaneB} {
			if c.Unseen[index(side)] > 0 && !h.Open {
				x.open(c.Next, false)
				x.give(side)
			}
		}
	}
	for h.Open && h.Job == 0 && h.SleepUntil == 0 && h.callsDone() && !h.Ending {
		h.Calls = nil
		if x.alternateOnce() {
			return
		}
	}
	if !h.Open && !h.Ending && !h.Terminated && c.Unseen[0]+c.Unseen[1] > 0 {
		x.out.More = true // a message that came meanwhile opens the next session
	}
}

// alternateOnce makes one move, and reports whether the thread waits now.
func (x *turn) alternateOnce() bool {
	h, c := &x.head, x.head.Composed
	side, other := x.def.side(c.Turn), opposite(c.Turn)
	switch {
	case c.Stopping != nil:
		s := c.Stopping
		if len(s.Attachments) > 0 && s.Job == 0 {
			x.bring(s)
		}
		if s.Job != 0 {
			return true
		}
		c.Stopping, c.Brought, c.Note = nil, s.Brought, s.Note
		x.end(s.Reason, s.Result, s.Error)
		return true
	case c.Ask != nil && c.Unseen[index(other)] == 0:
		return true
	case c.Ask != nil: // the other side was prompted, and acts instead of the person
		c.Ask = nil
		x.give(other)
	case c.Over && c.Unseen[index(c.Turn)] == 0:
		x.pass(other)
	case side == nil:
		x.end(StopError, actor.Value{}, "side "+string(c.Turn)+" has nothing that could act")
	case side.Human:
		x.ask()
		return true
	default:
		x.sideStep(side)
		return h.Job != 0 || h.asking()
	}
	return false
}

// give begins a side's turn.
func (x *turn) give(side actor.Lane) {
	c := x.head.Composed
	if most := x.def.MaxSessionTurns; most > 0 && c.Turns >= most {
		x.end(StopMaxTurns, actor.Value{}, fmt.Sprintf("not done after %d turns, the most a session may have", c.Turns))
		return
	}
	c.Turn, c.Over, c.Spoke = side, false, false
	c.Turns++
}

// pass ends a side's turn. Where nobody but the caller is on the other side, the session has its result.
func (x *turn) pass(other actor.Lane) {
	c := x.head.Composed
	if x.def.side(other) == nil {
		x.end(StopDone, resultOf(c.Reply), "")
		return
	}
	x.give(other)
}

// resultOf makes a result of a reply: an object as it is, anything else as {"output": …}.
func resultOf(v actor.Value) actor.Value {
	if v.Blob || len(v.JSON) > 0 && v.JSON[0] == '{' {
		return v
	}
	reply := v.JSON
	if len(reply) == 0 {
		reply = []byte("null")
	}
	return actor.Value{JSON: append(append([]byte(`{"output":`), reply...), '}')}
}

// sideStep begins a step of the side's model or handler.
func (x *turn) sideStep(side *Side) {
	h, c := &x.head, x.head.Composed
	i := index(c.Turn)
	if c.Steps[i] >= side.maxSteps() {
		x.end(StopMaxSteps, actor.Value{}, fmt.Sprintf("not done after %d steps, the most side %s may take", c.Steps[i], c.Turn))
		return
	}
	if !x.allowed() {
		return
	}
	c.Over = false
	c.Steps[i]++
	c.Unseen[i], x.backlog = 0, 0
	x.consume()
	h.Step++
	h.Steps++
	c.Before[i], c.Last[i] = c.Last[i], h.Steps
	h.Job, h.Tries = x.newJob(JobModel, nil), 0
	x.dirty = x.dirty || h.Step > 1
	x.event("step", stepped{h.Session, c.Steps[i], side.maxSteps()})
}

// eachCall walks through the calls of the step, and those that were asked for from outside any step.
func (h *head) eachCall(yield func(*call) bool) {
	for i := range h.Calls {
		if !yield(&h.Calls[i]) {
			return
		}
	}
	if h.Composed == nil {
		return
	}
	for i := range h.Composed.Pending {
		if !yield(&h.Composed.Pending[i]) {
			return
		}
	}
}

func (h *head) callsDone() bool {
	for i := range h.Calls {
		if !h.Calls[i].Done {
			return false
		}
	}
	return true
}

// responded takes a response without tool calls: it ends the side's turn, or the side goes on.
func (x *turn) responded(s *Step) {
	c := x.head.Composed
	if !s.Done && len(s.Said.JSON) == 0 || s.Sleep > 0 {
		return // nothing was said
	}
	side := x.def.side(c.Turn)
	silent := side.Handler != "" && len(s.Said.JSON) == 0
	if side.stopsOnResponse() {
		c.Over = true
	}
	if silent && c.Spoke {
		return // the response of the turn stands
	}
	c.Reply, c.Spoke = s.Said, !silent
	if s.Done && (len(s.Said.JSON) == 0 || !isOutput(s.Result.JSON)) {
		c.Reply = s.Result
	}
	x.asks(opposite(c.Turn), c.Reply.JSON)
	if len(s.Said.JSON) == 0 && string(c.Reply.JSON) != "null" { // the other side reads it as what was said
		x.entry(actor.Entry{Kind: actor.EntrySay, Shown: x.head.Steps, Side: opposite(c.Turn), From: x.head.Lineage.ID, Content: c.Reply})
	}
}

// isOutput reports whether a result is no more than the text that was said.
func isOutput(result []byte) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(result, &fields) == nil && len(fields) == 1 && fields["output"] != nil
}

// maxQuestion is how much of what a person is asked stands in the head and in the registry.
const maxQuestion = 1024

// clipValue keeps a value that is small, and of a longer text its beginning.
func clipValue(content []byte) actor.Value {
	if len(content) <= maxQuestion {
		return actor.Value{JSON: content}
	}
	var text string
	if json.Unmarshal(content, &text) != nil {
		text = string(content)
	}
	return actor.Value{JSON: quote(strings.ToValidUTF8(text[:min(len(text), maxQuestion)], "") + "…")}
}
