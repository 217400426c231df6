package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// send sends a message, which has to be delivered.
func (s *stage) send(agent, from, to, typ, content string) {
	s.t.Helper()
	s.ask(agent, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":%q,"to_subagent_id":%q,"message":{"type":%q,"content":%s}}`, from, to, typ, content).
		equals(`{"type":"SUBAGENT_MESSAGE_RESP","delivered":true}`)
}

// publish puts a message straight into an inbox, as anyone with a NATS client can.
func (s *stage) publish(to string, lane actor.Lane, from, data string) {
	s.t.Helper()
	if _, err := s.Conn.Send(s.Names.Inbox(actor.ID(to), lane, actor.ID(from)), []byte(data)).Wait(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// TestS0_12_Message: "goes into the recipient's durable inbox and is seen by its model before the next
// step, with the sender's id; delivered:true means durably queued. It opens no session. content may be
// any JSON, null too."
func TestS0_12_Message(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := startWith(t, host.Config{}, map[string]model.Model{"test/gate": g})
	w := s.watch(me)
	a, b := s.spawn(me, `"model":"builtin/script"`), s.spawn(me, `"model":"builtin/script"`)
	contents := []string{`null`, `false`, `0`, `1.50`, `""`, `"\u2028 🦜"`, `[]`, `[null]`, `{}`, `{"b":1,"a":{"$last":"$inbox"}}`, `"$inbox"`}
	want := make([]string, len(contents))
	for i, content := range contents {
		from := []string{me, b}[i%2]
		s.send(me, from, a, fmt.Sprint("type ", i), content)
		want[i] = fmt.Sprintf(`{"from":%q,"type":"type %d","content":%s}`, from, i, content)
	}
	w.until("the last message's arrival", a, func(event) bool { return w.count(a, "message_received") == len(contents) })
	s.await(me, a).is("status", `"READY"`) // no session was opened
	s.delegate(me, a, `[{"result":{"inbox":"$inbox"}}]`)
	s.await(me, a).is("result.inbox", "["+strings.Join(want, ",")+"]")
	s.send(me, me, a, "late", `1`)
	s.await(me, a).is("status", `"COMPLETED"`)

	s.delegate(me, b, `[{"sleep_ms":100},{"result":{"inbox":"$inbox"}}]`)
	s.send(a, a, b, "note", `"between two steps"`)
	s.await(me, b).is("result.inbox", fmt.Sprintf(`[{"from":%q,"type":"note","content":"between two steps"}]`, a))

	s.terminate(me, b)
	s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":1}}`, b).
		equals(`{"type":"SUBAGENT_MESSAGE_RESP","delivered":false}`)
	if w.count(a, "delegated") != 1 || w.count(b, "delegated") != 1 {
		t.Errorf("messages opened sessions:\n%s%s", w.tell(a), w.tell(b))
	}
	s.noDeadLetters()
}

// TestS0_12_Unseen: a message that comes while a step is under way is seen by the next step, once.
func TestS0_12_Unseen(t *testing.T) {
	t.Parallel()
	g := newGate()
	var seen []string
	s := startWith(t, host.Config{}, map[string]model.Model{"test/two": twoSteps(g, &seen)})
	id := s.spawn(me, `"model":"test/two"`)
	s.send(me, me, id, "t", `"before"`)
	s.delegate(me, id, "null")
	next(s, "the first step", g.entered)
	s.send(me, me, id, "t", `"during"`)
	g.open <- struct{}{}
	s.await(me, id).is("status", `"COMPLETED"`)
	if got := strings.Join(seen, "; "); got != `step 1 is shown "before"; step 2 is shown "during"` {
		t.Errorf("the model was shown: %s", got)
	}
}

// TestS0_12_Open: "a message published to lane a or b does [open a session]."
func TestS0_12_Open(t *testing.T) {
	t.Parallel()
	s := start(t)
	w := s.watch(me)
	for _, lane := range []actor.Lane{"a", "b"} {
		id := s.spawn(me, `"model":"builtin/echo"`)
		s.publish(id, lane, "a person.*", `{"content":"one more thing"}`)
		natstest.Await(t, "the completion of the session that a message opened", func() bool { return s.mails(me, id) == 1 })
		s.mail(me, id, "1").is("result", `{"output":"one more thing"}`)
		w.named(id, "message_received").is("content.from", `"a person.*"`)
		s.publish(id, lane, "me", `{"content":{"again":true},"type":"note"}`)
		natstest.Await(t, "the completion of the second session", func() bool { return s.mails(me, id) == 2 })
		s.mail(me, id, "2").is("session", `2`)
	}
	// What can't be a message gets a dead letter and an event, never silence.
	id := s.spawn(me, `"model":"builtin/echo"`)
	gone := s.spawn(me, `"model":"builtin/echo"`)
	s.terminate(me, gone)
	dead := s.watch(id)
	bad := []string{`hello`, `{"text":"no content"}`, `[]`, ``}
	for _, data := range bad {
		s.publish(id, "a", "me", data)
	}
	s.publish(id, "host", "me", `{"content":1}`)
	s.publish(id, "ctl", "me", `{"content":1}`)
	natstest.Await(t, "six dead letters of the subagent", func() bool { return s.stored(s.Names.DeadStream(), s.Names.Dead(actor.ID(id))) == 6 })
	dead.until("six events", id, func(event) bool { return dead.count(id, "dead_letter") == 6 })
	s.publish("sub_00000000", "a", "me", `{"content":1}`)
	natstest.Await(t, "a dead letter of the one that does not exist", func() bool { return s.stored(s.Names.DeadStream(), "troupe.dead.sub_00000000") == 1 })
	s.publish(gone, "a", "me", `{"content":1}`)
	natstest.Await(t, "a dead letter of the terminated one", func() bool { return s.stored(s.Names.DeadStream(), s.Names.Dead(actor.ID(gone))) == 1 })
	s.await(me, id).is("status", `"READY"`)
}

// TestS0_15_SourceRef: "SourceRef is defined and carried as provenance on messages (metadata.source)."
func TestS0_15_SourceRef(t *testing.T) {
	t.Parallel()
	var seen []json.RawMessage
	keep := modelFunc(keepMessages(&seen))
	s := startWith(t, host.Config{}, map[string]model.Model{"test/keep": keep})
	const source = `{"session_id":"s-1","trajectory_id":"t-2","turn_id":"u-3"}`
	id := s.spawn(me, `"model":"builtin/script"`)
	s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"i","metadata":{"source":%s,"script":[{"result":"$task.metadata.source"}]}}}`, id, source)
	s.await(me, id).is("result", source)
	other := s.spawn(me, `"model":"test/keep"`)
	s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":"c","metadata":{"source":%s}}}`, other, source)
	s.delegate(me, other, "null")
	s.await(me, other)
	if len(seen) != 1 || !strings.Contains(string(seen[0]), `"t-2"`) {
		t.Errorf("the model was shown the messages %s, want one with its source %s", seen, source)
	}
}
