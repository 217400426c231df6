package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// An overview is what members says as JSON.
type overview struct {
	Members    []memberShown
	Partitions []client.Partition
}

func members(t *testing.T, url string) (o overview) {
	t.Helper()
	if err := json.Unmarshal([]byte(troupe(t, "members", "-o", "json", "--nats", url).succeeds(t)), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMembers(t *testing.T) {
	t.Parallel()
	f := start(t, "--partitions", "4")
	second := up(t, "--nats", f.url, "--member", "second")
	owned := func(o overview) (count int) {
		for _, p := range o.Partitions {
			if p.Owner == "second" && p.Live {
				count++
			}
		}
		return count
	}
	natstest.Await(t, "two hosts with two partitions each", func() bool {
		o := members(t, f.url)
		return len(o.Members) == 2 && owned(o) == 2
	})
	text := f.ask("members").succeeds(t)
	for _, want := range []string{"MEMBER", "second", version, "PARTITION", "WATERMARK", "LAG"} {
		if !strings.Contains(text, want) {
			t.Errorf("members does not show %q:\n%s", want, text)
		}
	}
	second.kill()
	natstest.Await(t, "the other to own what a dead one had", func() bool {
		o := members(t, f.url)
		for _, p := range o.Partitions {
			if p.Owner == "second" || !p.Live || p.Lag != 0 {
				return false
			}
		}
		return len(o.Partitions) == 4
	})
}

// A partition that nobody owns is told as such, with what waits in it.
func TestMembersWithoutHosts(t *testing.T) {
	t.Parallel()
	conn, names, url := namespace(t)
	const id = actor.ID("sub_1f0c22aa")
	for range 3 {
		if _, err := conn.Send(names.Inbox(id, actor.LaneA, "me"), []byte(`{"content":1}`)).Wait(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	o := members(t, url)
	if len(o.Members) != 0 || len(o.Partitions) != 4 {
		t.Fatalf("without a host there are %d members and %d partitions, want 0 and 4", len(o.Members), len(o.Partitions))
	}
	for _, p := range o.Partitions {
		want := uint64(0)
		if p.Partition == subjects.Partition(id, 4) {
			want = 3
		}
		if p.Live || p.Owner != "" || p.Lag != want {
			t.Errorf("partition %d is %+v, want nobody's with a lag of %d", p.Partition, p, want)
		}
	}
	if text := troupe(t, "members", "--nats", url).succeeds(t); !strings.Contains(text, "(no host is alive)") || strings.Count(text, "(nobody)") != 4 {
		t.Errorf("members does not say that nobody is there:\n%s", text)
	}
	troupe(t, "members", "--nats", url, "--namespace", "elsewhere").fails(t, exitNotFound, "elsewhere")
}

// namespace lays a namespace of four partitions out on a server, where no host runs.
func namespace(t *testing.T) (*bus.Conn, subjects.Names, string) {
	t.Helper()
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t)
	conn := natstest.Conn(t, srv)
	if _, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names, Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	return conn, names, srv.URL()
}

// letters lists the dead letters by their number.
func letters(t *testing.T, f *fleet, args ...string) (list []client.DeadLetter) {
	t.Helper()
	var all struct {
		DeadLetters []client.DeadLetter `json:"dead_letters"`
	}
	if err := json.Unmarshal([]byte(f.ask(append([]string{"dlq", "ls", "-o", "json"}, args...)...).succeeds(t)), &all); err != nil {
		t.Fatal(err)
	}
	return all.DeadLetters
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := start(t)
	if got := f.ask("dlq", "ls", "-o", "json").succeeds(t); got != `{"dead_letters":[]}` {
		t.Fatalf("without dead letters ls prints %s", got)
	}
	over := f.spawn(`[]`)
	f.ask("terminate", over).succeeds(t)
	f.ask("send", over, `{"late":true}`, "--json", "--open", "--type", "note").succeeds(t)
	f.ask("send", "sub_00000000", "anyone?", "--open").succeeds(t)
	natstest.Await(t, "two dead letters", func() bool { return len(letters(t, f)) == 2 })

	late := letters(t, f, "--agent", over)
	if len(late) != 1 || late[0].Reason != "thread_terminated" || late[0].From != "cli" || late[0].Lane != actor.LaneA || string(late[0].Data) != `{"type":"note","content":{"late":true}}` {
		t.Fatalf("the letter of %s is %+v, want what was sent as it was", over, late)
	}
	if got := letters(t, f, "--since", "1ns"); len(got) != 0 {
		t.Errorf("--since 1ns shows %+v", got)
	}
	seq := fmt.Sprint(late[0].Seq)
	if got := f.ask("dlq", "show", seq).succeeds(t); !strings.Contains(got, `"late": true`) || !strings.Contains(got, "thread_terminated") {
		t.Errorf("show prints\n%s", got)
	}
	if got := f.ask("dlq", "ls").succeeds(t); !strings.Contains(got, "there is no sub_00000000") {
		t.Errorf("ls prints\n%s", got)
	}
	// replayed while nothing is mended it is one again, under another number
	if got := f.ask("dlq", "replay", seq).succeeds(t); got != seq+" replayed" {
		t.Errorf("replay prints %q", got)
	}
	natstest.Await(t, "the letter to be one again", func() bool {
		again := letters(t, f, "--agent", over)
		return len(again) == 1 && again[0].Seq > late[0].Seq && string(again[0].Data) == string(late[0].Data)
	})
	f.ask("dlq", "show", seq).fails(t, exitNotFound, seq)
	f.ask("dlq", "replay", seq).fails(t, exitNotFound, seq)
	rest := letters(t, f)
	if got := f.ask("dlq", "drop", fmt.Sprint(rest[0].Seq), fmt.Sprint(rest[1].Seq), "-o", "json").succeeds(t); got != fmt.Sprintf(`{"dropped":[%d,%d]}`, rest[0].Seq, rest[1].Seq) {
		t.Errorf("drop prints %s", got)
	}
	if left := letters(t, f); len(left) != 0 {
		t.Errorf("after all were dropped there are %+v", left)
	}
	f.ask("dlq", "drop", fmt.Sprint(rest[0].Seq), "9999").fails(t, exitFailed, "2 of 2")
	f.ask("dlq", "drop", "x").fails(t, exitUsage, "not the number")
	f.ask("dlq", "show", "0").fails(t, exitUsage, "not the number")
	troupe(t, "dlq", "frobnicate").fails(t, exitUsage, "frobnicate")
}

// What can be taken by now is taken when it is replayed: what people sent at once, what the runtime sent only by force,
// and what says not how it came never.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := start(t)
	conn, err := bus.Connect(natstest.Context(t), bus.Config{URL: f.url})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	id := f.ask("spawn", "s", "--model", "builtin/echo").succeeds(t)
	put := func(subject string, data []byte) string {
		t.Helper()
		seq, err := conn.DeadLetter(names, actor.ID(id), "it was broken", subject, data).Wait(natstest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(seq)
	}
	seq := put(names.Inbox(actor.ID(id), actor.LaneA, "somebody"), []byte(`{"content":"hello again"}`))
	f.ask("dlq", "replay", seq).succeeds(t)
	natstest.Await(t, "the result of what was replayed", func() bool { return strings.Contains(f.ask("await", id).out, "hello again") })

	stop := &agent.Message{Root: "cli", Type: "note", Content: actor.Value{JSON: []byte(`"from the runtime"`)}, Opens: true}
	packed := agent.Pack(&actor.Envelope{ID: actor.EnvelopeID{J: 1, N: 1}, From: "cli", Kind: agent.KindMessage, Body: agent.Pack(stop)})
	seq = put(names.Inbox(actor.ID(id), actor.LaneQueue, "cli"), packed)
	if got := f.ask("dlq", "show", seq, "-o", "json").succeeds(t); !strings.Contains(got, `"content":"from the runtime"`) || !strings.Contains(got, `"kind":"message"`) {
		t.Errorf("an envelope is not readable: %s", got)
	}
	f.ask("dlq", "replay", seq).fails(t, exitFailed, "can only be forced", "lane queue")
	f.ask("dlq", "replay", seq, "--force").succeeds(t)
	natstest.Await(t, "the result of what was forced", func() bool { return strings.Contains(f.ask("await", id).out, "from the runtime") })

	for _, subject := range []string{"", "troupe.inbox.x", names.Journal(actor.Address{ID: actor.ID(id)})} {
		seq = put(subject, []byte(`{"content":1}`))
		f.ask("dlq", "replay", seq, "--force").fails(t, exitFailed, "by which inbox")
	}
	seq = put(names.Inbox(actor.ID(id), actor.LaneA, "somebody"), []byte{0xff, 0x00})
	if got := f.ask("dlq", "show", seq).succeeds(t); !strings.Contains(got, `"\xff\x00"`) {
		t.Errorf("bytes are shown as\n%s", got)
	}
	if left := letters(t, f); len(left) != 4 {
		t.Errorf("%d letters are left, want the 4 that were not replayed", len(left))
	}
	if got := f.ask("ls", "-o", "json").succeeds(t); strings.Contains(got, string(a2e.Failed)) {
		t.Errorf("something failed: %s", got)
	}
}

func TestGC(t *testing.T) {
	t.Parallel()
	f := start(t)
	stays := f.ask("spawn", "stays", "--model", "builtin/echo").succeeds(t)
	goes := f.ask("spawn", "goes", "--model", "builtin/echo").succeeds(t)
	f.ask("delegate", goes, "hello", "--await").succeeds(t)
	f.ask("terminate", goes).succeeds(t)
	natstest.Await(t, "all to be settled", func() bool {
		return strings.Contains(f.ask("gc", "--terminated-older-than", "0s", "--dry-run").succeeds(t), "would remove 1 subagents")
	})
	if got := f.ask("gc", "--terminated-older-than", "0s", "--dry-run").succeeds(t); !strings.Contains(got, goes) || strings.Contains(got, stays) {
		t.Errorf("a dry run prints\n%s\nwant %s in it and not %s", got, goes, stays)
	}
	if got := f.ask("gc", "--terminated-older-than", "30d").succeeds(t); !strings.HasPrefix(got, "removed 0 subagents") {
		t.Errorf("gc prints %q", got)
	}
	attic := filepath.Join(t.TempDir(), "attic")
	var report struct {
		Threads int
		DryRun  bool `json:"dry_run"`
	}
	if err := json.Unmarshal([]byte(f.ask("gc", "--terminated-older-than", "0s", "--archive", attic, "-o", "json").succeeds(t)), &report); err != nil || report.Threads != 1 || report.DryRun {
		t.Errorf("gc says %+v, %v", report, err)
	}
	text, err := os.ReadFile(filepath.Join(attic, goes+".jsonl"))
	if err != nil || !strings.Contains(string(text), `"hello"`) {
		t.Errorf("the archive is %.500s, %v", text, err)
	}
	f.ask("await", goes).fails(t, exitNotFound, goes)
	f.ask("await", stays).succeeds(t)
	f.ask("terminate", stays).succeeds(t)
	natstest.Await(t, "the other one to go into a bucket", func() bool {
		return strings.Contains(f.ask("gc", "--terminated-older-than", "0s", "--archive", "bucket:attic").succeeds(t), "removed 1 subagents")
	})
	for _, bad := range []string{"30", "-1h", "xd", ""} {
		f.ask("gc", "--terminated-older-than="+bad).fails(t, exitUsage, "terminated-older-than")
	}
	troupe(t, "gc").fails(t, exitUsage, "terminated-older-than")
}
