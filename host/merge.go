package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// merging is a merge whose job is under way. Another try of the same request has the same job.
type merging struct {
	N       uint64
	From    actor.ID
	Session uint64
	Key     actor.Key
	Asker   actor.Asker
	Body    []byte
}

// maxMerging is how many bytes the requests of merges under way may have, together.
const maxMerging = 256 << 10

// merge starts the job that combines the results. Which of them may be merged is checked there,
// against the journals. Another try of a request whose merge is under way waits for that one.
func (x *treeTurn) merge(m *agent.Merge) {
	waiting := len(x.env.Body)
	for _, under := range x.head.Merges {
		waiting += len(under.Body)
	}
	if waiting > maxMerging {
		x.refuse(&actor.Error{ID: x.head.Root, Kind: actor.QuotaExceeded, Err: fmt.Errorf("merges of %d subagents are under way", waiting/len("sub_00000000 "))})
		return
	}
	if at := slices.IndexFunc(x.head.Merges, func(o merging) bool { return o.Key.ID != "" && o.Key.ID == x.env.Key.ID }); at >= 0 {
		again := x.head.Merges[at]
		if again.Key != x.env.Key {
			x.refuse(&actor.Error{Kind: actor.Conflict, Field: "id", Err: errors.New("the id was used for another request")})
			return
		}
		again.Asker, again.Body = x.env.Asker, nil
		x.head.Merges = append(x.head.Merges, again)
		return
	}
	x.head.Jobs++
	m.Caller = x.env.From
	body := agent.Pack(m)
	x.head.Merges = append(x.head.Merges, merging{N: x.head.Jobs, From: x.env.From, Session: x.env.Session, Key: x.env.Key, Asker: x.env.Asker, Body: body})
	x.out.Jobs = append(x.out.Jobs, actor.Job{N: x.head.Jobs, Kind: agent.JobMerge, Body: body})
}

// merged takes the outcome of a merge: an A2E message, MERGE_RESP or error, as JSON. Every try of the request
// is answered with it.
func (x *treeTurn) merged(a *agent.JobAnswer) {
	first := true
	x.head.Merges = slices.DeleteFunc(x.head.Merges, func(m merging) bool {
		if m.N != a.N {
			return false
		}
		x.answerMerge(&m, a, first)
		first = false
		return true
	})
}

func (x *treeTurn) answerMerge(m *merging, a *agent.JobAnswer, first bool) {
	env := actor.Envelope{From: m.From, Session: m.Session, Key: m.Key, Asker: m.Asker}
	msg, err := a2e.DecodeAnswer(a.Content.JSON)
	if a.Err != "" && a.Content.IsZero() {
		err = errors.New(a.Err)
	}
	switch r := msg.(type) {
	case *a2e.MergeResp:
		r.Envelope = agent.Around(m.Asker, x.in.Now)
		agent.Reply(&x.out, &env, r, first)
		if first {
			x.event(m.From, "merged", merged{len(a.Content.JSON)})
		}
	case *a2e.Error:
		r.Envelope = agent.Around(m.Asker, x.in.Now)
		agent.Reply(&x.out, &env, r, false)
	default:
		agent.Reply(&x.out, &env, a2e.NewError(agent.RequestOf(m.Asker), x.in.Now, &actor.Error{Op: "host.Merge", Kind: actor.RuntimeError, Err: err}), false)
	}
}

// merged is the content of the event merged.
type merged struct {
	Bytes int `json:"bytes"`
}
