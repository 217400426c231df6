package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// later is a time at which everything stored by now is old.
func later() time.Time { return time.Now().Add(time.Hour) }

func putBlob(t *testing.T, e *env, content string) store.Ref {
	t.Helper()
	ref, err := e.Blobs.Put(t.Context(), []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func sweep(t *testing.T, e *env, before time.Time, dry bool) store.Swept {
	t.Helper()
	marks, err := e.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	swept, err := e.Sweep(t.Context(), marks, before, dry)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func (e *env) has(t *testing.T, ref store.Ref) bool {
	t.Helper()
	_, err := e.Blobs.Get(t.Context(), ref)
	if actor.KindOf(err) == actor.NotFound {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// What anything names stays, wherever it stands; what nothing names goes once it is old.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*env{"single": single(t), "cluster": cluster(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sweepNamed(t, e)
		})
	}
}

func sweepNamed(t *testing.T, e *env) {
	refText := func(r store.Ref) []byte {
		data, err := json.Marshal(map[string]store.Ref{"$blob": r})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	publish := func(subject string, data []byte) {
		stored(t, subject, e.conn.SendMsg(&nats.Msg{Subject: subject, Data: data}))
	}
	named := map[string]store.Ref{}
	name := func(where string, how func(r store.Ref) error) {
		named[where] = putBlob(t, e, "named in "+where)
		if err := how(named[where]); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
	}
	name("a journal", func(r store.Ref) error {
		_, err := e.Journal.Append(actor.Address{ID: "sub_1"}, 0, append([]byte{0x93, 0xc4}, refText(r)...)).Wait(t.Context())
		return err
	})
	name("a digest alone", func(r store.Ref) error {
		_, err := e.Journal.Append(actor.Address{ID: "sub_2"}, 0, []byte(r.Digest)).Wait(t.Context())
		return err
	})
	name("an inbox", func(r store.Ref) error { publish(e.names.Inbox("sub_1", actor.LaneA, "me"), refText(r)); return nil })
	name("the mail", func(r store.Ref) error { publish(e.names.Mail("me", "sub_1", "1"), refText(r)); return nil })
	name("a job", func(r store.Ref) error { publish(e.names.Work("tool", "x", "sub_1", 1), refText(r)); return nil })
	name("an answer", func(r store.Ref) error {
		_, err := e.Keys.Put("k", refText(r)).Wait(t.Context())
		return err
	})
	name("a request", func(r store.Ref) error {
		_, err := e.Requests.New(t.Context(), "sub_1", refText(r))
		return err
	})
	name("a dead letter", func(r store.Ref) error {
		_, err := e.conn.DeadLetter(e.names, "sub_1", "why", "", append([]byte{0xff}, refText(r)...)).Wait(t.Context())
		return err
	})
	name("another blob, across its chunks", func(r store.Ref) error {
		holder := putBlob(t, e, strings.Repeat("x", 128<<10-20)+string(refText(r)))
		_, err := e.Journal.Append(actor.Address{ID: "sub_3"}, 0, refText(holder)).Wait(t.Context())
		return err
	})
	file, err := e.Files.Write(t.Context(), "sub_1", "a", []byte("a file"), "")
	if err != nil {
		t.Fatal(err)
	}
	named["a file"] = file.Blob
	large, err := json.Marshal(strings.Repeat("m", 10_000))
	if err == nil {
		err = e.Memory.Set(t.Context(), "sub_1", "k", large)
	}
	if err != nil {
		t.Fatal(err)
	}
	garbage := []store.Ref{putBlob(t, e, "nobody's"), putBlob(t, e, ""), putBlob(t, e, strings.Repeat("nobody's, and long", 20_000))}

	if got := sweep(t, e, time.Now().Add(-time.Hour), false); got != (store.Swept{}) {
		t.Errorf("%+v was swept that is not old", got)
	}
	want := store.Swept{Blobs: 3, Bytes: garbage[0].Size + garbage[2].Size}
	if got := sweep(t, e, later(), true); got != want {
		t.Errorf("a dry run counts %+v, want %+v", got, want)
	}
	for _, r := range garbage {
		if !e.has(t, r) {
			t.Fatal("a dry run removed something")
		}
	}
	if got := sweep(t, e, later(), false); got != want {
		t.Errorf("swept %+v, want %+v", got, want)
	}
	for _, r := range garbage {
		if e.has(t, r) {
			t.Errorf("%d bytes that nothing names are still there", r.Size)
		}
	}
	for where, r := range named {
		if !e.has(t, r) {
			t.Errorf("what is named in %s was swept", where)
		}
	}
	if got, err := e.Memory.Get(t.Context(), "sub_1", "k"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("a large value of a memory space was swept: %v", err)
	}
	if got := sweep(t, e, later(), false); got != (store.Swept{}) {
		t.Errorf("swept again: %+v, want nothing", got)
	}
	if again := putBlob(t, e, "nobody's"); !e.has(t, again) {
		t.Error("what was swept can't be stored again")
	}
}

// Who stores a content that lies there unnamed for long keeps it: it is young again, before a sweep and during one.
func TestSweepPutAgain(t *testing.T) {
	t.Parallel()
	e := single(t)
	tomorrow := e.other(t, func(c *store.Config) { c.Now = func() time.Time { return time.Now().Add(store.BlobGrace) } })
	ref := putBlob(t, e, "old")
	marks, err := e.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tomorrow.Blobs.Put(t.Context(), []byte("old")); err != nil { // after it was marked as garbage
		t.Fatal(err)
	}
	if swept, err := e.Sweep(t.Context(), marks, later(), false); err != nil || swept != (store.Swept{}) {
		t.Errorf("swept %+v, %v; want nothing, for it was put again", swept, err)
	}
	if !e.has(t, ref) {
		t.Error("it was swept from under who has just stored it")
	}
}

// A removal that ended in the middle is carried to its end by the next, and contents that never became a blob go.
func TestSweepLeftovers(t *testing.T) {
	t.Parallel()
	e := single(t)
	ref := putBlob(t, e, "half removed")
	objects, err := e.js.ObjectStore(t.Context(), e.names.BlobsBucket())
	if err != nil {
		t.Fatal(err)
	}
	info, err := objects.GetInfo(t.Context(), ref.Name)
	if err != nil {
		t.Fatal(err)
	}
	meta := "$O." + e.names.BlobsBucket() + ".M."
	stream, err := e.js.Stream(t.Context(), "OBJ_"+e.names.BlobsBucket())
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), meta+">")
	if err != nil {
		t.Fatal(err)
	}
	deleted := bytes.Replace(m.Data, []byte(`"size"`), []byte(`"deleted":true,"size"`), 1)
	stored(t, "mark", e.conn.SendMsg(&nats.Msg{Subject: m.Subject, Data: deleted, Header: nats.Header{"Nats-Rollup": {"sub"}}}))
	stored(t, "orphan", e.conn.SendMsg(&nats.Msg{Subject: "$O." + e.names.BlobsBucket() + ".C.orphan", Data: []byte("never announced")}))
	if e.has(t, ref) {
		t.Fatal("a blob that is marked as deleted is found")
	}
	if got := sweep(t, e, later(), false); got.Blobs != 1 || got.Chunks != 1 {
		t.Errorf("swept %+v, want what was half removed and the orphan", got)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Errorf("%d messages are left of %s, want none (%v)", info.State.Msgs, info.Config.Name, err)
	}
	if info.NUID == "" {
		t.Error("the blob had no chunks: the test tests nothing")
	}
}

// A thread goes with all it has and nothing of its neighbours'.
func TestRemoveThread(t *testing.T) {
	t.Parallel()
	e := single(t)
	const gone, stays = actor.ID("sub_1"), actor.ID("sub_10")
	for _, id := range []actor.ID{gone, stays} {
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := e.Files.Write(t.Context(), id, "a", []byte("x"), "")
		ok(err)
		ok(e.Memory.Set(t.Context(), id, "k", []byte("1")))
		ok(e.Env.Set(t.Context(), id, map[string]string{"A": "1"}))
		_, err = e.Requests.New(t.Context(), id, []byte("1"))
		ok(err)
		stored(t, "timer", e.conn.Timers(e.names).SetTimer(id, "timeout", time.Now().Add(time.Hour), []byte("x")))
		stored(t, "mail", e.conn.SendMsg(&nats.Msg{Subject: e.names.Mail("me", id, "1")}))
		last := uint64(0)
		for range 3 {
			last = stored(t, "record", e.Journal.Append(actor.Address{ID: id}, last, []byte("r")))
		}
		stored(t, "host", e.Journal.Append(actor.Address{ID: id, Host: true}, 0, []byte("r")))
		stored(t, "entry", e.Registry.Put("me", "me", id, 0, []byte("{}")))
	}
	for range 2 { // again changes nothing
		if err := e.RemoveThread(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if err := e.Journal.Remove(t.Context(), actor.Address{ID: gone}); err != nil {
			t.Fatal(err)
		}
	}
	for stream, want := range map[string]uint64{
		e.names.JournalStream(): 5, e.names.MailStream(): 1, e.names.TimerStream(): 1,
		subjects.KVStream(e.names.FilesBucket()): 1, subjects.KVStream(e.names.MemoryBucket()): 1,
		subjects.KVStream(e.names.EnvBucket()): 1, subjects.KVStream(e.names.RequestsBucket()): 1,
	} {
		s, err := e.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().State.Msgs; got != want {
			t.Errorf("%s has %d messages, want %d: the other thread's", stream, got, want)
		}
	}
	if _, err := e.Journal.Append(actor.Address{ID: gone}, 3, []byte("late")).Wait(t.Context()); actor.KindOf(err) != actor.Conflict {
		t.Errorf("a late record of a thread that was removed gave %v, want a conflict", err)
	}
}

// A long journal goes in several bites.
func TestRemoveLongJournal(t *testing.T) {
	t.Parallel()
	e := single(t)
	a := actor.Address{ID: "sub_1"}
	var acks []actor.Ack
	for range 12_001 {
		acks = append(acks, e.conn.Send(e.names.Journal(a), []byte("r")))
	}
	for _, ack := range acks {
		stored(t, "record", ack)
	}
	if err := e.Journal.Remove(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	_, err := e.Journal.Last(t.Context(), a)
	wantKind(t, "the last record of a journal that was removed", err, actor.NotFound)
}

// An entry that was taken away leaves a mark, which keeps others from being put, until it is forgotten.
func TestRegistryRemove(t *testing.T) {
	t.Parallel()
	e := single(t)
	rev := stored(t, "put", e.Registry.Put("r", "p", "c", 0, []byte(`{"a":1}`)))
	stored(t, "put", e.Registry.Put("r", "p", "d", 0, []byte(`{"b":1}`)))
	_, err := e.Registry.Remove("r", "p", "c", rev+7).Wait(t.Context())
	wantKind(t, "a removal of another revision", err, actor.Conflict)
	mark := stored(t, "remove", e.Registry.Remove("r", "p", "c", rev))
	_, err = e.Registry.Get(t.Context(), "r", "p", "c")
	wantKind(t, "Get", err, actor.NotFound)
	_, err = e.Registry.Put("r", "p", "c", 0, []byte(`{}`)).Wait(t.Context())
	wantKind(t, "a put in the place of the mark", err, actor.Conflict)
	seen := func() (all []string) {
		err := e.Registry.Each(t.Context(), func(e store.Entry, removed time.Time) error {
			all = append(all, fmt.Sprint(e.Child, " ", string(e.Data), " ", !removed.IsZero()))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got := fmt.Sprint(seen()); got != `[d {"b":1} false c  true]` {
		t.Errorf("Each tells %s", got)
	}
	if err := e.Registry.Each(t.Context(), func(store.Entry, time.Time) error { return io.EOF }); err != io.EOF {
		t.Errorf("Each gave %v, want the error that stopped it", err)
	}
	if err := e.Registry.Forget(t.Context(), "r", "p", "c", mark); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(seen()); got != `[d {"b":1} false]` {
		t.Errorf("after the mark was forgotten Each tells %s", got)
	}
	again := stored(t, "put", e.Registry.Put("r", "p", "c", 0, []byte(`{}`)))
	if err := e.Registry.Forget(t.Context(), "r", "p", "c", again-1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Registry.Get(t.Context(), "r", "p", "c"); err != nil {
		t.Errorf("an entry that was put since was forgotten: %v", err)
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	e := single(t)
	a, err := e.Archive(t.Context(), "attic")
	if err != nil {
		t.Fatal(err)
	}
	if has, err := a.Has(t.Context(), "x"); has || err != nil {
		t.Fatalf("an empty archive has it: %v, %v", has, err)
	}
	err = a.Save(t.Context(), "x", func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return io.ErrUnexpectedEOF
	})
	if has, _ := a.Has(t.Context(), "x"); has || err == nil {
		t.Fatalf("half an object is there (%v), and Save gave %v", has, err)
	}
	for range 2 {
		err = a.Save(t.Context(), "x", func(w io.Writer) error {
			_, err := w.Write(bytes.Repeat([]byte("line\n"), 100_000))
			return err
		})
		if has, err2 := a.Has(t.Context(), "x"); !has || err != nil || err2 != nil {
			t.Fatalf("it is not there: %v, %v, %v", has, err, err2)
		}
	}
	if _, err := e.Archive(t.Context(), "attic"); err != nil {
		t.Errorf("an archive that is there can't be opened: %v", err)
	}
}
