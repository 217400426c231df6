package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func TestNewNeedsEverything(t *testing.T) {
	t.Parallel()
	_, err := store.New(store.Config{})
	wantKind(t, "New of nothing", err, actor.SchemaViolation)
}

// TestAway: with the server gone, everything fails typed and within its deadline, and goes on when
// the server is back.
func TestAway(t *testing.T) {
	t.Parallel()
	e := single(t)
	a := actor.Address{ID: "a"}
	last := fill(t, e, a, 40)[39]
	told := watch(t, e, "root")
	until(t, told, stored(t, "create", e.Registry.Put("root", "", "one", 0, nil)))
	e.server.Stop(t)
	for what, call := range map[string]func(context.Context) error{
		"Last": func(ctx context.Context) error { _, err := e.Journal.Last(ctx, a); return err },
		"Range": func(ctx context.Context) error {
			return e.Journal.Range(ctx, a, 1, last, func(store.Message) error { return nil })
		},
		"Tree":  func(ctx context.Context) error { _, err := e.Registry.Tree(ctx, "root"); return err },
		"Put":   func(ctx context.Context) error { _, err := e.Blobs.Put(ctx, []byte("x")); return err },
		"Next":  func(ctx context.Context) error { _, err := e.IDs.Next(ctx); return err },
		"Stat":  func(ctx context.Context) error { _, err := e.Files.Stat(ctx, "a", "x"); return err },
		"Copy":  func(ctx context.Context) error { _, err := e.Files.Copy(ctx, "a", []string{"x"}, "b", ""); return err },
		"Set":   func(ctx context.Context) error { return e.Memory.Set(ctx, "a", "x", []byte("1")) },
		"Env":   func(ctx context.Context) error { return e.Env.Set(ctx, "a", map[string]string{"x": "1"}) },
		"Names": func(ctx context.Context) error { _, err := e.Env.Names(ctx, "a"); return err },
		"Use": func(ctx context.Context) error {
			return e.Requests.Use(ctx, "a", "00000000-0000-4000-8000-000000000000", 1)
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		wantKind(t, what+" without a server", call(ctx), actor.Unavailable)
		cancel()
	}
	_, err := e.Journal.Append(a, last, nil).Wait(t.Context())
	wantKind(t, "Append without a server", err, actor.Unavailable)
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	_, err = e.Journal.Last(cancelled, a)
	wantKind(t, "Last in a cancelled context", err, actor.Timeout)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not tell that the context was cancelled", err)
	}

	back := make(chan error, 1)
	go func() { // asked while the server is away, answered when it is back
		_, err := e.Journal.Last(context.Background(), a)
		back <- err
	}()
	e.server.Restart(t)
	if err := <-back; err != nil {
		t.Errorf("a read that began while the server was away: %v", err)
	}
	natstest.Await(t, "appends work again", func() bool {
		seq, err := e.Journal.Append(a, last, nil).Wait(t.Context())
		return err == nil && seq > last
	})
	until(t, told, stored(t, "create", e.Registry.Put("root", "", "two", 0, nil)))
}

// TestLongAway: a read that many tries in a row could not make is made once the server is back, with time to be
// answered in.
func TestLongAway(t *testing.T) {
	t.Parallel()
	e := single(t)
	a := actor.Address{ID: "a"}
	fill(t, e, a, 1)
	e.server.Stop(t)
	read := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		_, err := e.Registry.Tree(ctx, "root") // a call without a deadline of its own
		read <- err
	}()
	const long = 80 * 50 * time.Millisecond // more tries than an int64 has bits
	began := time.Now()
	natstest.Await(t, "the server is away for long", func() bool { return time.Since(began) > long })
	e.server.Restart(t)
	select {
	case err := <-read:
		if err != nil {
			t.Errorf("the read failed: %v", err)
		}
	case <-natstest.Context(t).Done():
		t.Error("the read that began while the server was away does not end though it is back")
	}
}

// TestWatchLeaksNothing: a watch that lives through restarts has one consumer, and none when it ends.
func TestWatchLeaksNothing(t *testing.T) {
	t.Parallel()
	e := single(t)
	bucket := subjects.KVStream(e.names.RegistryBucket())
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan change, 1000)
	done := make(chan error, 1)
	go func() {
		done <- e.Registry.Watch(ctx, "", func(entry store.Entry, deleted bool) { told <- change{entry, deleted} })
	}()
	for i := range 3 {
		var rev uint64
		natstest.Await(t, "an entry is stored", func() bool {
			var err error
			rev, err = e.Registry.Put("r", "", actor.ID(fmt.Sprint(i)), 0, nil).Wait(t.Context())
			return err == nil
		})
		until(t, told, rev)
		if n := e.consumers(t, bucket); n != 1 {
			t.Errorf("after %d restarts the bucket has %d consumers, want the watch's one", i, n)
		}
		e.server.Stop(t)
		e.server.Restart(t)
	}
	natstest.Await(t, "the watch is back", func() bool { return e.nc.IsConnected() && e.consumers(t, bucket) == 1 })
	cancel()
	<-done
	noConsumers(t, e, bucket)
}

// TestWatchConsumerGone: somebody removes the watch's consumer.
func TestWatchConsumerGone(t *testing.T) {
	t.Parallel()
	e := single(t)
	told := watch(t, e, "r")
	until(t, told, stored(t, "create", e.Registry.Put("r", "", "1", 0, nil)))
	bucket, err := e.js.Stream(t.Context(), subjects.KVStream(e.names.RegistryBucket()))
	if err != nil {
		t.Fatal(err)
	}
	for name := range bucket.ConsumerNames(t.Context()).Name() {
		if err := bucket.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	until(t, told, stored(t, "create", e.Registry.Put("r", "", "2", 0, nil)))
}

// TestNoGoroutines: calls leave no goroutine of theirs behind. It has the process for itself.
func TestNoGoroutines(t *testing.T) {
	e := single(t)
	a := actor.Address{ID: "a"}
	seqs := fill(t, e, a, 40)
	ignore := []goleak.Option{goleak.IgnoreCurrent()}
	for _, f := range []string{"(*consumer).processInboundAcks", "(*consumer).loopAndGatherMsgs", "(*stream).processAllSourceMsgs"} {
		ignore = append(ignore, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server."+f)) // the server's own
	}
	for range 5 {
		if err := e.Journal.Range(t.Context(), a, 1, seqs[39], func(store.Message) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Blobs.Put(t.Context(), random(3<<20, 3)); err != nil {
			t.Fatal(err)
		}
	}
	goleak.VerifyNone(t, ignore...)
}

// TestLeaderDies: on three servers, the leader of the journal dies while an actor appends and a
// watch runs. Nothing that was acknowledged is lost, nothing is stored twice, no fence leaks.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	e := cluster(t)
	told := watch(t, e, "")
	w := &writer{e: e, a: actor.Address{ID: "a"}, acked: map[uint64]string{}}
	for i := range 100 {
		w.append(t, fmt.Sprint("before ", i))
	}
	dead := e.cluster.Leader(t, e.conn, e.names.JournalStream())
	dead.Stop(t)
	for i := range 100 {
		w.append(t, fmt.Sprint("after ", i))
	}
	dead.Restart(t)
	n := 0
	err := e.Journal.Range(t.Context(), w.a, 1, w.last, func(m store.Message) error {
		if w.acked[m.Seq] != string(m.Data) {
			t.Errorf("record %d is %q, acknowledged was %q", m.Seq, m.Data, w.acked[m.Seq])
		}
		n++
		return nil
	})
	if err != nil || n != 200 {
		t.Errorf("the journal has %d records (%v), want the 200 that were acknowledged", n, err)
	}
	var entry store.Entry
	natstest.Await(t, "an entry can be stored", func() bool {
		_, err := e.Registry.Put("r", "", "1", 0, nil).Wait(t.Context())
		return err == nil || errors.Is(err, actor.Conflict) // then an earlier try was stored
	})
	natstest.Await(t, "the entry can be read", func() bool {
		entry, err = e.Registry.Get(t.Context(), "r", "", "1")
		return err == nil
	})
	until(t, told, entry.Rev)
}

// A writer appends as an actor does: when it does not know what became of a record, it reads.
type writer struct {
	e     *env
	a     actor.Address
	last  uint64
	acked map[uint64]string
}

func (w *writer) append(t *testing.T, text string) {
	t.Helper()
	ctx := natstest.Context(t)
	for ctx.Err() == nil {
		if seq, err := w.e.Journal.Append(w.a, w.last, []byte(text)).Wait(ctx); err == nil {
			w.last, w.acked[seq] = seq, text
			return
		}
		m, err := w.e.Journal.Last(ctx, w.a)
		switch {
		case err == nil && m.Seq != w.last && string(m.Data) == text:
			w.last, w.acked[m.Seq] = m.Seq, text
			return
		case err == nil && m.Seq != w.last:
			t.Fatalf("the journal ends with %q at %d, want %q or the record at %d", m.Data, m.Seq, text, w.last)
		case errors.Is(err, actor.NotFound) && w.last == 0, errors.Is(err, actor.Unavailable), err == nil:
			// try again
		default:
			t.Fatalf("a read across a change of leader, when the last record is %d: %v", w.last, err)
		}
	}
	t.Fatalf("no append succeeded for %q: %v", text, ctx.Err())
}

// TestChunksTakenBack: a blob whose upload fails is not there.
func TestChunksTakenBack(t *testing.T) {
	t.Parallel()
	e := single(t)
	s, err := e.js.Stream(t.Context(), "OBJ_"+e.names.BlobsBucket())
	if err != nil {
		t.Fatal(err)
	}
	small := s.CachedInfo().Config
	small.MaxBytes = 1 << 20
	if _, err := e.js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	data := random(3<<20, 4)
	if _, err := e.Blobs.Put(t.Context(), data); err == nil {
		t.Fatal("3 MiB went into a store of 1 MiB")
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("%d messages of the failed blob are left (%v)", info.State.Msgs, err)
	}
	small.MaxBytes = -1
	if _, err := e.js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Blobs.Put(t.Context(), data); err != nil {
		t.Errorf("Put with room again: %v", err)
	}
}
