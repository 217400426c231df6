package history

import (
	"encoding/json"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// refusals are the errors that a sound request may get in this load.
var refusals = []actor.Kind{actor.QuotaExceeded, actor.Conflict, actor.ThreadTerminated, actor.DepthExceeded}

// final reports whether an answer is the one that a request has for good, however often it is made. Errors
// are not: most of them say that the same request may succeed later.
func final(m a2e.Message) bool {
	switch m := m.(type) {
	case *a2e.SpawnResp, *a2e.MergeResp, *a2e.DelegateResp:
		return true
	case *a2e.MessageResp:
		return m.Delivered
	}
	return false
}

// accepted reports whether the first answer says that something was done.
func (c *Call) accepted() bool {
	switch m := c.answers[0].(type) {
	case *a2e.DelegateResp:
		return m.Accepted
	case *a2e.MessageResp:
		return m.Delivered
	}
	return false
}

// checkCalls: every request is answered in the end, as the protocol has it, and has one answer for all its
// tries.
func (x *inspection) checkCalls() {
	for _, c := range x.Calls {
		if len(c.answers) == 0 {
			x.violation("every request is answered", "%s", c)
			continue
		}
		first := -1
		for i, m := range c.answers {
			if m == nil {
				x.violation("answers are of the protocol", "%s\n   %s", c, c.raw[i])
				continue
			}
			if e, ok := m.(*a2e.Error); ok && !x.mayRefuse(c, e) {
				x.violation("sound requests are not refused", "%s\n   %s", c, c.raw[i])
			}
			switch {
			case final(m) && first < 0:
				first = i
			case final(m) && c.raw[i] != c.raw[first]:
				x.violation("a request has one answer", "%s\n   %s\n   %s", c, brief(c.raw[first]), brief(c.raw[i]))
			case first >= 0 && !final(m):
				x.violation("what was answered is not taken back", "%s\n   %s\n   %s", c, brief(c.raw[first]), brief(c.raw[i]))
			}
		}
	}
}

func (x *inspection) mayRefuse(c *Call, e *a2e.Error) bool {
	if _, ok := c.request.(*a2e.AwaitReq); ok && e.Code == actor.Timeout {
		return true
	}
	return slices.Contains(refusals, e.Code)
}

// checkSpawns: one child for each name, in the place that was asked for. None where the answer was no, unless
// another try of the same request came through: an error asks for one.
func (x *inspection) checkSpawns() {
	byName := map[string][]*life{}
	for _, l := range x.inOrder() {
		if l.birth.Composition == nil || l.birth.Composition.Relationship == nil { // instances have names of their agents' choice
			byName[l.birth.Config.Name] = append(byName[l.birth.Config.Name], l)
		}
	}
	for name, lives := range byName {
		if len(lives) > 1 {
			x.violation("one child for each spawn", "%s was born %d times: %s and %s", name, len(lives), lives[0].id, lives[1].id)
		}
	}
	for _, c := range x.Calls {
		req, ok := c.request.(*a2e.SpawnReq)
		if !ok || len(c.answers) == 0 {
			continue
		}
		lives := byName[req.Agent.Name]
		resp, ok := c.answers[0].(*a2e.SpawnResp)
		switch {
		case !ok && len(lives) > 0 && c.tries == 1:
			x.violation("a refused spawn leaves no child", "%s exists: %s", lives[0].id, c)
		case ok && (len(lives) == 0 || lives[0].id != resp.SubagentID):
			x.violation("a spawn that was answered has its child", "%s", c)
		case ok && req.ParentAgentID != "" && lives[0].birth.Lineage.Parent() != req.ParentAgentID:
			x.violation("a child stands below its parent", "%s is below %s: %s", resp.SubagentID, lives[0].birth.Lineage.Parent(), c)
		}
	}
}

// checkTasks: an accepted task was taken once and has ended; a refused one was not taken.
func (x *inspection) checkTasks() {
	type place struct {
		l       *life
		session uint64
	}
	taken := map[string][]place{}
	for _, l := range x.inOrder() {
		for _, e := range l.entries {
			if e.Kind == actor.EntryTask {
				taken[e.Name] = append(taken[e.Name], place{l, e.Session})
			}
		}
	}
	for name, places := range taken {
		if len(places) > 1 {
			x.violation("a task is taken once", "%s by %s in session %d and by %s in session %d", name, places[0].l.id, places[0].session, places[1].l.id, places[1].session)
		}
	}
	for _, c := range x.Calls {
		req, ok := c.request.(*a2e.DelegateReq)
		if !ok || len(c.answers) == 0 {
			continue
		}
		places := taken[req.Task.Name]
		switch {
		case !c.accepted() && len(places) > 0 && (c.tries == 1 || final(c.answers[0])):
			x.violation("a refused task is not taken", "%s has it in session %d: %s", places[0].l.id, places[0].session, c)
		case c.accepted() && (len(places) == 0 || places[0].l.id != req.SubagentID):
			x.violation("an accepted task is not lost", "%s", c)
		case c.accepted() && places[0].l.ends[places[0].session].Name == "":
			x.violation("an accepted task ends", "session %d of %s has not: %s", places[0].session, places[0].l.id, c)
		}
	}
}

// checkNotes: of the messages that a worker sent one after the other, those that were delivered are in
// the history, once each and in order.
func (x *inspection) checkNotes() {
	type route struct {
		from   actor.ID
		worker int
		to     actor.ID
	}
	seen := map[route][]int{}
	for _, l := range x.inOrder() {
		for _, e := range l.entries {
			if e.Kind != actor.EntryMessage || e.Type != "note" {
				continue
			}
			var n note
			if err := json.Unmarshal(e.Content.JSON, &n); err != nil {
				x.violation("messages arrive as they were sent", "%s got %s", l.id, brief(string(e.Content.JSON)))
				continue
			}
			r := route{e.From, n.Worker, l.id}
			if before := seen[r]; len(before) > 0 && before[len(before)-1] >= n.N {
				x.violation("messages keep their order", "%s got message %d of worker %d of %s behind %d", l.id, n.N, n.Worker, e.From, before[len(before)-1])
			}
			seen[r] = append(seen[r], n.N)
		}
	}
	for _, c := range x.Calls {
		req, ok := c.request.(*a2e.MessageReq)
		if !ok || len(c.answers) == 0 {
			continue
		}
		var n note
		if err := json.Unmarshal(req.Message.Content, &n); err != nil {
			x.violation("messages arrive as they were sent", "%s", c)
			continue
		}
		there := slices.Contains(seen[route{c.agent, n.Worker, req.ToSubagentID}], n.N)
		if _, said := c.answers[0].(*a2e.MessageResp); c.accepted() != there && (said || c.tries == 1) {
			x.violation("a message is there when the answer says so", "it is %v that it is there: %s", there, c)
		}
	}
}
