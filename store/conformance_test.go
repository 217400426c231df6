package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	conformance(t, single(t))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	conformance(t, cluster(t))
}

// conformance is what holds on any server, replicated or not. Its parts share one namespace and run
// at the same time.
func conformance(t *testing.T, e *env) {
	for name, part := range map[string]func(*testing.T, *env){
		"JournalOrder": journalOrder, "JournalFence": journalFence, "JournalRange": journalRange, "JournalSpoofed": journalSpoofed,
		"RegistryPut": registryPut, "RegistryList": registryList, "RegistryListMoving": registryListMoving, "RegistryWatch": registryWatch,
		"Keys": keys, "Leases": leases, "Members": members, "IDs": ids, "Blobs": blobs, "BlobsTogether": blobsTogether,
		"Agents": agents, "AgentsTogether": agentsTogether, "AgentsOrphan": agentsOrphan, "AgentsForeign": agentsForeign,
		"Files": files, "FilesPaths": filesPaths, "FilesCopy": filesCopy, "FilesCopyAgain": filesCopyAgain, "FilesTogether": filesTogether, "FilesFull": filesFull,
		"Memory": memory, "MemoryLarge": memoryLarge, "MemoryUpdate": memoryUpdate, "MemorySnapshots": memorySnapshots, "MemoryRestore": memoryRestore,
		"Env": scoped, "EnvCopy": scopedCopy, "EnvSealed": scopedSealed, "EnvRotation": scopedRotation, "EnvTogether": scopedTogether, "EnvCanary": scopedCanary,
		"Requests": requests, "RequestsUse": requestsUse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, e)
		})
	}
}

func stored(t testing.TB, what string, a actor.Ack) uint64 {
	t.Helper()
	seq, err := a.Wait(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return seq
}

func wantKind(t testing.TB, what string, err error, want actor.Kind) {
	t.Helper()
	var typed *actor.Error
	if !errors.As(err, &typed) || !errors.Is(err, want) {
		t.Fatalf("%s gave %v, want an *actor.Error of kind %s", what, err, want)
	}
}

// fill appends n records to a's empty journal, pipelined as far as their expectations allow.
func fill(t testing.TB, e *env, a actor.Address, n int) (seqs []uint64) {
	t.Helper()
	var last uint64
	for i := range n {
		last = stored(t, "append", e.Journal.Append(a, last, fmt.Appendf(nil, "%s %d", a, i)))
		seqs = append(seqs, last)
	}
	return seqs
}

func journalOrder(t *testing.T, e *env) {
	// The names that would be another subject if they were not encoded.
	for _, a := range []actor.Address{{ID: "order"}, {ID: "order", Host: true}, {ID: "a b.c"}, {ID: "*"}, {ID: ">"}, {ID: "~:é"}} {
		_, err := e.Journal.Last(t.Context(), a)
		wantKind(t, "Last of an actor without a journal", err, actor.NotFound)
		seqs := fill(t, e, a, 3)
		m, err := e.Journal.Last(t.Context(), a)
		if err != nil || m.Seq != seqs[2] || string(m.Data) != a.String()+" 2" || m.Time.IsZero() {
			t.Errorf("Last(%s) is %d %q %v (%v), want the third record, %d", a, m.Seq, m.Data, m.Time, err, seqs[2])
		}
		m, who, err := e.Journal.At(t.Context(), seqs[1])
		if err != nil || who != a || string(m.Data) != a.String()+" 1" {
			t.Errorf("At(%d) is %q of %s (%v), want the second record of %s", seqs[1], m.Data, who, err, a)
		}
	}
	for _, seq := range []uint64{0, 1 << 40} {
		_, _, err := e.Journal.At(t.Context(), seq)
		wantKind(t, fmt.Sprintf("At(%d)", seq), err, actor.NotFound)
	}
}

func journalFence(t *testing.T, e *env) {
	a := actor.Address{ID: "fence"}
	seq := fill(t, e, a, 1)[0]
	for _, last := range []uint64{0, seq - 1, seq + 1} {
		ack := e.Journal.Append(a, last, nil)
		_, err := ack.Wait(t.Context())
		wantKind(t, fmt.Sprintf("Append behind %d when the last is %d", last, seq), err, actor.Conflict)
		if _, again := ack.Wait(t.Context()); again != err {
			t.Errorf("waiting again gave %v, first %v: the answer must stay", again, err)
		}
	}
	// Of many that name the same last record, one is stored, and it is the one that was told so.
	acks := make([]actor.Ack, 20)
	for i := range acks {
		acks[i] = e.Journal.Append(a, seq, fmt.Appendf(nil, "%d", i))
	}
	won := -1
	for i, ack := range acks {
		switch _, err := ack.Wait(t.Context()); {
		case err == nil && won >= 0:
			t.Fatalf("appends %d and %d were both stored behind %d: the fence leaks", won, i, seq)
		case err == nil:
			won = i
		default:
			wantKind(t, "an append that lost", err, actor.Conflict)
		}
	}
	m, err := e.Journal.Last(t.Context(), a)
	if err != nil || won < 0 || string(m.Data) != fmt.Sprint(won) {
		t.Errorf("the last record is %q (%v), the append that was acknowledged %d", m.Data, err, won)
	}
	// An answer that is there is given to everybody, also when the context has ended.
	ack := e.Journal.Append(a, m.Seq, nil)
	want := stored(t, "append", ack)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if seq, err := ack.Wait(ended); seq != want || err != nil {
				t.Errorf("a second Wait gave %d (%v), want %d", seq, err, want)
			}
		})
	}
	all.Wait()
	_, err = e.Journal.Append(a, want, make([]byte, e.nc.MaxPayload()+1)).Wait(t.Context())
	wantKind(t, "a record over the server's limit", err, actor.TooLarge)
}

func journalRange(t *testing.T, e *env) {
	a, other := actor.Address{ID: "range"}, actor.Address{ID: "range", Host: true}
	const n = 300 // far more than are read one by one
	var seqs []uint64
	var last, lastOther uint64
	for i := range n {
		last = stored(t, "append", e.Journal.Append(a, last, fmt.Appendf(nil, "%d", i)))
		lastOther = stored(t, "append", e.Journal.Append(other, lastOther, nil))
		seqs = append(seqs, last)
	}
	for _, r := range [][2]int{{0, 0}, {0, 1}, {3, 12}, {0, 15}, {0, 16}, {0, 17}, {10, 250}, {0, n - 1}, {n - 1, n - 1}} {
		i := r[0]
		err := e.Journal.Range(t.Context(), a, seqs[r[0]], seqs[r[1]], func(m store.Message) error {
			if m.Seq != seqs[i] || string(m.Data) != fmt.Sprint(i) {
				t.Errorf("range %v: record %d is %q at %d, want %d at %d", r, i, m.Data, m.Seq, i, seqs[i])
			}
			i++
			return nil
		})
		if err != nil || i != r[1]+1 {
			t.Errorf("range %v ended before record %d: %v", r, i, err)
		}
	}
	count := 0
	fail := errors.New("enough")
	err := e.Journal.Range(t.Context(), a, 0, last, func(store.Message) error {
		if count++; count == 100 {
			return fail
		}
		return nil
	})
	if err != fail || count != 100 {
		t.Errorf("Range gave %v after %d records, want the callback's own error after 100", err, count)
	}
	nothing := func(store.Message) error { return nil }
	if err := e.Journal.Range(t.Context(), a, last+1, last, nothing); err != nil {
		t.Errorf("an empty range: %v", err)
	}
	wantKind(t, "a range up to somebody else's record", e.Journal.Range(t.Context(), a, 1, lastOther, nothing), actor.NotFound)
	wantKind(t, "a range up to a record that is not there", e.Journal.Range(t.Context(), a, 1, 1<<40, nothing), actor.NotFound)
	noConsumers(t, e, e.names.JournalStream())
}

// journalSpoofed: a publisher may set the headers that direct reads answer with. Nobody believes them.
func journalSpoofed(t *testing.T, e *env) {
	a := actor.Address{ID: "spoofed"}
	m := nats.NewMsg(e.names.Journal(a))
	for k, v := range map[string]string{"Nats-Sequence": "999999", "Nats-Subject": e.names.Journal(actor.Address{ID: "victim"}),
		"Nats-Time-Stamp": "2001-01-01T00:00:00Z", "Nats-Stream": "x"} {
		m.Header.Set(k, v)
	}
	ack, err := e.js.PublishMsg(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		m.Header.Del("Nats-Msg-Id")
		if ack, err = e.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	last, err := e.Journal.Last(t.Context(), a)
	if err != nil || last.Seq != ack.Sequence || last.Time.Year() == 2001 {
		t.Errorf("Last is %d at %v (%v), want %d: a header was believed", last.Seq, last.Time, err, ack.Sequence)
	}
	if _, who, err := e.Journal.At(t.Context(), ack.Sequence); err != nil || who != a {
		t.Errorf("At says the record is %s's (%v), want %s's", who, err, a)
	}
	err = e.Journal.Range(t.Context(), a, 1, ack.Sequence, func(m store.Message) error {
		if m.Seq > ack.Sequence || m.Time.Year() == 2001 {
			t.Errorf("Range gives sequence %d at %v: a header was believed", m.Seq, m.Time)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func registryPut(t *testing.T, e *env) {
	root, parent, child := actor.ID("put root"), actor.ID(""), actor.ID("put.child *")
	_, err := e.Registry.Get(t.Context(), root, parent, child)
	wantKind(t, "Get of no entry", err, actor.NotFound)
	first := stored(t, "create", e.Registry.Put(root, parent, child, 0, []byte("1")))
	_, err = e.Registry.Put(root, parent, child, 0, nil).Wait(t.Context())
	wantKind(t, "a second create", err, actor.Conflict)
	rev := stored(t, "update", e.Registry.Put(root, parent, child, first, []byte("2")))
	_, err = e.Registry.Put(root, parent, child, first, nil).Wait(t.Context())
	wantKind(t, "an update of an old revision", err, actor.Conflict)
	got, err := e.Registry.Get(t.Context(), root, parent, child)
	if err != nil || got.Rev != rev || string(got.Data) != "2" || got.Root != root || got.Child != child {
		t.Errorf("Get gave %+v (%v), want revision %d", got, err, rev)
	}
	kv, err := e.js.KeyValue(t.Context(), e.names.RegistryBucket())
	if err != nil {
		t.Fatalf("a plain NATS client must be able to bind to the bucket: %v", err)
	}
	key := subjects.RegistryKey(root, parent, child)
	if entry, err := kv.Get(t.Context(), key); err != nil || entry.Revision() != rev {
		t.Errorf("a plain NATS client reads %v (%v), want revision %d", entry, err, rev)
	}
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	gone, err := e.Registry.Get(t.Context(), root, parent, child)
	wantKind(t, "Get of a deleted entry", err, actor.NotFound)
	stored(t, "a create behind a deletion", e.Registry.Put(root, parent, child, gone.Rev, []byte("3")))
}

func registryList(t *testing.T, e *env) {
	root := actor.ID("list")
	for _, n := range []int{0, 1, 15, 16, 17, 400} {
		parent := actor.ID(fmt.Sprintf("parent %d", n))
		acks := make([]actor.Ack, n)
		for i := range acks {
			acks[i] = e.Registry.Put(root, parent, actor.ID(fmt.Sprint(i)), 0, fmt.Appendf(nil, "%d", i))
		}
		for _, a := range acks {
			stored(t, "create", a)
		}
		got, err := e.Registry.Children(t.Context(), root, parent)
		if err != nil || len(got) != n {
			t.Fatalf("Children lists %d of %d entries (%v)", len(got), n, err)
		}
		for i, entry := range got {
			if entry.Child != actor.ID(fmt.Sprint(i)) || string(entry.Data) != fmt.Sprint(i) || entry.Parent != parent || entry.Rev == 0 {
				t.Fatalf("entry %d of %d is %+v", i, n, entry)
			}
		}
	}
	kv, err := e.js.KeyValue(t.Context(), e.names.RegistryBucket())
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), subjects.RegistryKey(root, "parent 400", "7")); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), subjects.EncodeToken(string(root))+".not.an.entry", nil); err != nil {
		t.Fatal(err)
	}
	got, err := e.Registry.Tree(t.Context(), root)
	if want := 1 + 15 + 16 + 17 + 400 - 1; err != nil || len(got) != want {
		t.Errorf("Tree lists %d entries (%v), want %d: all but the deleted one and the foreign key", len(got), err, want)
	}
	if got, err := e.Registry.Tree(t.Context(), "nobody"); err != nil || len(got) != 0 {
		t.Errorf("an empty tree lists %d entries (%v)", len(got), err)
	}
	noConsumers(t, e, subjects.KVStream(e.names.RegistryBucket()))
}

// registryListMoving: an entry that is overwritten while the list is read moves behind what the
// list was going to end with. It must be in it all the same.
func registryListMoving(t *testing.T, e *env) {
	listMoving(t, e, "few", 40)
	listMoving(t, e, "many", 200)
}

func listMoving(t *testing.T, e *env, root actor.ID, n int) {
	revs := make([]uint64, n)
	for i := range revs {
		revs[i] = stored(t, "create", e.Registry.Put(root, "p", actor.ID(fmt.Sprint(i)), 0, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i = (i + 1) % n {
			rev, err := e.Registry.Put(root, "p", actor.ID(fmt.Sprint(i)), revs[i], nil).Wait(t.Context())
			if err != nil {
				t.Errorf("update: %v", err)
				return
			}
			revs[i] = rev
		}
	})
	defer writer.Wait()
	defer cancel()
	for range 10 {
		got, err := e.Registry.Tree(t.Context(), root)
		seen := map[actor.ID]bool{}
		for _, entry := range got {
			if seen[entry.Child] {
				t.Fatalf("entry %s is listed twice", entry.Child)
			}
			seen[entry.Child] = true
		}
		if err != nil || len(got) != n {
			t.Fatalf("the list of a tree that is being written has %d of %d entries (%v)", len(got), n, err)
		}
	}
}
