package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// statusOf is what A2E calls the end of a session.
func statusOf(reason string) a2e.Status {
	switch agent.StopReason(reason) {
	case agent.StopDone:
		return a2e.Completed
	case agent.StopCancelled:
		return a2e.Cancelled
	case agent.StopTerminated:
		return a2e.Terminated
	}
	return a2e.Failed
}

// ended reports whether a session of the thread, the one that an answer names, ended as the answer says.
func (l *life) ended(resp *a2e.AwaitResp) bool {
	for n, e := range l.ends {
		same := statusOf(e.Name) == resp.Status && (resp.Status != a2e.Completed || sameJSON(e.Content.JSON, resp.Result))
		if same && (resp.Session == 0 || resp.Session == n) {
			return true
		}
	}
	return false
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// checkAwaits: an await is answered with an end that the journal has, too; the first terminal word wins:
// whatever was said of a session stays true.
func (x *inspection) checkAwaits() {
	for _, c := range x.Calls {
		req, ok := c.request.(*a2e.AwaitReq)
		if !ok {
			continue
		}
		l := x.lives[req.SubagentID]
		for _, m := range c.answers {
			resp, ok := m.(*a2e.AwaitResp)
			if !ok || l == nil {
				continue
			}
			switch status := resp.Status; {
			case status == a2e.Running || status == a2e.Waiting:
				x.violation("an await is answered with an end", "%s", c)
			case status == a2e.Ready, l.ended(resp):
			case status == a2e.Terminated && l.last().Terminated():
			case status == a2e.Cancelled && l.cancelledUnused():
			default:
				x.violation("an await tells what the journal has", "%s has no such end: %s", l.id, c)
			}
		}
	}
}

// cancelledUnused reports whether the thread was cancelled before it had a session.
func (l *life) cancelledUnused() bool {
	return slices.ContainsFunc(l.states, func(t *agent.Thread) bool {
		n, _, _, _ := t.At()
		return n == 0 && t.Status() == a2e.Cancelled
	})
}

// A stop is a cancel or terminate from outside.
type stop struct {
	*Call
	target    actor.ID
	terminate bool
	answered  bool
}

func (x *inspection) stops() (all []stop) {
	for _, c := range x.Calls {
		s := stop{Call: c, answered: len(c.answers) > 0}
		if s.answered {
			_, s.answered = c.answers[0].(*a2e.Event)
		}
		switch r := c.request.(type) {
		case *a2e.CancelReq:
			s.target = r.SubagentID
		case *a2e.TerminateReq:
			s.target, s.terminate = r.SubagentID, true
		default:
			continue
		}
		all = append(all, s)
	}
	return all
}

// checkStops: what a cancel found open is closed when the answer comes, with everything below; what was
// terminated stays so. No session is cancelled that nobody asked to cancel.
func (x *inspection) checkStops() {
	stops := x.stops()
	for _, l := range x.inOrder() {
		lineage := l.birth.Lineage
		asked := l.stopsOwn(x)
		for _, s := range stops {
			if !lineage.Under(s.target) {
				continue
			}
			if s.answered {
				x.checkStopped(l, s)
			}
		}
		for n, e := range l.ends {
			reason := agent.StopReason(e.Name)
			if asked || reason != agent.StopCancelled && reason != agent.StopTerminated {
				continue
			}
			if !slices.ContainsFunc(stops, func(s stop) bool {
				return lineage.Under(s.target) && s.terminate == (reason == agent.StopTerminated) && s.first.UnixMicro() <= e.At
			}) {
				x.violation("nothing is stopped that nobody asked for", "session %d of %s ended with %s at %s", n, l.id, e.Name, clock(time.UnixMicro(e.At)))
			}
		}
	}
}

// checkStopped looks at what one answered stop has to have done to a thread.
func (x *inspection) checkStopped(l *life, s stop) {
	from, until := s.first.UnixMicro(), s.done.UnixMicro()
	if born := l.records[0].At; born > from {
		return
	}
	if s.terminate && !l.last().Terminated() {
		x.violation("a terminate reaches everything below", "%s is %s after %s", l.id, l.last().Status(), s.Call)
	}
	for n, at := range l.opened {
		if e, over := l.ends[n]; at < from && (!over || e.At > until) {
			x.violation("a stop reaches everything below", "session %d of %s, opened at %s, was still open when the answer came to %s", n, l.id, clock(time.UnixMicro(at)), s.Call)
		}
	}
}

// stopsOwn reports whether a thread above has stopped some of its own descendants by a tool.
func (l *life) stopsOwn(x *inspection) bool {
	for _, id := range l.birth.Lineage.Ancestors {
		above := x.lives[id]
		if above != nil && slices.ContainsFunc(above.entries, func(e actor.Entry) bool {
			return e.Kind == actor.EntryCall && (e.Name == "subagent_cancel" || e.Name == "subagent_terminate")
		}) {
			return true
		}
	}
	return false
}

// checkSessions: a thread's states follow each other as they may, every session but an open one has its
// end, and none is open for ever.
func (x *inspection) checkSessions() {
	for _, l := range x.inOrder() {
		for i := 1; i < len(l.states); i++ {
			x.checkEdge(l, i)
		}
		last := l.last()
		sessions, _, _, _ := last.At()
		if status := last.Status(); status == a2e.Running || status == a2e.Waiting {
			jobs, timers := last.Outstanding()
			x.violation("nothing runs for ever", "%s is %s in session %d since record %d of %s, with jobs %v and timers %v outstanding",
				l.id, status, sessions, l.records[len(l.records)-1].seq, clock(time.UnixMicro(l.records[len(l.records)-1].At)), jobs, timers)
			continue
		}
		for n := uint64(1); n <= sessions; n++ {
			if _, ok := l.ends[n]; !ok {
				x.violation("a session that is over has its end in the history", "session %d of %s has none", n, l.id)
			}
		}
	}
}

// checkEdge looks at one transition.
func (x *inspection) checkEdge(l *life, i int) {
	from, to := l.states[i-1], l.states[i]
	s, _, steps, _ := from.At()
	s2, _, steps2, _ := to.At()
	a, b := from.Status(), to.Status()
	if s2 < s || steps2 < steps || !legal(a, b, s2-s) {
		x.violation("states follow each other as they may", "%s went from %s (session %d, step %d) to %s (session %d, step %d) in record %d", l.id, a, s, steps, b, s2, steps2, l.records[i].seq)
	}
}

// legal reports whether a thread that is a may be b next, so many sessions later.
func legal(a, b a2e.Status, sessions uint64) bool {
	switch {
	case a == a2e.Terminated:
		return b == a2e.Terminated && sessions == 0
	case sessions > 0 || b == a2e.Terminated:
		return true
	case a.Closed():
		return a == b
	case a == a2e.Ready:
		return b == a2e.Ready || b == a2e.Cancelled
	}
	return b != a2e.Ready
}
