package agent

import (
	"encoding/json"
	"strconv"

	"github.com/troupehq/troupe/actor"
)

// boot takes up a creation that had to wait for variables (S1 §5.2). It is no call of a step: it goes on beside
// whatever the thread does, and the child's end comes as a message, also where the relationship blocks.
func (x *turn) boot(p *Prepare) {
	h := &x.head
	refuse := func(kind actor.Kind, why string) {
		x.bootAnswer(x.env.Asker, actor.Key{}, (&Refusal{Kind: kind, Message: why}).JSON(), true)
	}
	switch {
	case x.def == nil:
		refuse(actor.NotFound, "the thread has no relationships")
		return
	case h.Terminated:
		refuse(actor.ThreadTerminated, "the parent is terminated")
		return
	}
	for c := range h.eachCall {
		if c.Booted && c.Keyed == x.env.Key {
			refuse(actor.Conflict, "the creation is under way")
			return
		}
	}
	side := x.def.side(p.Owner)
	var r *Relationship
	var declared Relationship
	if json.Unmarshal(p.Relationship, &declared) == nil && side != nil {
		r = side.Relationship(declared.Name())
	}
	if r == nil {
		refuse(actor.NotFound, "the relationship is not declared any more")
		return
	}
	h.Jobs++
	c := call{Key: "boot-" + strconv.FormatUint(h.Jobs, 10), Booted: true, Asker: x.env.Asker, Keyed: x.env.Key}
	c.Create = &creation{Phase: phasePrepare, Relationship: r.Name(), Owner: p.Owner, Title: p.Title}
	h.Composed.Pending = append(h.Composed.Pending, c)
	under := &h.Composed.Pending[len(h.Composed.Pending)-1]
	body := *p
	body.Key = c.Key
	x.callJob(under, JobPrepare, &body)
	under.Create.Prepare = under.Body
}

// booted ends such a creation: whoever asked is answered, and the side that owns the relationship reads of it when it
// acts next.
func (x *turn) booted(c *call, content actor.Value, isError bool) {
	pending := x.head.Composed.Pending
	for i := range pending {
		if &pending[i] == c {
			asker, key, owner := c.Asker, c.Keyed, c.Create.Owner
			x.head.Composed.Pending = append(pending[:i:i], pending[i+1:]...)
			if isError {
				key = actor.Key{} // it may be tried again
			} else {
				x.entry(actor.Entry{Kind: actor.EntryMessage, Side: owner, From: x.head.Lineage.ID, Type: ToolSubagentCreate, Content: content})
			}
			x.bootAnswer(asker, key, content.JSON, isError)
			return
		}
	}
}

func (x *turn) bootAnswer(asker actor.Asker, key actor.Key, data []byte, isError bool) {
	if key.ID != "" {
		x.effect(actor.Effect{Kind: actor.EffectAnswer, Name: key.ID, Body: Pack(&Stored{Digest: key.Digest, IsError: isError, JSON: data})})
	}
	if !asker.IsZero() {
		x.effect(actor.Effect{Kind: actor.EffectReply, Name: asker.Reply, Body: data})
	}
}

// dropPending gives up what a terminated thread was asked for.
func (x *turn) dropPending() {
	if x.head.Composed == nil {
		return
	}
	for _, c := range x.head.Composed.Pending {
		if c.Job != 0 {
			x.out.Abort = append(x.out.Abort, c.Job)
		}
		x.bootAnswer(c.Asker, actor.Key{}, (&Refusal{Kind: actor.ThreadTerminated, Message: "the parent is terminated"}).JSON(), true)
	}
	x.head.Composed.Pending = nil
}
