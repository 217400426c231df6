package subjects_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// startServer gives a JetStream connection to an embedded server of this test's own.
func startServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "subjects", DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start within 10 s")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("open JetStream: %v", err)
	}
	return js
}

func inboxStream(t *testing.T, js jetstream.JetStream, n subjects.Names, parts int, sources ...*jetstream.StreamSource) jetstream.Stream {
	t.Helper()
	src, dest := n.InboxTransform(parts)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: n.InboxStream(), Subjects: []string{n.InboxFilter()}, Storage: jetstream.MemoryStorage,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: src, Destination: dest}, Sources: sources,
	})
	if err != nil {
		t.Fatalf("the server refuses the inbox stream with transform %q → %q: %v", src, dest, err)
	}
	return stream
}

// TestServerStoresWhereWeSay proves that Partition is the server's own function: what is published
// to Inbox is stored under StoredInbox, for any name.
func TestServerStoresWhereWeSay(t *testing.T) {
	t.Parallel()
	js := startServer(t)
	ids := append([]string(nil), hostile...)
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("sub_%08x", uint32(i)*2654435761))
	}
	for _, parts := range []int{1, 3, 8, 1000} {
		n := names(t, fmt.Sprintf("ns%d", parts))
		stream := inboxStream(t, js, n, parts)
		used := map[int]bool{}
		for i, id := range ids {
			to, from, lane := actor.ID(id), actor.ID(ids[len(ids)-1-i]), actor.Lane(lanes[i%len(lanes)])
			ack, err := js.Publish(t.Context(), n.Inbox(to, lane, from), nil)
			if err != nil {
				t.Fatalf("publish to %q: %v", n.Inbox(to, lane, from), err)
			}
			msg, err := stream.GetMsg(t.Context(), ack.Sequence)
			if err != nil {
				t.Fatalf("read back message %d: %v", ack.Sequence, err)
			}
			p := subjects.Partition(to, parts)
			used[p] = true
			if want := n.StoredInbox(p, to, lane, from); msg.Subject != want {
				t.Errorf("with %d partitions the server stores an envelope to %q under\n  %q, we say\n  %q", parts, id, msg.Subject, want)
			}
			if gotP, r, err := n.ParseStoredInbox(msg.Subject); err != nil || gotP != p || r != (subjects.Route{To: to, Lane: lane, From: from}) {
				t.Errorf("what the server stored, %q, parses as %d, %v, %v", msg.Subject, gotP, r, err)
			}
		}
		if parts <= 8 && len(used) != parts {
			t.Errorf("%d ids use only %d of %d partitions", len(ids), len(used), parts)
		}
	}
}

// TestFiredTimerReachesItsActor lets a schedule fire and awaits it on lane ctl of its actor's inbox.
func TestFiredTimerReachesItsActor(t *testing.T) {
	t.Parallel()
	js, n := startServer(t), names(t, "")
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: n.TimerStream(), Subjects: n.TimerFilters(), Storage: jetstream.MemoryStorage, AllowMsgSchedules: true,
	}); err != nil {
		t.Fatalf("create the timer stream: %v", err)
	}
	src, dest := n.FiredTransform()
	stream := inboxStream(t, js, n, 8, &jetstream.StreamSource{
		Name: n.TimerStream(), SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: src, Destination: dest}},
	})
	const id, name = actor.ID("Ada. 🎭"), "deadline.3"
	if _, err := js.Publish(t.Context(), n.Timer(id, name), []byte("3"),
		jetstream.WithScheduleAt(time.Now().Add(-time.Second)), jetstream.WithScheduleTarget(n.Fired(id, name))); err != nil {
		t.Fatalf("schedule %q: %v", n.Timer(id, name), err)
	}
	p := subjects.Partition(id, 8)
	msg := first(t, stream, n.InboxPartition(p))
	if want := n.StoredInbox(p, id, actor.LaneCtl, name); msg.Subject() != want {
		t.Errorf("the fired timer is stored under %q, want %q", msg.Subject(), want)
	}
}

// first awaits the first message under a filter.
func first(t *testing.T, stream jetstream.Stream, filter string) jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cons, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatalf("consume %q: %v", filter, err)
	}
	msg, err := cons.Next(jetstream.FetchContext(ctx))
	if err != nil {
		t.Fatalf("nothing arrived under %q: %v", filter, err)
	}
	return msg
}

// TestFiltersMatchWhatWeBuild lets the server judge: each stream takes what is built for it, the
// longest ids included, and nothing overlaps.
func TestFiltersMatchWhatWeBuild(t *testing.T) {
	t.Parallel()
	js, n := startServer(t), names(t, "")
	longest := actor.ID(hostile[len(hostile)-1])
	for _, c := range []struct {
		stream  string
		filters []string
		subject []string
	}{
		{n.InboxStream(), []string{n.InboxFilter()}, []string{n.Inbox(longest, actor.LaneHost, longest)}},
		{n.TimerStream(), n.TimerFilters(), []string{n.Timer(longest, "x"), n.Fired(longest, "x")}},
		{n.MailStream(), []string{n.MailFilter()}, []string{n.Mail(longest, longest, "1")}},
		{n.JournalStream(), n.JournalFilters(), []string{n.Journal(actor.Address{ID: longest}), n.Journal(actor.Address{ID: longest, Host: true})}},
		{n.WorkStream(), []string{n.WorkFilter()}, []string{n.Work("tool", "a.b", "sub_1", 7)}},
		{n.DeadStream(), []string{n.DeadFilter()}, []string{n.Dead(longest)}},
	} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: c.stream, Subjects: c.filters, Storage: jetstream.MemoryStorage}); err != nil {
			t.Fatalf("create stream %s on %q: %v", c.stream, c.filters, err)
		}
		for _, s := range c.subject {
			ack, err := js.Publish(t.Context(), s, nil)
			if err != nil || ack.Stream != c.stream {
				t.Errorf("%q is not stored in %s: %v, %v", s, c.stream, ack, err)
			}
		}
	}
}

// TestRegistryKeysInABucket puts hostile entries and watches them by tree and by parent.
func TestRegistryKeysInABucket(t *testing.T) {
	t.Parallel()
	js, n := startServer(t), names(t, "")
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: n.RegistryBucket(), Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatalf("create the registry: %v", err)
	}
	for _, id := range hostile {
		root := actor.ID(id)
		for _, key := range []string{subjects.RegistryKey(root, "", root), subjects.RegistryKey(root, root, "c.1"), subjects.RegistryKey(root, root, "c.2")} {
			if _, err := kv.Put(t.Context(), key, nil); err != nil {
				t.Fatalf("the bucket refuses the key %q: %v", key, err)
			}
		}
		for filter, want := range map[string]int{subjects.RegistryTree(root): 3, subjects.RegistryChildren(root, root): 2, subjects.RegistryChildren(root, ""): 1} {
			if got := countKeys(t, kv, filter); got != want {
				t.Errorf("%q finds %d entries of %q, want %d", filter, got, id, want)
			}
		}
	}
	if s, err := js.StreamNameBySubject(t.Context(), subjects.KVSubject(n.RegistryBucket(), "x")); err != nil || s != subjects.KVStream(n.RegistryBucket()) {
		t.Errorf("the server keeps the registry in %q (%v), we say %q", s, err, subjects.KVStream(n.RegistryBucket()))
	}
}

func countKeys(t *testing.T, kv jetstream.KeyValue, filter string) int {
	t.Helper()
	list, err := kv.ListKeysFiltered(t.Context(), filter)
	if err != nil {
		t.Fatalf("list %q: %v", filter, err)
	}
	count := 0
	for range list.Keys() {
		count++
	}
	return count
}
