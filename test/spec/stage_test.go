package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// me is the agent outside that owns most trees in these tests.
const me = "parent_1"

// A stage is a running host and the means to play on it.
type stage struct {
	*natstest.Troupe
	t   *testing.T
	ctx context.Context
}

func start(t *testing.T) *stage { return startWith(t, host.Config{}, nil) }

// startWith starts a host with Go models beside the built-in ones.
func startWith(t *testing.T, cfg host.Config, models map[string]model.Model) *stage {
	t.Helper()
	var err error
	if cfg.Models, err = model.New(model.Config{Models: models}); err != nil {
		t.Fatal(err)
	}
	return &stage{Troupe: natstest.StartTroupe(t, cfg), t: t, ctx: natstest.Context(t)}
}

// ask sends a request; format and args make its JSON.
func (s *stage) ask(agent, format string, args ...any) answer {
	s.t.Helper()
	return parse(s.t, s.Ask(s.t, agent, fmt.Sprintf(format, args...)))
}

// spawn makes a subagent of the agent itself. fields are members of its configuration beside the name.
func (s *stage) spawn(agent, fields string) string {
	s.t.Helper()
	got := s.ask(agent, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"child",%s}}`, fields)
	got.is("type", `"SUBAGENT_SPAWN_RESP"`)
	return got.text("subagent_id")
}

// delegate gives a subagent a task with a script, which has to be accepted.
func (s *stage) delegate(agent, id, script string) {
	s.t.Helper()
	s.ask(agent, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go","metadata":{"script":%s}}}`, id, script).
		equals(`{"type":"SUBAGENT_DELEGATE_RESP","accepted":true,"status":"RUNNING"}`)
}

// run spawns a subagent that may use the multi-agent tools, and gives it a script to play.
func (s *stage) run(agent, script string) string {
	s.t.Helper()
	id := s.spawn(agent, `"model":"builtin/script","capabilities":["multi_agent"]`)
	s.delegate(agent, id, script)
	return id
}

func (s *stage) await(agent, id string) answer {
	s.t.Helper()
	return s.ask(agent, `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, id)
}

// status is what LIST says of a subagent now.
func (s *stage) status(agent, id string) string {
	s.t.Helper()
	for _, one := range s.ask(agent, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents") {
		if one.text("subagent_id") == id {
			return one.text("status")
		}
	}
	return "not listed"
}

func (s *stage) cancel(agent, id string) answer {
	s.t.Helper()
	return s.ask(agent, `{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`, id)
}

func (s *stage) terminate(agent, id string) answer {
	s.t.Helper()
	return s.ask(agent, `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, id)
}

// refused asks and wants an error of a kind that names a field; "" is none.
func (s *stage) refused(kind actor.Kind, field, agent, format string, args ...any) {
	s.t.Helper()
	got := s.ask(agent, format, args...)
	got.is("type", `"error"`)
	got.is("code", quote(string(kind)))
	if field == "" {
		got.missing("detail.field")
	} else {
		got.is("detail.field", quote(field))
	}
	got.is("retryable", fmt.Sprint(kind.Retryable() && field != "id")) // a used id stays used
	if got.text("message") == "" {
		s.t.Errorf("the error says nothing to its reader: %s", got.raw)
	}
}

// stored counts the messages of a stream whose subjects match.
func (s *stage) stored(stream, filter string) (n uint64) {
	s.t.Helper()
	st, err := s.Conn.JS.Stream(s.ctx, stream)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := st.Info(s.ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, count := range info.State.Subjects {
		n += count
	}
	return n
}

// births counts the records of all threads that were ever born, and entries the threads that the registry has.
func (s *stage) births() uint64 { return s.stored(s.Names.JournalStream(), "troupe.journal.*") }

func (s *stage) entries() uint64 {
	return s.stored(subjects.KVStream(s.Names.RegistryBucket()), subjects.KVSubject(s.Names.RegistryBucket(), ">"))
}

// nothingLeft checks that no thread exists in any form, and that nothing is in the dead letters.
func (s *stage) nothingLeft(agent string) {
	s.t.Helper()
	s.ask(agent, `{"type":"SUBAGENT_LIST_REQ"}`).equals(`{"type":"SUBAGENT_LIST_RESP","subagents":[]}`)
	if b, e := s.births(), s.entries(); b+e > 0 {
		s.t.Errorf("a refused request left something behind: %d journal records, %d registry entries", b, e)
	}
	s.noDeadLetters()
}

func (s *stage) noDeadLetters() {
	s.t.Helper()
	if n := s.stored(s.Names.DeadStream(), s.Names.DeadFilter()); n > 0 {
		s.t.Errorf("%d dead letters, want none", n)
	}
}

// settled returns once a child of its own that was spawned after everything before has completed and its
// mail is there. It is the fence behind which nothing of what came before is still under way in the mail.
func (s *stage) settled(agent string) {
	s.t.Helper()
	id := s.spawn(agent, `"model":"builtin/echo"`)
	s.delegate(agent, id, "null")
	s.await(agent, id).is("status", `"COMPLETED"`)
	natstest.Await(s.t, "the mail of the child that serves as a fence", func() bool { return s.mails(agent, id) == 1 })
}

// mails counts the completions of a child in its owner's mail.
func (s *stage) mails(agent, id string) uint64 {
	s.t.Helper()
	return s.stored(s.Names.MailStream(), s.Names.MailAgent(actor.ID(agent))[:len(s.Names.MailAgent(actor.ID(agent)))-1]+id+".*")
}

// mail gives the only completion that a child left in its owner's mail.
func (s *stage) mail(agent, id, session string) answer {
	s.t.Helper()
	st, err := s.Conn.JS.Stream(s.ctx, s.Names.MailStream())
	if err != nil {
		s.t.Fatal(err)
	}
	msg, err := st.GetLastMsgForSubject(s.ctx, s.Names.Mail(actor.ID(agent), actor.ID(id), session))
	if err != nil {
		s.t.Fatalf("the mail of %s, session %s: %v", id, session, err)
	}
	return parse(s.t, string(msg.Data))
}

// full gives a result that travels as {"$blob": …} in full, and other results as they are.
func (s *stage) full(result answer) json.RawMessage {
	s.t.Helper()
	if !result.has("$blob") {
		return json.RawMessage(result.raw)
	}
	bucket, err := s.Conn.JS.ObjectStore(s.ctx, result.text("$blob.bucket"))
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := bucket.GetBytes(s.ctx, result.text("$blob.name"))
	if err != nil {
		s.t.Fatalf("an ordinary NATS client can't read the blob: %v", err)
	}
	return data
}

// An event is one SUBAGENT_EVENT and the subject it came on.
type event struct {
	answer
	subject  string
	id, name string
}

// A watch collects the events of a tree, in the order in which they come.
type watch struct {
	s    *stage
	mu   sync.Mutex
	all  []event
	more chan struct{} // gets a token when an event came
}

func (s *stage) watch(root string) *watch {
	s.t.Helper()
	w := &watch{s: s, more: make(chan struct{}, 1)}
	stop, err := s.Conn.Subscribe(s.Names.EventTree(actor.ID(root)), func(subject string, data []byte) {
		e := event{answer: parse(s.t, string(data)), subject: subject}
		e.id, e.name = e.text("subagent_id"), e.text("event")
		w.mu.Lock()
		w.all = append(w.all, e)
		w.mu.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stop)
	return w
}

// of gives the events of one subagent so far.
func (w *watch) of(id string) (found []event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if e.id == id {
			found = append(found, e)
		}
	}
	return found
}

// until waits for an event of a subagent that ok takes.
func (w *watch) until(what, id string, ok func(event) bool) event {
	w.s.t.Helper()
	for {
		for _, e := range w.of(id) {
			if ok(e) {
				return e
			}
		}
		select {
		case <-w.more:
		case <-w.s.ctx.Done():
			w.s.t.Fatalf("waited in vain for %s of %s; its events were:\n%s", what, id, w.tell(id))
		}
	}
}

// named waits for an event by name.
func (w *watch) named(id, name string) event {
	w.s.t.Helper()
	return w.until("the event "+name, id, func(e event) bool { return e.name == name })
}

func (w *watch) tell(id string) (all string) {
	for _, e := range w.of(id) {
		all += e.raw + "\n"
	}
	return all
}

// names gives the events of a subagent as a list of their names.
func (w *watch) names(id string) (names []string) {
	for _, e := range w.of(id) {
		name := e.name
		if name == "status_changed" {
			name += " " + e.text("content.status")
		}
		names = append(names, name)
	}
	return names
}

// eventually waits until LIST says a status.
func (s *stage) eventually(agent, id, want string) {
	s.t.Helper()
	natstest.Await(s.t, id+" is "+want, func() bool { return s.status(agent, id) == want })
}

// count counts the events of a subagent by name.
func (w *watch) count(id, name string) (n int) {
	for _, e := range w.of(id) {
		if e.name == name {
			n++
		}
	}
	return n
}
