package host

import (
	"errors"
	"slices"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// merging is a merge whose job is under way.
type merging struct {
	N       uint64
	From    actor.ID
	Session uint64
	Key     actor.Key
	Asker   actor.Asker
	Body    []byte
}

// merge starts the job that combines the results. Which of them may be merged is checked there,
// against the journals.
func (x *treeTurn) merge(m *agent.Merge) {
	x.head.Jobs++
	m.Caller = x.env.From
	body := agent.Pack(m)
	x.head.Merges = append(x.head.Merges, merging{N: x.head.Jobs, From: x.env.From, Session: x.env.Session, Key: x.env.Key, Asker: x.env.Asker, Body: body})
	x.out.Jobs = append(x.out.Jobs, actor.Job{N: x.head.Jobs, Kind: agent.JobMerge, Body: body})
}

// merged takes the outcome of a merge: an A2E message, MERGE_RESP or error, as JSON.
func (x *treeTurn) merged(a *agent.JobAnswer) {
	at := slices.IndexFunc(x.head.Merges, func(m merging) bool { return m.N == a.N })
	if at < 0 {
		return
	}
	m := x.head.Merges[at]
	x.head.Merges = slices.Delete(x.head.Merges, at, at+1)
	env := actor.Envelope{From: m.From, Session: m.Session, Key: m.Key, Asker: m.Asker}
	msg, err := a2e.DecodeAnswer(a.Content.JSON)
	if a.Err != "" && a.Content.IsZero() {
		err = errors.New(a.Err)
	}
	switch r := msg.(type) {
	case *a2e.MergeResp:
		r.Envelope = agent.Around(m.Asker, x.in.Now)
		agent.Reply(&x.out, &env, r, true)
		x.event(m.From, "merged", merged{len(a.Content.JSON)})
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
