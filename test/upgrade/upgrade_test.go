package upgrade_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/test/upgrade"
)

// Every store that an earlier version wrote opens, and everything in it goes on.
func TestOldStoresOpen(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stores under testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			goOn(t, open(t, file))
		})
	}
}

// A world is an old store, with a host at work on it.
type world struct {
	*natstest.Troupe
	c   *client.Client
	ids map[string]actor.ID
}

func open(t *testing.T, file string) *world {
	dir := t.TempDir()
	unpack(t, file, dir)
	w := &world{Troupe: natstest.OpenTroupe(t, dir, host.Config{}), ids: map[string]actor.ID{}}
	c, err := client.New(client.Config{Conn: w.Conn, Names: w.Names, Agent: upgrade.Agent})
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	entries, err := c.Entries(natstest.Context(t), "")
	if err != nil {
		t.Fatalf("list the old store: %v", err)
	}
	for _, e := range entries {
		name := e.Name
		if e.Agent != "" {
			name = e.ThreadName // of an instance
		}
		w.ids[name] = e.SubagentID
	}
	return w
}

func goOn(t *testing.T, w *world) {
	w.statuses(t)
	for _, done := range []string{upgrade.Idle, upgrade.Boss, upgrade.Grandchild} {
		w.ends(t, done, a2e.Completed, upgrade.OldResult)
	}
	w.ends(t, upgrade.Failed, a2e.Failed, "")
	w.ends(t, upgrade.Terminated, a2e.Terminated, "")
	if got := w.await(t, upgrade.Large); len(got.Result) < upgrade.LargeBytes {
		t.Errorf("the large result has %d bytes, was written with more than %d", len(got.Result), upgrade.LargeBytes)
	}
	w.files(t)
	for _, name := range []string{upgrade.Idle, upgrade.Ready, upgrade.Failed, upgrade.Queued, upgrade.Grandchild} {
		before := w.entry(t, name).Session
		w.delegate(t, name)
		if name != upgrade.Failed {
			w.ends(t, name, a2e.Completed, upgrade.OldResult)
		} else {
			w.ends(t, name, a2e.Failed, "")
		}
		if after := w.entry(t, name).Session; after != before+1 {
			t.Errorf("%s had %d sessions and has %d after one more task", name, before, after)
		}
	}
	w.person(t)
	w.sleeper(t)
	w.refused(t)
	id, err := w.c.Spawn(natstest.Context(t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "new", Model: "builtin/echo"}})
	if err != nil {
		t.Fatalf("spawn beside the old ones: %v", err)
	}
	for name, old := range w.ids {
		if old == id {
			t.Fatalf("a new subagent has the id of %s", name)
		}
	}
	w.StopHost(t)
	w.StartHost(t) // and what was written on top of it opens, too
	w.ends(t, upgrade.Idle, a2e.Completed, upgrade.OldResult)
}

// statuses are what they were.
func (w *world) statuses(t *testing.T) {
	t.Helper()
	for name, want := range map[string]a2e.Status{
		upgrade.Idle: a2e.Completed, upgrade.Ready: a2e.Ready, upgrade.Failed: a2e.Failed, upgrade.Terminated: a2e.Terminated,
		upgrade.Boss: a2e.Completed, upgrade.Grandchild: a2e.Completed, upgrade.Large: a2e.Completed,
		upgrade.Person: a2e.Waiting, upgrade.Queued: a2e.Ready,
	} {
		if e := w.entry(t, name); e.A2E() != want {
			t.Errorf("%s is %s after the upgrade, was %s", name, e.A2E(), want)
		}
	}
	if e := w.entry(t, upgrade.Grandchild); e.Depth != 2 || e.ParentAgentID != w.ids[upgrade.Boss] {
		t.Errorf("the grandchild stands at depth %d below %s, was at 2 below %s", e.Depth, e.ParentAgentID, w.ids[upgrade.Boss])
	}
}

func (w *world) entry(t *testing.T, name string) agent.Entry {
	t.Helper()
	entries, err := w.c.Entries(natstest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.SubagentID == w.ids[name] {
			return e
		}
	}
	t.Fatalf("the store has no %s any more", name)
	return agent.Entry{}
}

func (w *world) await(t *testing.T, name string) *a2e.AwaitResp {
	t.Helper()
	got, err := w.c.Await(natstest.Context(t), w.ids[name])
	if err != nil {
		t.Fatalf("await %s: %v", name, err)
	}
	return got
}

func (w *world) ends(t *testing.T, name string, want a2e.Status, result string) {
	t.Helper()
	got := w.await(t, name)
	if got.Status != want || result != "" && string(got.Result) != result {
		t.Errorf("%s ended %s with %s, want %s with %s", name, got.Status, got.Result, want, result)
	}
}

func (w *world) delegate(t *testing.T, name string) {
	t.Helper()
	resp, err := w.c.Delegate(natstest.Context(t), w.ids[name], a2e.TaskDefinition{Name: "again", Instruction: "go on"})
	if err != nil || !resp.Accepted {
		t.Fatalf("%s does not take a task any more: %+v, %v", name, resp, err)
	}
}

// files and memory are as they were.
func (w *world) files(t *testing.T) {
	t.Helper()
	ctx, id := natstest.Context(t), w.ids[upgrade.Idle]
	content, _, err := w.Store.Files.Read(ctx, id, "notes/a.txt")
	if err != nil || string(content) != "a file from before" {
		t.Errorf("the old file has %q: %v", content, err)
	}
	value, err := w.Store.Memory.Get(ctx, id, "k")
	if err != nil || string(value) != `"kept from before"` {
		t.Errorf("the old memory has %s: %v", value, err)
	}
}

// person answers what was asked before the upgrade.
func (w *world) person(t *testing.T) {
	t.Helper()
	e := w.entry(t, upgrade.Person)
	if e.Awaiting == nil {
		t.Fatalf("nobody is asked any more: %+v", e)
	}
	if err := w.c.Answer(natstest.Context(t), e.Awaiting.Request, json.RawMessage(`"it may"`)); err != nil {
		t.Fatalf("answer what was asked before: %v", err)
	}
	if got := w.await(t, upgrade.Person); got.Status != a2e.Completed || !strings.Contains(string(got.Result), "it may") {
		t.Errorf("the person's turn ended %s with %s", got.Status, got.Result)
	}
}

// sleeper wakes up, if its time has come by the clock of this machine; if not it can be cancelled.
func (w *world) sleeper(t *testing.T) {
	t.Helper()
	if e := w.entry(t, upgrade.Sleeper); time.Since(time.UnixMicro(e.SessionAt)) > time.Minute {
		w.ends(t, upgrade.Sleeper, a2e.Completed, upgrade.OldResult)
		return
	}
	if _, err := w.c.Cancel(natstest.Context(t), w.ids[upgrade.Sleeper]); err != nil {
		t.Errorf("cancel the old sleeper: %v", err)
	}
	w.ends(t, upgrade.Sleeper, a2e.Cancelled, "")
}

// refused is what has to stay so: a terminated thread takes nothing.
func (w *world) refused(t *testing.T) {
	t.Helper()
	resp, err := w.c.Delegate(natstest.Context(t), w.ids[upgrade.Terminated], a2e.TaskDefinition{Name: "t", Instruction: "x"})
	if err != nil || resp.Accepted {
		t.Errorf("a thread that was terminated before the upgrade takes a task: %+v, %v", resp, err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%s: %q: %v", file, h.Name, err)
		}
		data, err := io.ReadAll(archive)
		path := filepath.Join(dir, h.Name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
}
