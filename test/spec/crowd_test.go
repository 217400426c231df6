package spec

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// neighbour spawns a subagent whose inbox is in the partition of another's.
func (s *stage) neighbour(of string) string {
	s.t.Helper()
	for range 200 {
		if id := s.spawn(me, `"model":"builtin/echo"`); subjects.Partition(actor.ID(id), 8) == subjects.Partition(actor.ID(of), 8) {
			return id
		}
	}
	s.t.Fatal("200 subagents, and none in the partition: is the function that spreads them the server's?")
	panic("unreachable")
}

// A history reads the messages in a thread's journal, each record once.
type history struct {
	*stage
	of       actor.Address
	next     uint64
	messages []string
}

func (s *stage) history(id string) *history {
	return &history{stage: s, of: actor.Address{ID: actor.ID(id)}}
}

// read gives the contents of the messages that have come.
func (h *history) read() []string {
	h.t.Helper()
	ctx := natstest.Context(h.t)
	last, err := h.Store.Journal.Last(ctx, h.of)
	if err == nil {
		err = h.Store.Journal.Range(ctx, h.of, h.next, last.Seq, func(m store.Message) error {
			h.next = m.Seq + 1
			r, err := agent.UnpackRecord(m.Data)
			if err != nil {
				return err
			}
			for _, e := range r.Entries {
				if e.Kind == actor.EntryMessage {
					h.messages = append(h.messages, string(e.Content.JSON))
				}
			}
			return nil
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return h.messages
}

// mailboxes watches how much the mailboxes of the host that runs hold.
func (s *stage) mailboxes() (most func() int64) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	var top atomic.Int64
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				top.Store(max(top.Load(), s.Host.Backlog().Bytes))
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return top.Load()
	}
}

// crowdSmall is how many small messages a crowd has: more than a mailbox holds.
const crowdSmall = 6000

// crowd publishes to an inbox: a large message, which becomes a blob, and behind it the numbers from 0.
func (s *stage) crowd(id string) {
	s.t.Helper()
	subject := s.Names.Inbox(actor.ID(id), actor.LaneA, "somebody")
	acks := []actor.Ack{s.Conn.Send(subject, []byte(`{"content":"`+strings.Repeat("large ", 33_000)+`"}`))}
	for i := range crowdSmall {
		acks = append(acks, s.Conn.Send(subject, fmt.Appendf(nil, `{"content":%d}`, i)))
	}
	for _, ack := range acks {
		if _, err := ack.Wait(s.ctx); err != nil {
			s.t.Fatal(err)
		}
	}
}

// limit lets a stream take so many bytes; -1: any.
func (s *stage) limit(name string, bytes int64) {
	s.t.Helper()
	ctx := natstest.Context(s.t)
	stream, err := s.Conn.JS.Stream(ctx, name)
	if err == nil {
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = bytes
		_, err = s.Conn.JS.UpdateStream(ctx, cfg)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// stick keeps a thread with a crowd from its next turn, for its first message can't become a blob, until loose is called.
func (s *stage) stick() (loose func()) {
	s.limit("OBJ_"+s.Names.BlobsBucket(), 1)
	return func() { s.limit("OBJ_"+s.Names.BlobsBucket(), -1) }
}

func (s *stage) awaitSpilled() {
	s.t.Helper()
	natstest.Await(s.t, "a full mailbox, and the rest of the crowd left in the inbox", func() bool { return s.Host.Backlog().Messages >= crowdSmall })
	if b := s.Host.Backlog(); b.Spilled < crowdSmall-4096 {
		s.t.Errorf("of %d messages %d are left in the inbox: a mailbox takes 4096", crowdSmall, b.Spilled)
	}
}

// inOrder waits until the crowd has arrived, and wants it in order and once.
func (s *stage) inOrder(id string) {
	s.t.Helper()
	h := s.history(id)
	natstest.Await(s.t, "the arrival of the crowd's last message", func() bool { return len(h.read()) > crowdSmall })
	got := h.messages
	if len(got) != 1+crowdSmall {
		s.t.Errorf("%d messages were published, and %d are in the history", 1+crowdSmall, len(got))
	}
	for i, content := range got[1:] {
		if content != fmt.Sprint(i) {
			s.t.Errorf("message %d of the small ones is %q: one is lost, doubled or out of order", i, content)
			return
		}
	}
}

// TestCrowdStaysInTheInbox: a thread that has more messages queued than its mailbox holds leaves the rest in the stream. Its neighbours in
// the partition do not wait for it, its mailbox stays within its bound, and all arrive in order and once.
func TestCrowdStaysInTheInbox(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.spawn(me, `"model":"builtin/script"`)
	beside := s.neighbour(id)
	s.delegate(me, id, `[{"sleep_ms":3600000}]`)
	loose := s.stick()
	most := s.mailboxes()
	s.crowd(id)
	s.awaitSpilled()
	s.delegate(me, beside, "null")
	s.await(me, beside).is("status", `"COMPLETED"`) // it does not wait for a thread that can't go on
	loose()
	s.inOrder(id)
	if got, bound := most(), int64(4<<20); got > bound {
		t.Errorf("mailboxes held %d bytes, want no more than %d: a mailbox's 1 MiB, and as much again in the turns under way", got, bound)
	}
	natstest.Await(t, "empty mailboxes", func() bool { b := s.Host.Backlog(); return b.Messages == 0 && b.Bytes == 0 })
	s.cancel(me, id).is("event", `"cancelled"`)
	s.noDeadLetters()
}

// TestCrowdOutlivesItsHost: what a mailbox had no room for is not lost with the process, nor taken twice.
func TestCrowdOutlivesItsHost(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.spawn(me, `"model":"builtin/script"`)
	s.delegate(me, id, `[{"sleep_ms":3600000}]`)
	loose := s.stick()
	s.crowd(id)
	s.awaitSpilled()
	s.KillHost(t)
	s.StartHost(t)
	s.awaitSpilled()
	loose()
	s.inOrder(id)
}

// TestInboxFull: so many messages may wait for a thread's next step. Requests to send more are refused, until a step has shown those that wait;
// what is published beyond that is a dead letter.
func TestInboxFull(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{MaxQueued: 3}, nil)
	w := s.watch(me)
	id, other := s.spawn(me, `"model":"builtin/script"`), s.run(me, `[{"sleep_ms":3600000}]`)
	for i := range 3 {
		s.send(me, me, id, "t", fmt.Sprint(i))
	}
	s.refused(actor.InboxFull, "to_subagent_id", me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":%q,"to_subagent_id":%q,"message":{"type":"t","content":3}}`, me, id)
	s.send(me, me, other, "t", `"another's inbox has room"`)
	s.publish(id, actor.LaneA, "somebody", `{"content":4}`)
	natstest.Await(t, "a dead letter", func() bool { return s.stored(s.Names.DeadStream(), s.Names.Dead(actor.ID(id))) == 1 })
	w.until("an event that tells of it", id, func(event) bool { return w.count(id, "dead_letter") == 1 })

	s.delegate(me, id, `[{"result":"$inbox"}]`)
	s.await(me, id).is("result.output", `[{"from":"parent_1","type":"t","content":0},{"from":"parent_1","type":"t","content":1},{"from":"parent_1","type":"t","content":2}]`)
	s.send(me, me, id, "t", `5`)
	if got := fmt.Sprint(s.history(id).read()); got != "[0 1 2 5]" {
		t.Errorf("the history has the messages %s, want [0 1 2 5]: the other two found the inbox full", got)
	}
}

// TestInboxAtItsLimit: where an operator has limited the inbox stream, a message that finds no room in it is refused, and none that was
// taken is dropped for it.
func TestInboxAtItsLimit(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.run(me, `[{"sleep_ms":3600000}]`)
	s.limit(s.Names.InboxStream(), 64<<10)
	large := `"` + strings.Repeat("x", 100_000) + `"`
	s.refused(actor.InboxFull, "", me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":%q,"to_subagent_id":%q,"message":{"type":"t","content":%s}}`, me, id, large)
	s.limit(s.Names.InboxStream(), -1)
	s.send(me, me, id, "t", large)
	if got := s.history(id).read(); len(got) != 1 {
		t.Errorf("%d messages are in the history, want the one that was taken", len(got))
	}
}
