package sweep_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/sweep"
	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// A room is a host, a client of it, and what is swept there.
type room struct {
	*natstest.Troupe
	*client.Client
	t   *testing.T
	cfg sweep.Config
}

func newRoom(t *testing.T) *room {
	t.Helper()
	tr := natstest.StartTroupe(t, host.Config{})
	c, err := client.New(client.Config{Conn: tr.Conn, Names: tr.Names, Agent: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	layout, err := tr.Conn.Layout(natstest.Context(t), tr.Names)
	if err != nil {
		t.Fatal(err)
	}
	return &room{tr, c, t, sweep.Config{Store: tr.Store, Partitions: layout.Partitions}}
}

func (r *room) spawn(parent actor.ID) actor.ID {
	r.t.Helper()
	id, err := r.Spawn(natstest.Context(r.t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "s", Model: "builtin/echo"}, Parent: parent})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *room) task(id actor.ID, text string) {
	r.t.Helper()
	_, err := r.Delegate(natstest.Context(r.t), id, a2e.TaskDefinition{Name: "t", Instruction: text})
	if err == nil {
		_, err = r.Await(natstest.Context(r.t), id)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) terminate(id actor.ID) {
	r.t.Helper()
	if _, err := r.Terminate(natstest.Context(r.t), id); err != nil {
		r.t.Fatal(err)
	}
}

// settle waits until the leases say that everything is settled.
func (r *room) settle() {
	r.t.Helper()
	ctx := natstest.Context(r.t)
	natstest.Await(r.t, "every partition to be settled", func() bool {
		all, err := r.Partitions(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		return !slices.ContainsFunc(all, func(p client.Partition) bool { return p.Lag > 0 || len(p.Stragglers) > 0 })
	})
}

func (r *room) run(change func(*sweep.Config)) (sweep.Report, error) {
	r.t.Helper()
	cfg := r.cfg
	if change != nil {
		change(&cfg)
	}
	s, err := sweep.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Run(natstest.Context(r.t))
}

func (r *room) sweep(change func(*sweep.Config)) sweep.Report {
	r.t.Helper()
	report, err := r.run(change)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// gone checks that nothing of a thread is left, and how it answers.
func (r *room) gone(id actor.ID) {
	r.t.Helper()
	ctx := natstest.Context(r.t)
	if _, err := r.Store.Journal.Last(ctx, actor.Address{ID: id}); !errors.Is(err, actor.NotFound) {
		r.t.Errorf("%s has a journal: %v", id, err)
	}
	if _, err := r.Await(ctx, id); !errors.Is(err, actor.NotFound) {
		r.t.Errorf("await %s gives %v, want not_found", id, err)
	}
	if _, err := r.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "x"}); !errors.Is(err, actor.NotFound) {
		r.t.Errorf("delegate to %s gives %v, want not_found", id, err)
	}
	if r.listed(id) {
		r.t.Errorf("%s is still listed", id)
	}
}

func (r *room) listed(id actor.ID) bool {
	r.t.Helper()
	all, err := r.List(natstest.Context(r.t), client.ListRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s a2e.SubagentInfo) bool { return s.SubagentID == id })
}

// Whole subtrees of terminated threads go; one that lives or idles stays, and so does whoever is above it.
func TestSubtrees(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	// boss ─ dead ─ leaf;  torn (terminated alone) ─ alive;  idle
	boss := r.spawn("")
	dead := r.spawn(boss)
	leaf := r.spawn(dead)
	torn := r.spawn("")
	alive := r.spawn(torn)
	idle := r.spawn("")
	r.task(leaf, "leaf's")
	r.task(idle, "idle's")
	r.terminate(dead)
	if _, err := r.Detach(natstest.Context(t), torn); err != nil {
		t.Fatal(err)
	}
	r.settle()

	if got := r.sweep(func(c *sweep.Config) { c.Older = time.Hour }); got.Threads != 0 || got.Kept != 0 {
		t.Errorf("threads that were terminated just now are as good as an hour old: %+v", got)
	}
	var told []actor.ID
	dry := r.sweep(func(c *sweep.Config) {
		c.DryRun, c.Removed = true, func(one sweep.Removed) { told = append(told, one.ID) }
	})
	if dry.Threads != 2 || dry.Kept != 1 || !slices.Equal(told, []actor.ID{leaf, dead}) {
		t.Fatalf("a dry run says %+v and names %v, want %s before %s, and %s kept", dry, told, leaf, dead, torn)
	}
	if !r.listed(leaf) || !r.listed(dead) {
		t.Fatal("a dry run removed something")
	}
	if got := r.sweep(nil); got.Threads != 2 || got.Kept != 1 || got.Busy != 0 {
		t.Fatalf("%+v, want 2 threads removed and 1 kept", got)
	}
	for _, id := range []actor.ID{dead, leaf} {
		r.gone(id)
	}
	for _, id := range []actor.ID{boss, torn, alive, idle} {
		if !r.listed(id) {
			t.Errorf("%s is not listed any more", id)
		}
	}
	for _, id := range []actor.ID{boss, alive, idle} {
		r.task(id, "go on")
	}
	if got, err := r.Await(natstest.Context(t), torn); err != nil || got.Status != a2e.Terminated {
		t.Errorf("the terminated one that stays says %+v, %v", got, err)
	}
	if id := r.spawn(boss); id == dead || id == leaf {
		t.Error("an id was given out again")
	}
	// a message to one that is gone is a dead letter, not silence
	if _, err := r.Publish(natstest.Context(t), client.Message{To: leaf, Content: json.RawMessage(`1`)}); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "a dead letter", func() bool {
		letters, err := r.DeadLetters(natstest.Context(t), leaf, time.Time{})
		return err == nil && len(letters) == 1 && strings.Contains(letters[0].Reason, "there is no")
	})
	if got := r.sweep(nil); got.Threads != 0 || got.Marks != 2 {
		t.Errorf("the next run says %+v, want the marks of 2 threads", got)
	}
	r.gone(leaf)
}

// What only a removed thread named goes, what its parent heard of stays.
func TestBlobsOfRemoved(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	id := r.spawn("")
	other := r.spawn("")
	r.task(id, strings.Repeat("only its own ", 20_000))
	r.task(other, strings.Repeat("another's ", 20_000))
	file, err := r.Store.Files.Write(ctx, id, "a", []byte("in two places"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Files.Write(ctx, other, "b", []byte("in two places"), ""); err != nil {
		t.Fatal(err)
	}
	r.terminate(id)
	r.settle()
	// its mail goes with it; the answer to the task is kept for a day under its key
	tomorrow := func(c *sweep.Config) { c.Now = func() time.Time { return time.Now().Add(store.BlobGrace + time.Hour) } }
	if got := r.sweep(nil); got.Threads != 1 || got.Swept.Blobs != 0 {
		t.Fatalf("%+v, want 1 thread, and no blob that is not a day old", got)
	}
	got := r.sweep(tomorrow)
	if got.Swept.Blobs == 0 || got.Swept.Bytes < 260_000 {
		t.Errorf("%+v, want what only the removed one named", got)
	}
	if _, err := r.Store.Blobs.Get(ctx, file.Blob); err != nil {
		t.Errorf("a file that another thread has, too, was swept: %v", err)
	}
	if res, err := r.Await(ctx, other); err != nil || !strings.Contains(string(res.Result), "another's another's") {
		t.Errorf("the large result of one that lives was swept: %v", err)
	}
}

// A thread of which the lease does not say that all is sent stays.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	parent := r.spawn("")
	id := r.spawn(parent)
	r.terminate(parent)
	r.settle()
	r.StopHost(t)
	n := subjects.Partition(id, r.cfg.Partitions)
	lease, rev, err := r.Store.Leases.Get(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(l *store.Lease){
		func(l *store.Lease) { l.Watermark = 0 },
		func(l *store.Lease) { l.Stragglers = []actor.Address{{ID: id}} },
	} {
		behind := lease
		change(&behind)
		if rev, err = r.Store.Leases.Write(ctx, n, behind, rev); err != nil {
			t.Fatal(err)
		}
		if got := r.sweep(nil); got.Threads != 0 || got.Busy < 1 {
			t.Errorf("%+v, want nothing removed while the last record may have to be sent", got)
		}
	}
	if _, err := r.Store.Leases.Write(ctx, n, lease, rev); err != nil {
		t.Fatal(err)
	}
	if got := r.sweep(nil); got.Threads != 2 {
		t.Errorf("%+v, want both removed once all is sent", got)
	}
}

// A run may end anywhere. The next one does the rest, and an archive that was made before is not spoilt.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	top := r.spawn("")
	var all []actor.ID
	for range 10 {
		id := r.spawn(top)
		r.task(id, "done")
		all = append(all, id)
	}
	all = append(all, top)
	r.terminate(top)
	r.settle()
	dir := sweep.Dir(filepath.Join(t.TempDir(), "attic"))

	if _, err := r.run(func(c *sweep.Config) { c.Archive = crashing{dir} }); err == nil {
		t.Fatal("an archive that fails did not end the run")
	}
	for _, id := range all {
		if _, err := r.Store.Journal.Last(ctx, actor.Address{ID: id}); err != nil {
			t.Fatalf("%s was removed although its archive failed: %v", id, err)
		}
	}
	// of one that was archived the journal is half gone, of another only the entry is left
	half := all[slices.IndexFunc(all, func(id actor.ID) bool { return lines(t, dir, id) != nil })]
	complete := lines(t, dir, half)
	s, err := r.Conn.JS.Stream(ctx, r.Names.JournalStream())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(r.Names.Journal(actor.Address{ID: half})), jetstream.WithPurgeKeep(1)); err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Journal.Remove(ctx, actor.Address{ID: all[9]}); err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	cfg := r.cfg
	cfg.Archive = dir
	count := 0
	cfg.Removed = func(sweep.Removed) {
		if count++; count == 3 {
			cancel()
		}
	}
	sw, err := sweep.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sw.Run(stop); err == nil {
		t.Fatal("a run that was cancelled says that all is done")
	}
	if got := r.sweep(func(c *sweep.Config) { c.Archive = dir }); got.Threads < 1 || got.Threads > 8 {
		t.Errorf("the run after says %+v, want the rest of 11 threads", got)
	}
	for _, id := range all {
		r.gone(id)
	}
	if again := lines(t, dir, half); len(again) != len(complete) {
		t.Errorf("the archive of %s had %d lines and has %d", half, len(complete), len(again))
	}
	if _, err := os.Stat(filepath.Join(string(dir), sweep.Name(top))); err != nil {
		t.Errorf("the last one has no archive: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(string(dir), "*.jsonl.*"))
	if err != nil || len(left) != 0 {
		t.Errorf("half files are left: %v, %v", left, err)
	}
}

// crashing saves and then fails, as a process that ends between an archive and a removal.
type crashing struct{ sweep.Dir }

func (c crashing) Save(ctx context.Context, name string, write func(io.Writer) error) error {
	return errors.Join(c.Dir.Save(ctx, name, write), errors.New("the process ended here"))
}

func lines(t *testing.T, dir sweep.Dir, id actor.ID) (all []map[string]json.RawMessage) {
	t.Helper()
	f, err := os.Open(filepath.Join(string(dir), sweep.Name(id)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := json.NewDecoder(bufio.NewReader(f)); ; {
		var line map[string]json.RawMessage
		err := in.Decode(&line)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the archive of %s is no JSON lines: %v", id, err)
		}
		all = append(all, line)
	}
}

// An archive has all that a thread was, for people to read, with what was too large for its records.
func TestArchive(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	id := r.spawn("")
	large := strings.Repeat("a long answer ", 20_000)
	r.task(id, "a short question")
	r.task(id, large)
	if _, err := r.Store.Files.Write(ctx, id, "notes/a.bin", []byte{0xff, 0x00}, ""); err != nil {
		t.Fatal(err)
	}
	r.terminate(id)
	r.settle()
	dir := sweep.Dir(t.TempDir())
	if got := r.sweep(func(c *sweep.Config) { c.Archive = dir }); got.Threads != 1 {
		t.Fatalf("%+v, want 1 thread", got)
	}
	all := lines(t, dir, id)
	text, err := os.ReadFile(filepath.Join(string(dir), sweep.Name(id)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"a short question"`, large[:1000], `"kind":"task"`, `"terminated":true`, `"status":"terminated"`, `"path":"notes/a.bin"`, `"b64":"/wA="`, `"name":"s"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the archive does not have %.80s", want)
		}
	}
	if len(all) < 5 || string(all[0]["thread"]) != `"`+string(id)+`"` || all[1]["record"] == nil {
		t.Errorf("the archive has %d lines, the first %s", len(all), all[0])
	}
	r.gone(id)
}

// A birth that is sent again after its thread was removed gives no life to it.
func TestNoBirthAfterRemoval(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	id := r.spawn("") // what the host of the tree has recorded last
	r.settle()
	r.StopHost(t)
	entry, err := r.Store.Registry.Get(ctx, "cli", "cli", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Journal.Remove(ctx, actor.Address{ID: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Store.Registry.Remove("cli", "cli", id, entry.Rev).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	n := subjects.Partition("cli", r.cfg.Partitions)
	lease, rev, err := r.Store.Leases.Get(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	lease.Stragglers = append(lease.Stragglers, actor.Address{ID: "cli", Host: true})
	if _, err := r.Store.Leases.Write(ctx, n, lease, rev); err != nil {
		t.Fatal(err)
	}
	r.StartHost(t)
	r.spawn("") // the host goes on
	r.gone(id)
}
