package agent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// AnswersKey is the key of a message's metadata that names the request of a person that it answers.
const AnswersKey = "answers"

// ask parks the session: a person has the turn (S1 §4.3).
func (x *turn) ask() {
	h, c := &x.head, x.head.Composed
	c.Asked++
	c.Unseen[index(c.Turn)] = 0
	x.consume()
	question := c.Question
	c.Question = actor.Value{}
	var text string
	if json.Unmarshal(question.JSON, &text) != nil {
		text = string(question.JSON)
	}
	c.Ask = &Ask{N: c.Asked, Side: c.Turn, At: x.now, Question: text}
	x.statusChanged()
	x.event("awaiting_human", awaiting{AskID(h.Lineage.ID, c.Asked), c.Turn, text})
}

// asks notes what a person on a side is to answer, if there is one.
func (x *turn) asks(side actor.Lane, content []byte) {
	if s := x.def.side(side); s != nil && s.Human {
		x.head.Composed.Question = clipValue(content)
	}
}

// awaiting is the content of the event awaiting_human.
type awaiting struct {
	Request  string     `json:"request"`
	Side     actor.Lane `json:"side"`
	Question string     `json:"question"`
}

// AskID names a request to a person: the thread's id and the request's number.
func AskID(id actor.ID, n uint64) string { return string(id) + "." + strconv.FormatUint(n, 10) }

// ParseAskID is the inverse of AskID.
func ParseAskID(text string) (id actor.ID, n uint64, ok bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 64)
	return actor.ID(text[:at]), n, err == nil && text[:at] != "" && text == AskID(actor.ID(text[:at]), n)
}

// answers reads from a message's metadata which request it answers; "" for none.
func (m *Message) answers() string {
	if len(m.Meta) == 0 {
		return ""
	}
	var meta map[string]json.RawMessage
	var request string
	if json.Unmarshal(m.Meta, &meta) != nil || json.Unmarshal(meta[AnswersKey], &request) != nil {
		return ""
	}
	return request
}

// personAnswers takes a person's answer. It is bound to the request that it names: a second or late answer is
// a conflict, and never resumes another request.
func (x *turn) personAnswers(m *Message, request string) {
	h, c := &x.head, x.head.Composed
	_, n, ok := ParseAskID(request)
	switch {
	case strings.HasPrefix(string(x.env.From), "sub_"):
		x.fail(actor.Unauthorized, "a thread can't answer in a person's place")
		return
	case h.Terminated:
		x.fail(actor.ThreadTerminated, "the thread is terminated")
		return
	case !ok || c == nil || n == 0 || n > c.Asked || request != AskID(h.Lineage.ID, n):
		x.fail(actor.NotFound, "nobody was asked %q", request)
		return
	case !h.Open || c.Ask == nil || c.Ask.N != n:
		x.fail(actor.Conflict, "the request %s was answered or withdrawn", request)
		return
	}
	x.entry(actor.Entry{Kind: actor.EntrySay, Side: opposite(c.Ask.Side), From: x.env.From, Type: m.Type, Content: m.Content, Meta: m.Meta})
	side := c.Ask.Side
	c.Reply, c.Ask, c.Over = m.Content, nil, true
	x.asks(opposite(side), m.Content.JSON)
	x.reply(&a2e.MessageResp{Envelope: x.around(), Delivered: true}, true)
	x.event("message_received", received{x.env.From, "answer"})
	x.statusChanged()
}

// Waiting tells what the thread asks of a person, or nil.
func (t *Thread) Waiting() *Ask {
	if c := t.head.Composed; c != nil && t.head.Open {
		return c.Ask
	}
	return nil
}

func (x *turn) tooManyInstances(r *Relationship) error {
	var references []string
	for _, i := range x.head.Composed.Children {
		if i.Relationship == r.Name() && !i.Gone {
			references = append(references, Reference(i.ID))
		}
	}
	if len(references) < r.MaxInstances {
		references = append(references, "those being made") // by calls of the same step
	}
	return &actor.Error{Kind: actor.AtCapacity, Field: "agent", Err: fmt.Errorf(
		"%s has %d instances, the most it may: %s; send one of them a message with subagent_message instead",
		r.Name(), r.MaxInstances, strings.Join(references, ", "))}
}
