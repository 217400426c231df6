package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// bound carries out a call of one of the tools by which a side ends its session or tells of it (S1 §6.3, §6.4).
func (x *turn) bound(side *Side, c *call, data []byte) (done bool, err error) {
	is := func(b *Binding) bool { return b != nil && b.Tool == c.Name }
	switch {
	case is(side.SessionStop):
		return true, x.stopSession(c, data)
	case is(side.SessionFail):
		return true, x.failSession(c, data)
	case is(side.SessionStatus):
		return true, x.tellStatus(c, data)
	case is(side.AskParent):
		return true, x.askParent(c, data)
	}
	return false, nil
}

var done = actor.Value{JSON: []byte(`{"ok":true}`)}

// stopSession ends the session with a result, once the other calls of the step are done.
func (x *turn) stopSession(c *call, data []byte) error {
	var args struct {
		Result       json.RawMessage `json:"result"`
		NotifyParent json.RawMessage `json:"notifyParent"`
		Status       string          `json:"status"`
		Attachments  []string        `json:"attachments"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	n, err := parseNotify(args.NotifyParent)
	if err != nil {
		return err
	}
	x.callDone(c, done, false)
	x.stopWith(stopping{Reason: StopDone, Result: resultOf(actor.Value{JSON: args.Result}), Attachments: args.Attachments}, n, args.Status)
	return nil
}

func (x *turn) stopWith(s stopping, n notify, status string) {
	if status != "" {
		x.setStatus(status)
	}
	x.head.Composed.Notify = n
	x.head.Composed.Stopping = &s
}

// bring copies the files that a session ends with to the parent, before it hears of the end (S1 §7). An agent outside
// has no files of ours: it gets their names.
func (x *turn) bring(s *stopping) {
	h := &x.head
	l := h.Lineage
	if l.ParentOutside() || l.Parent() == "" {
		s.Brought, s.Attachments = s.Attachments, nil
		return
	}
	s.Job = x.newJob(JobDeliver, h.bringing(s))
}

// bringing is what the job that copies them is given.
func (h *head) bringing(s *stopping) []byte {
	key := string(h.Lineage.ID) + "-end-" + strconv.FormatUint(h.Session, 10)
	return Pack(&Deliver{Child: h.Lineage.Parent(), Attachments: s.Attachments, Key: key, Lenient: true})
}

// dress adds to a completion what the end of the session came with: the text that was asked for, and the files.
func (c *composed) dress(completion []byte) []byte {
	if len(c.Brought) > 0 || c.Note != "" {
		more, err := json.Marshal(struct {
			Attachments []string `json:"attachments,omitempty"`
			Note        string   `json:"attachmentsMissing,omitempty"`
		}{c.Brought, c.Note})
		if err != nil {
			panic("agent: attachments: " + err.Error())
		}
		completion = append(append(append([]byte(nil), more[:len(more)-1]...), ','), completion[1:]...)
	}
	if c.Notify.Text != "" {
		completion = withText(completion, c.Notify.Text)
	}
	return completion
}

// brought takes the paths of the copies. What could not be copied is noted, and does not keep the session open.
func (x *turn) brought(s *stopping, a *JobAnswer) {
	s.Job, s.Attachments = 0, nil
	if a.Delivered != nil {
		s.Brought = a.Delivered.Attachments
		for _, r := range a.Delivered.Refusals {
			s.Note += r.Message + "; "
		}
	} else {
		s.Note = a.Err
	}
}

// parseNotify reads notifyParent: a boolean, or the text in place of the usual one.
func parseNotify(raw json.RawMessage) (n notify, err error) {
	switch text := bytes.TrimSpace(raw); {
	case len(text) == 0 || string(text) == "null":
	case string(text) == "true" || string(text) == "false":
		n = notify{Set: true, On: text[0] == 't'}
	default:
		n = notify{Set: true, On: true}
		if json.Unmarshal(text, &n.Text) != nil {
			err = &actor.Error{Kind: actor.SchemaViolation, Field: "notifyParent", Err: errors.New("must be a boolean or a string")}
		}
	}
	return n, err
}

func (x *turn) failSession(c *call, data []byte) error {
	var args struct {
		Message string `json:"message"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	if args.Message == "" {
		args.Message = "the agent gave up"
	}
	x.callDone(c, done, false)
	x.stopWith(stopping{Reason: StopFail, Error: args.Message}, notify{}, "")
	return nil
}

func (x *turn) tellStatus(c *call, data []byte) error {
	var args struct {
		Status string `json:"status"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	if args.Status == "" {
		return &actor.Error{Kind: actor.SchemaViolation, Field: "status", Err: errors.New("is required")}
	}
	x.setStatus(args.Status)
	x.callDone(c, done, false)
	return nil
}

// maxStatus is how many bytes of a status text are kept.
const maxStatus = 1024

// setStatus sets what the registry says of the thread's work (S1 §6.3).
func (x *turn) setStatus(status string) {
	if len(status) > maxStatus {
		status = string(bytes.ToValidUTF8([]byte(status[:maxStatus]), nil)) + "…"
	}
	x.head.Composed.Status = status
	x.dirty = true
	x.event("progress", progress{status, x.head.Session})
}

// progress is the content of the event by which a status is told.
type progress struct {
	Text    string `json:"text"`
	Session uint64 `json:"session"`
}

// askParent puts a question to whoever owns the thread, and parks the call until a message comes from there. A
// parent whose call waits for this thread gets the question as that call's result, so that it can answer; the end
// of the session is then told like that of any other.
func (x *turn) askParent(c *call, data []byte) error {
	var args struct {
		Question string `json:"question"`
	}
	if err := arguments(data, &args); err != nil {
		return err
	}
	l := x.head.Lineage
	switch {
	case args.Question == "":
		return &actor.Error{Kind: actor.SchemaViolation, Field: "question", Err: errors.New("is required")}
	case l.Parent() == "":
		return &actor.Error{Kind: actor.NoParent, Err: errors.New("there is nobody to ask")}
	}
	c.Waits = []actor.ID{l.Parent()}
	if l.ParentOutside() {
		mail, err := a2e.Encode(&a2e.MessageReq{FromSubagentID: l.ID, ToSubagentID: l.Parent(), Message: a2e.MessagePayload{Type: "question", Content: quote(args.Question)}})
		x.effect(actor.Effect{Kind: actor.EffectMail, To: actor.Address{ID: l.Parent()}, Name: "question-" + c.Key, Body: mail})
		return err
	}
	x.send(actor.Address{ID: l.Parent()}, actor.LaneQueue, KindQuestion, "", &Question{Text: args.Question})
	return nil
}

// question takes what a child asks: as the result of the call that waits for it, else as a message.
func (x *turn) question(q *Question) {
	h := &x.head
	if h.Terminated {
		x.event("message_received", dropped{x.env.From, "question", "thread_terminated"})
		return
	}
	x.alive()
	x.event("message_received", received{x.env.From, "question"})
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Create == nil || c.Done || c.Create.Phase != phaseWait || c.Create.Child != x.env.From {
			continue
		}
		data, err := json.Marshal(asking{Reference(x.env.From), "asking", q.Text, "answer it with subagent_message; its result will come as a message"})
		if err != nil {
			panic("agent: question: " + err.Error())
		}
		x.callDone(c, actor.Value{JSON: data}, false)
		return
	}
	meta, err := json.Marshal(metadata{SubagentID: Reference(x.env.From)})
	if err != nil {
		panic("agent: question: " + err.Error())
	}
	side := x.ownerOf(x.env.From)
	x.entry(actor.Entry{Kind: actor.EntryMessage, Side: side, From: x.env.From, Type: "question", Content: actor.Value{JSON: quote(q.Text)}, Meta: meta})
	if x.def != nil && !x.floored() && x.wakes() {
		x.prompt(side, quote(q.Text))
	}
}

type asking struct {
	Reference string `json:"reference"`
	Status    string `json:"status"`
	Question  string `json:"question"`
	Hint      string `json:"hint"`
}

// answersCall gives a message of the owner's to the call that asked for it, if there is one.
func (x *turn) answersCall(m *Message) bool {
	h := &x.head
	if x.def == nil || !h.Open || x.env.From != h.Lineage.Parent() {
		return false
	}
	side := x.def.side(h.Composed.Turn)
	for i := range h.Calls {
		if c := &h.Calls[i]; !c.Done && side != nil && side.AskParent != nil && c.Name == side.AskParent.Tool {
			x.callDone(c, m.Content, false)
			return true
		}
	}
	return false
}
