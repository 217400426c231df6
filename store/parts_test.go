package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

func keys(t *testing.T, e *env) {
	key := subjects.IdempotencyKey("caller", "SUBAGENT_SPAWN_REQ", "1")
	if _, found, err := e.Keys.Get(t.Context(), key); found || err != nil {
		t.Fatalf("a new key is found: %v, %v", found, err)
	}
	stored(t, "put", e.Keys.Put(key, []byte("answer")))
	_, err := e.Keys.Put(key, []byte("another")).Wait(t.Context())
	wantKind(t, "a second answer", err, actor.Conflict)
	if data, found, err := e.Keys.Get(t.Context(), key); !found || err != nil || string(data) != "answer" {
		t.Errorf("the key holds %q (%v, %v), want the first answer", data, found, err)
	}
	for _, bad := range []string{"", "*", ">", "a.b", "a b"} {
		_, _, err := e.Keys.Get(t.Context(), bad)
		wantKind(t, fmt.Sprintf("Get(%q)", bad), err, actor.SchemaViolation)
		_, err = e.Keys.Put(bad, nil).Wait(t.Context())
		wantKind(t, fmt.Sprintf("Put(%q)", bad), err, actor.SchemaViolation)
	}
}

func leases(t *testing.T, e *env) {
	if l, rev, err := e.Leases.Get(t.Context(), 3); err != nil || rev != 0 || !reflect.DeepEqual(l, store.Lease{}) {
		t.Fatalf("a partition without an owner has the lease %+v, revision %d (%v)", l, rev, err)
	}
	want := store.Lease{Owner: "m1", Epoch: 1, Watermark: 1 << 40, Takeovers: 2, Deciding: 9, Deaths: 3,
		Stragglers: []actor.Address{{ID: "sub_00000001"}, {ID: "sub_00000001", Host: true}, {ID: "x/host"}},
		Lent:       []store.Lent{{Actor: actor.Address{ID: "sub_00000001"}, Job: 7, By: "m0@1", Within: 1500 * time.Millisecond}}}
	rev, err := e.Leases.Write(t.Context(), 3, want, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Leases.Write(t.Context(), 3, store.Lease{Owner: "m2"}, 0)
	wantKind(t, "a takeover of a lease that was renewed", err, actor.Conflict)
	got, gotRev, err := e.Leases.Get(t.Context(), 3)
	if err != nil || gotRev != rev || !reflect.DeepEqual(got, want) {
		t.Errorf("the lease is %+v at %d (%v), want %+v at %d", got, gotRev, err, want, rev)
	}
	for p := range 20 {
		if p != 3 {
			if _, err := e.Leases.Write(t.Context(), p, store.Lease{Owner: "m1", Epoch: uint64(p)}, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := e.Leases.All(t.Context())
	if err != nil || len(all) != 20 {
		t.Fatalf("All lists %d of 20 leases (%v)", len(all), err)
	}
	if all[0].Partition != 3 || all[0].Rev != rev || !reflect.DeepEqual(all[0].Lease, want) {
		t.Errorf("All says %+v of partition 3, want %+v at %d", all[0], want, rev)
	}
}

func members(t *testing.T, e *env) {
	started := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	one := store.Member{ID: "m.1", Host: "h", PID: 7, Started: started, Version: "v1", Partitions: []int{0, 2}}
	beat := func(m store.Member, rev uint64) uint64 {
		rev, err := e.Members.Beat(t.Context(), m, rev)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	rev := beat(one, 0)
	for _, m := range []store.Member{{ID: "m2"}, {ID: "m3"}} {
		beat(m, 0)
	}
	if _, err := e.Members.Beat(t.Context(), store.Member{ID: "m.1", PID: 8}, 0); !errors.Is(err, actor.Conflict) {
		t.Errorf("a second process under the name m.1: %v, want conflict", err)
	}
	if there, at, err := e.Members.Get(t.Context(), "m.1"); err != nil || at != rev || !there.Same(one) {
		t.Errorf("of m.1 it is said %+v at %d (%v), want %+v at %d", there, at, err, one, rev)
	}
	if err := e.Members.Leave(t.Context(), "m2"); err != nil {
		t.Fatal(err)
	}
	if there, at, err := e.Members.Get(t.Context(), "m2"); err != nil || there.ID != "" {
		t.Errorf("of one that has left it is said %+v (%v)", there, err)
	} else if beat(store.Member{ID: "m2"}, at); e.Members.Leave(t.Context(), "m2") != nil {
		t.Error("m2 can't leave again")
	}
	if err := e.Members.Leave(t.Context(), "nobody"); err != nil {
		t.Errorf("leaving without being there: %v", err)
	}
	beat(one, rev)
	if err := e.Members.Linger(t.Context(), store.Member{ID: "m2", Partitions: []int{1}}); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Members.List(t.Context()); err != nil || len(got) != 3 || !got[2].Leaving || got[2].ID != "m2" || len(got[2].Partitions) > 0 {
		t.Errorf("the members are %+v (%v), want m2, which is leaving and owns nothing, behind two others", got, err)
	}
	if err := e.Members.Gone(t.Context(), "m2"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.js.Publish(t.Context(), subjects.KVSubject(e.names.MembersBucket(), "junk"), []byte("no JSON")); err != nil {
		t.Fatal(err)
	}
	got, err := e.Members.List(t.Context())
	if err != nil || len(got) != 2 || got[0].ID != "m3" || got[1].ID != "m.1" {
		t.Fatalf("the members are %+v (%v), want m3 and m.1 in the order of their beats", got, err)
	}
	if got[1].Seen.IsZero() {
		t.Error("Seen is not set")
	}
	got[1].Seen = time.Time{}
	if !reflect.DeepEqual(got[1], one) {
		t.Errorf("member is %+v, want %+v", got[1], one)
	}
}

func ids(t *testing.T, e *env) {
	format := regexp.MustCompile(`^sub_[0-9a-f]{8}$`)
	var mu sync.Mutex
	seen := map[actor.ID]bool{}
	note := func(ids ...actor.ID) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if seen[id] || !format.MatchString(string(id)) {
				t.Errorf("id %q was given out before, or has another form than sub_ and 8 hex digits", id)
			}
			seen[id] = true
		}
	}
	var all sync.WaitGroup
	for range 4 { // processes
		source := store.NewIDs(e.Store)
		for range 4 {
			all.Go(func() {
				for range 500 {
					id, err := source.Next(t.Context())
					if err != nil {
						t.Errorf("Next: %v", err)
						return
					}
					note(id)
				}
				many, err := source.Take(t.Context(), 3000)
				if err != nil || len(many) != 3000 {
					t.Errorf("Take(3000) gave %d ids: %v", len(many), err)
				}
				note(many...)
			})
		}
	}
	all.Wait()
	if want := 16 * 3500; len(seen) != want {
		t.Errorf("%d different ids, want %d", len(seen), want)
	}
	_, err := e.IDs.Take(t.Context(), -1)
	wantKind(t, "Take(-1)", err, actor.SchemaViolation)

	// The last ten.
	if _, err := e.js.Publish(t.Context(), subjects.KVSubject(e.names.LeasesBucket(), subjects.IDsKey), []byte(`{"next":4294967286}`)); err != nil {
		t.Fatal(err)
	}
	source := store.NewIDs(e.Store)
	last, err := source.Take(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	note(last...)
	_, err = source.Next(t.Context())
	wantKind(t, "the id behind the last", err, actor.QuotaExceeded)
}

func random(size int, seed uint64) []byte {
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(size), byte(size >> 8), byte(size >> 16)})
	_, _ = r.Read(data)
	return data
}

func blobs(t *testing.T, e *env) {
	objects, err := e.js.ObjectStore(t.Context(), e.names.BlobsBucket())
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 128 << 10, 128<<10 + 1, 5 << 20} {
		data := random(size, 1)
		ref, err := e.Blobs.Put(t.Context(), data)
		if err != nil {
			t.Fatalf("Put of %d bytes: %v", size, err)
		}
		if got, err := e.Blobs.Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("Get of %d bytes gave %d others (%v)", size, len(got), err)
		}
		if got, err := objects.GetBytes(t.Context(), ref.Name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("a plain NATS client reads %d other bytes than %d (%v)", len(got), size, err)
		}
		before := written(t, objects, ref)
		if again, err := e.Blobs.Put(t.Context(), data); err != nil || again != ref {
			t.Errorf("a second Put gave %+v (%v), want %+v", again, err, ref)
		}
		if after := written(t, objects, ref); !after.Equal(before) {
			t.Errorf("a second Put of %d bytes was stored again, at %v", size, after)
		}
	}
	ref, err := e.Blobs.Put(t.Context(), []byte("deleted"))
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Delete(t.Context(), ref.Name); err != nil {
		t.Fatal(err)
	}
	_, err = e.Blobs.Get(t.Context(), ref)
	wantKind(t, "Get of a deleted blob", err, actor.NotFound)
	if _, err = e.Blobs.Put(t.Context(), []byte("deleted")); err != nil {
		t.Fatalf("Put behind a deletion: %v", err)
	}
	if got, err := e.Blobs.Get(t.Context(), ref); err != nil || string(got) != "deleted" {
		t.Errorf("a blob that was put back is %q (%v)", got, err)
	}
	blobsRefused(t, e, objects, ref)
}

func blobsRefused(t *testing.T, e *env, objects jetstream.ObjectStore, ref store.Ref) {
	_, err := e.Blobs.Put(t.Context(), make([]byte, store.MaxBlobBytes+1))
	wantKind(t, "a blob over the limit", err, actor.TooLarge)
	for what, spoil := range map[string]func(*store.Ref){
		"another bucket": func(r *store.Ref) { r.Bucket = "other" },
		"another digest": func(r *store.Ref) { r.Digest = "SHA-256=x" },
		"a plain name":   func(r *store.Ref) { r.Name = "secret" },
		"a huge size":    func(r *store.Ref) { r.Size = 1 << 60 },
	} {
		bad := ref
		spoil(&bad)
		_, err := e.Blobs.Get(t.Context(), bad)
		wantKind(t, "a Ref with "+what, err, actor.SchemaViolation)
	}
	bad := ref
	bad.Size++
	_, err = e.Blobs.Get(t.Context(), bad)
	wantKind(t, "a Ref with a wrong size", err, actor.RuntimeError)
	if _, err := objects.PutBytes(t.Context(), ref.Name, []byte("forged!")); err != nil {
		t.Fatal(err)
	}
	_, err = e.Blobs.Get(t.Context(), ref)
	wantKind(t, "Get of a forged blob", err, actor.RuntimeError)
	if _, err := e.Blobs.Put(t.Context(), []byte("deleted")); err != nil {
		t.Fatalf("Put over a forged blob: %v", err)
	}
	if got, err := e.Blobs.Get(t.Context(), ref); err != nil || string(got) != "deleted" {
		t.Errorf("a blob that was mended is %q (%v)", got, err)
	}
}

// written is when an object was last announced.
func written(t *testing.T, objects jetstream.ObjectStore, ref store.Ref) time.Time {
	t.Helper()
	info, err := objects.GetInfo(t.Context(), ref.Name)
	if err != nil {
		t.Fatalf("info of %s: %v", ref.Name, err)
	}
	return info.ModTime
}

// blobsTogether: many that put the same content at the same time leave one copy of it.
func blobsTogether(t *testing.T, e *env) {
	data := random(300<<10, 2)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			ref, err := e.Blobs.Put(t.Context(), data)
			if err != nil {
				t.Errorf("Put: %v", err)
				return
			}
			if got, err := e.Blobs.Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
				t.Errorf("a blob that others put at the same time has %d other bytes (%v)", len(got), err)
			}
		})
	}
	all.Wait()
}

// A change is what Watch has told.
type change struct {
	store.Entry
	deleted bool
}

// watch starts a Watch that ends with the test.
func watch(t *testing.T, e *env, root actor.ID) <-chan change {
	t.Helper()
	told := make(chan change, 100_000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Registry.Watch(ctx, root, func(entry store.Entry, deleted bool) { told <- change{entry, deleted} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v, want the context's own error", err)
		}
	})
	return told
}

// until reads what a watch tells up to a revision.
func until(t *testing.T, told <-chan change, rev uint64) (all []change) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case c := <-told:
			all = append(all, c)
			if c.Rev == rev {
				return all
			}
		case <-limit:
			t.Fatalf("after 30 s the watch has not told revision %d, but %d others", rev, len(all))
		}
	}
}

func registryWatch(t *testing.T, e *env) {
	root := actor.ID("watch")
	var rev uint64
	for i := range 50 {
		rev = stored(t, "create", e.Registry.Put(root, "p", actor.ID(fmt.Sprint(i)), 0, []byte("x")))
	}
	told, everything := watch(t, e, root), watch(t, e, "")
	if got := until(t, told, rev); len(got) != 50 {
		t.Errorf("the watch begins with %d entries, want the 50 there are", len(got))
	}
	until(t, everything, rev)
	kv, err := e.js.KeyValue(t.Context(), e.names.RegistryBucket())
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), subjects.RegistryKey(root, "p", "7")); err != nil {
		t.Fatal(err)
	}
	rev = stored(t, "create", e.Registry.Put(root, "p", "new", 0, []byte("y")))
	got := until(t, told, rev)
	if len(got) != 2 || !got[0].deleted || got[0].Child != "7" || got[0].Data != nil || got[1].deleted || string(got[1].Data) != "y" {
		t.Errorf("the watch told %+v, want the deletion of 7 and the new entry", got)
	}
	until(t, everything, rev)
}
