package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func TestEnsureCreatesEverything(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx, n := natstest.Context(t), r.names
	for _, name := range []string{n.InboxStream(), n.TimerStream(), n.MailStream(), n.JournalStream(), n.WorkStream(), n.DeadStream()} {
		s, err := r.conn.JS.Stream(ctx, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := s.CachedInfo().Config
		if c.AllowDirect || c.Storage != jetstream.FileStorage || c.Compression != jetstream.NoCompression || c.MaxConsumers > 0 || c.DenyPurge {
			t.Errorf("%s: config %+v: want file storage, no compression, no direct gets, purges, any number of consumers", name, c)
		}
		if rollup := name == n.TimerStream(); c.AllowRollup != rollup || c.AllowMsgSchedules != rollup || c.AllowMsgTTL != rollup {
			t.Errorf("%s: rollup, schedules and TTL must be allowed on the timer stream only", name)
		}
		if c.DenyDelete != (name == n.JournalStream()) {
			t.Errorf("%s: deny_delete is %v", name, c.DenyDelete)
		}
		if work := name == n.WorkStream(); (c.Retention == jetstream.WorkQueuePolicy) != work {
			t.Errorf("%s: retention %v", name, c.Retention)
		}
	}
	for _, bucket := range []string{n.RegistryBucket(), n.AgentsBucket(), n.MemoryBucket(), n.EnvBucket(), n.RequestsBucket(), n.FilesBucket(), n.KeysBucket(), n.LeasesBucket(), n.MembersBucket()} {
		kv, err := r.conn.JS.KeyValue(ctx, bucket)
		if err != nil {
			t.Fatalf("bucket %s does not bind: %v", bucket, err)
		}
		if _, err := kv.Create(ctx, "key", []byte("v")); err != nil {
			t.Errorf("bucket %s: create: %v", bucket, err)
		}
		if e, err := kv.Get(ctx, "key"); err != nil || string(e.Value()) != "v" {
			t.Errorf("bucket %s: get: %v", bucket, err)
		}
		s, err := r.conn.JS.Stream(ctx, subjects.KVStream(bucket))
		if err != nil || s.CachedInfo().Config.AllowDirect {
			t.Errorf("bucket %s lets followers answer (error: %v)", bucket, err)
		}
	}
	obj, err := r.conn.JS.ObjectStore(ctx, n.BlobsBucket())
	if err != nil {
		t.Fatalf("the object store does not bind: %v", err)
	}
	if _, err := obj.PutBytes(ctx, "blob", []byte("v")); err != nil {
		t.Errorf("put a blob: %v", err)
	}
	if b, err := obj.GetBytes(ctx, "blob"); err != nil || string(b) != "v" {
		t.Errorf("get a blob: %q, %v", b, err)
	}
}

// TestEnsureAddsWhatIsNew: a namespace that an older version made gets the buckets that have come since.
func TestEnsureAddsWhatIsNew(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	for _, bucket := range []string{r.names.FilesBucket(), r.names.RequestsBucket()} {
		if err := r.conn.JS.DeleteKeyValue(ctx, bucket); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.conn.Ensure(ctx, bus.Layout{Names: r.names}); err != nil {
		t.Fatalf("Ensure on a namespace without them: %v", err)
	}
	for _, bucket := range []string{r.names.FilesBucket(), r.names.RequestsBucket()} {
		s, err := r.conn.JS.Stream(ctx, subjects.KVStream(bucket))
		if err != nil || s.CachedInfo().Config.AllowDirect {
			t.Errorf("bucket %s is missing, or lets followers answer (error: %v)", bucket, err)
		}
	}
}

func TestEnsureIsFastAndIdempotent(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn := natstest.InProcess(t, srv)
	names := natstest.Names(t)
	begin := time.Now()
	first, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("an empty store was ready after %v", time.Since(begin))
	if want := (bus.Layout{Names: names, Partitions: 8, Replicas: 1}); first != want {
		t.Errorf("layout %+v, want the defaults %+v", first, want)
	}
	again, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names, Partitions: 8})
	if err != nil || again != first {
		t.Errorf("the second Ensure gave %+v, %v; want the same as the first", again, err)
	}
	read, err := conn.Layout(natstest.Context(t), names)
	if err != nil || read != first {
		t.Errorf("Layout gave %+v, %v; want what Ensure gave", read, err)
	}
}

func TestLayoutOfNothing(t *testing.T) {
	t.Parallel()
	conn := natstest.Conn(t, natstest.Start(t))
	_, err := conn.Layout(natstest.Context(t), natstest.Names(t))
	wantKind(t, "the layout of an empty namespace", err, actor.NotFound)
}

func TestEnsureTwoAtOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	names := natstest.Names(t)
	type result struct {
		l   bus.Layout
		err error
	}
	results := make(chan result, 8)
	start := make(chan struct{})
	for i := range cap(results) {
		conn := natstest.Conn(t, srv)
		go func() {
			<-start
			l, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names, Partitions: 4 + i%2})
			results <- result{l, err}
		}()
	}
	close(start)
	won := map[int]int{}
	for range cap(results) {
		switch r := next(t, "Ensure", results); {
		case r.err == nil:
			won[r.l.Partitions]++
		case actor.KindOf(r.err) != actor.Conflict:
			t.Errorf("Ensure: %v, want success or a conflict", r.err)
		}
	}
	if len(won) != 1 || won[4]+won[5] != cap(results)/2 {
		t.Errorf("successes by number of partitions: %v; want one number, in every process that asked for it", won)
	}
}

func TestEnsureRefusesOtherLayout(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	_, err := r.conn.Ensure(ctx, bus.Layout{Names: r.names, Partitions: 5})
	wantKind(t, "another number of partitions", err, actor.Conflict)
	for _, bad := range []bus.Layout{{}, {Names: r.names, Partitions: -1}, {Names: r.names, Partitions: 5000}, {Names: r.names, Replicas: 9}} {
		_, err := r.conn.Ensure(ctx, bad)
		wantKind(t, "a layout that is none", err, actor.SchemaViolation)
	}
	s, err := r.conn.JS.Stream(ctx, r.names.MailStream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxAge = time.Hour
	if _, err := r.conn.JS.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.Ensure(ctx, bus.Layout{Names: r.names}); err != nil {
		t.Errorf("an operator's other age is refused: %v", err)
	}
	cfg.AllowDirect = true
	if _, err := r.conn.JS.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	_, err = r.conn.Ensure(ctx, bus.Layout{Names: r.names})
	wantKind(t, "a stream that lets followers answer", err, actor.Conflict)
}

func TestEnsureWithoutServerTimesOut(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn := natstest.Conn(t, srv)
	srv.Stop(t)
	ctx, cancel := contextWithin(300 * time.Millisecond)
	defer cancel()
	_, err := conn.Ensure(ctx, bus.Layout{Names: natstest.Names(t)})
	wantKind(t, "no server", err, actor.Timeout)
}

// TestStreamsDropNothingOld: a stream at its limit refuses what is new, also one that an earlier version made otherwise. Dead letters give way to newer
// ones.
func TestStreamsDropNothingOld(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx, n := natstest.Context(t), r.names
	stream, err := r.conn.JS.Stream(ctx, n.InboxStream())
	if err != nil {
		t.Fatal(err)
	}
	old := stream.CachedInfo().Config
	old.Discard = jetstream.DiscardOld
	if _, err := r.conn.JS.UpdateStream(ctx, old); err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.Ensure(ctx, bus.Layout{Names: n}); err != nil {
		t.Fatalf("Ensure on a stream as an earlier version made it: %v", err)
	}
	for _, name := range []string{n.InboxStream(), n.MailStream(), n.JournalStream(), n.WorkStream(), n.DeadStream()} {
		s, err := r.conn.JS.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if drops := s.CachedInfo().Config.Discard == jetstream.DiscardOld; drops != (name == n.DeadStream()) {
			t.Errorf("%s at its limit drops what is old: %v", name, drops)
		}
	}
	if stream, err = r.conn.JS.Stream(ctx, n.InboxStream()); err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxMsgs = 1
	if _, err := r.conn.JS.UpdateStream(ctx, small); err != nil {
		t.Fatal(err)
	}
	subject := n.Inbox("sub_1", actor.LaneA, "me")
	if _, err := r.conn.Send(subject, []byte("1")).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = r.conn.Send(subject, []byte("2")).Wait(ctx)
	wantKind(t, "a message that finds no room", err, actor.Unavailable)
	if !bus.AtLimit(err) {
		t.Errorf("AtLimit does not know %v", err)
	}
	if bus.AtLimit(nil) || bus.AtLimit(actor.Unavailable) {
		t.Error("AtLimit takes anything for a limit")
	}
}
