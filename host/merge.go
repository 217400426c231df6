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
	if x.env.Key.ID != "" && x.mergeAgain() {
		return
	}
	if err := x.broke(m.Strategy); err != nil {
		x.refuse(err)
		return
	}
	waiting := len(x.env.Body)
	for _, under := range x.head.Merges {
		waiting += len(under.Body)
	}
	if waiting > maxMerging {
		x.refuse(&actor.Error{ID: x.head.Root, Kind: actor.QuotaExceeded, Err: fmt.Errorf("merges of %d subagents are under way", waiting/len("sub_00000000 "))})
		return
	}
	x.head.Jobs++
	m.Caller = x.env.From
	body := agent.Pack(m)
	x.head.Merges = append(x.head.Merges, merging{N: x.head.Jobs, From: x.env.From, Session: x.env.Session, Key: x.env.Key, Asker: x.env.Asker, Body: body})
	x.out.Jobs = append(x.out.Jobs, actor.Job{N: x.head.Jobs, Kind: agent.JobMerge, Body: body})
}

// mergeAgain takes another try of a request whose merge is under way, or was over earlier in this turn: the
// ledger knows only of what earlier turns have answered.
func (x *treeTurn) mergeAgain() bool {
	key := x.env.Key
	conflict := func() { // never kept: the key has, or will have, another answer
		msg := a2e.NewError(agent.RequestOf(x.env.Asker), x.in.Now, &actor.Error{Kind: actor.Conflict, Field: "id", Err: errors.New("the id was used for another request")})
		msg.Retryable = false
		x.reply(msg, false)
	}
	for _, m := range x.head.Merges {
		switch {
		case m.Key.ID != key.ID:
			continue
		case m.Key != key:
			conflict()
		default:
			m.Asker, m.Body = x.env.Asker, nil
			x.head.Merges = append(x.head.Merges, m)
		}
		return true
	}
	for _, e := range x.out.Effects {
		var s agent.Stored
		switch {
		case e.Kind != actor.EffectAnswer || e.Name != key.ID || agent.Unpack(e.Body, &s) != nil:
			continue
		case s.Digest != key.Digest:
			conflict()
		case !x.env.Asker.IsZero():
			x.effect(agent.AnswerEffect(x.env, s.JSON, s.IsError))
		}
		return true
	}
	return false
}

// merged takes the outcome of a merge: an A2E message, MERGE_RESP or error, as JSON. Every try of the request
// is answered with it.
func (x *treeTurn) merged(a *agent.JobAnswer) {
	first := true
	x.head.Merges = slices.DeleteFunc(x.head.Merges, func(m merging) bool {
		if m.N != a.N {
			return false
		}
		if first {
			x.spent(&m, a.Step.Used)
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
		agent.Reply(&x.out, &env, r, first && !r.Retryable) // a merge changes nothing: it may be tried again
	default:
		agent.Reply(&x.out, &env, a2e.NewError(agent.RequestOf(m.Asker), x.in.Now, &actor.Error{Op: "host.Merge", Kind: actor.RuntimeError, Err: err}), false)
	}
}

// merged is the content of the event merged.
type merged struct {
	Bytes int `json:"bytes"`
}
