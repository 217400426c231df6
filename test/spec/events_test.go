package spec

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
)

// TestS0_16_Names: "spawned, delegated, status_changed, step, message_received, timeout, cancelled,
// terminated, merged, progress": each occurs, in this order in a life, and no other name does.
func TestS0_16_Names(t *testing.T) {
	t.Parallel()
	s := start(t)
	w := s.watch(me)
	a := s.spawn(me, `"model":"builtin/script"`)
	s.send(me, me, a, "note", `1`)
	s.delegate(me, a, `[{"say":"x"},{"progress":"half way"},{"result":{}}]`)
	s.await(me, a)
	s.merge(me, "voting", a)
	s.terminate(me, a)
	w.named(a, "terminated")
	want := "spawned, message_received, status_changed RUNNING, delegated, step, step, progress, step, status_changed COMPLETED, status_changed TERMINATED, terminated"
	if got := strings.Join(w.names(a), ", "); got != want {
		t.Errorf("the events of a life are\n%s, want\n%s", got, want)
	}
	b := s.spawn(me, `"model":"builtin/script","timeout_seconds":1`)
	s.delegate(me, b, `[{"sleep_ms":3600000}]`)
	s.await(me, b)
	s.delegate(me, b, `[{"sleep_ms":3600000}]`)
	s.cancel(me, b)
	w.named(b, "cancelled")
	want = "spawned, status_changed RUNNING, delegated, step, timeout, status_changed FAILED, status_changed RUNNING, delegated, step, status_changed CANCELLED, cancelled"
	if got := strings.Join(w.names(b), ", "); got != want {
		t.Errorf("the events of the other are\n%s, want\n%s", got, want)
	}
	w.named(me, "merged")
	for _, id := range []string{a, b, me} {
		for _, e := range w.of(id) {
			root, from, name, err := s.Names.ParseEvent(e.subject)
			if err != nil || string(root) != me || string(from) != id || name != e.name {
				t.Errorf("an event of %s came on %s: %s", id, e.subject, e.raw)
			}
			e.is("type", `"SUBAGENT_EVENT"`)
			if e.at("content").raw[0] != '{' {
				t.Errorf("the content of an event is no object: %s", e.raw)
			}
		}
	}
}

// TestS0_16_AnswerFirst: "The answer comes before the events it causes."
func TestS0_16_AnswerFirst(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 1000}}, nil)
	line := make(chan *nats.Msg, 100_000) // answers and events in the order in which the server sent them
	inbox := s.Conn.NewInbox()
	for _, subject := range []string{inbox + ".*", s.Names.EventTree(me)} {
		sub, err := s.Conn.NC.ChanSubscribe(subject, line)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	answered := map[string]bool{} // by event and subagent
	var of []string               // the subagent of each request
	ask := func(id, format string, args ...any) {
		t.Helper()
		msg := nats.NewMsg(s.Names.A2E(me))
		msg.Reply = fmt.Sprintf("%s.%d", inbox, len(of))
		msg.Data = []byte(fmt.Sprintf(format, args...))
		of = append(of, id)
		if err := s.Conn.NC.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	const n = 50
	for range n {
		ask("", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/script"}}`)
	}
	for ended := 0; ended < n; {
		msg := next(s, "an answer or an event", line)
		got := parse(t, string(msg.Data))
		if !strings.HasPrefix(msg.Subject, inbox) {
			id, name := got.text("subagent_id"), got.text("event")
			if name == "status_changed" && got.text("content.status") == "COMPLETED" {
				ended++
			}
			cause := map[string]string{"spawned": "spawned", "message_received": "message"}[name]
			if cause == "" {
				cause = "delegated" // all others are of the session
			}
			if !answered[cause+id] {
				t.Errorf("the event came before the answer to the request that caused it: %s", got.raw)
			}
			continue
		}
		var request int
		if _, err := fmt.Sscanf(msg.Subject, inbox+".%d", &request); err != nil {
			t.Fatal(err)
		}
		switch got.text("type") {
		case "SUBAGENT_SPAWN_RESP":
			id := got.text("subagent_id")
			answered["spawned"+id] = true
			ask(id, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":1}}`, id)
			ask(id, "%s", task(id, `[{"progress":"at once"},{"result":{}}]`))
		case "SUBAGENT_MESSAGE_RESP":
			answered["message"+of[request]] = true
		case "SUBAGENT_DELEGATE_RESP":
			answered["delegated"+of[request]] = true
		default:
			t.Fatalf("an unexpected answer: %s", got.raw)
		}
	}
}

// TestS0_16_Order: the events of one subagent come in the order of what they tell of, also when many
// are spawned and given work at the same time.
func TestS0_16_Order(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 1000}}, nil)
	w := s.watch(me)
	var ids sync.Map
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			id := s.spawn(me, `"model":"builtin/script"`)
			s.delegate(me, id, `[{"progress":"1"},{"result":{}}]`)
			s.await(me, id).is("status", `"COMPLETED"`)
			ids.Store(id, true)
		})
	}
	wg.Wait()
	const want = "spawned, status_changed RUNNING, delegated, step, progress, step, status_changed COMPLETED"
	ids.Range(func(id, _ any) bool {
		w.until("its end", id.(string), func(e event) bool {
			return e.name == "status_changed" && e.text("content.status") == "COMPLETED"
		})
		if got := strings.Join(w.names(id.(string)), ", "); got != want {
			t.Errorf("the events of %s are\n%s, want\n%s", id, got, want)
		}
		return true
	})
}

// TestMail: the completion that an owner outside gets: one a session, with reference, session, stopReason
// and usage beside what an awaiting caller gets.
func TestMail(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.run(me, `[{"say":"x"},{"result":{"n":1}}]`)
	first := s.await(me, id)
	s.delegate(me, id, `[{"say":"half"},{"fail":"no"}]`)
	second := s.await(me, id)
	s.delegate(me, id, `[{"sleep_ms":3600000}]`)
	s.cancel(me, id)
	child := s.run(id, `[{"result":{"n":2}}]`)
	s.await(me, child).is("status", `"COMPLETED"`)
	s.settled(me)
	if n := s.mails(me, id); n != 2 {
		t.Fatalf("%d completions of %s are in the mail, want those of sessions 1 and 2", n, id)
	}
	if n := s.mails(me, child) + s.mails(id, child); n != 0 {
		t.Errorf("the owner of %s is a thread, yet %d completions are in the mail", child, n)
	}
	for session, want := range []answer{first, second} {
		got := s.mail(me, id, fmt.Sprint(session+1))
		for _, key := range []string{"type", "subagent_id", "status", "result", "error"} {
			got.is(key, want.at(key).raw)
		}
		got.is("session", fmt.Sprint(session+1))
		got.is("stopReason", []string{`"stop"`, `"fail"`}[session])
		got.is("usage", `{"steps":2}`)
		if ref := got.text("reference"); len(ref) != 36 || ref[:8] != strings.TrimPrefix(id, "sub_") {
			t.Errorf("the reference %s is no UUID that begins with the digits of %s", ref, id)
		}
		got.missing("id")
	}
	registry := s.stored(subjects.KVStream(s.Names.RegistryBucket()), subjects.KVSubject(s.Names.RegistryBucket(), "parent_1.parent_1."+id))
	if registry != 1 {
		t.Errorf("the registry has %d entries under parent_1.parent_1.%s, want 1", registry, id)
	}
}
