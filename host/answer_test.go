package host_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

// What a host answers and keeps stands in its record once: of many threads that do nothing, it would be a tenth of what
// they take on the disk. Whoever asks gets it, asks again or asks without a key.
func TestAnswersAreRecordedOnce(t *testing.T) {
	t.Parallel()
	tr := natstest.StartTroupe(t, host.Config{})
	spawn := `{"type":"SUBAGENT_SPAWN_REQ",ID"agent":{"name":"n","model":"builtin/echo"}}`
	keyed := strings.Replace(spawn, "ID", `"id":"key-1",`, 1)
	first := tr.Ask(t, "parent_1", keyed)
	if !strings.Contains(first, `"status":"READY"`) {
		t.Fatalf("a spawn was answered %.300s", first)
	}
	record := lastRecord(t, tr, actor.Address{ID: "parent_1", Host: true})
	if n := bytes.Count(record, []byte("SUBAGENT_SPAWN_RESP")); n != 1 {
		t.Errorf("the record of the spawn holds its answer %d times, want once", n)
	}
	if again := tr.Ask(t, "parent_1", keyed); again != first {
		t.Errorf("the same key was answered\n%s\nand then\n%s", first, again)
	}
	if other := tr.Ask(t, "parent_1", strings.Replace(spawn, "ID", "", 1)); !strings.Contains(other, `"status":"READY"`) {
		t.Errorf("a spawn without a key was answered %.300s", other)
	}
	if refused := tr.Ask(t, "parent_1", strings.Replace(keyed, `"n"`, `"m"`, 1)); !strings.Contains(refused, `"conflict"`) {
		t.Errorf("the same key with another request was answered %.300s", refused)
	}
}

// A record that was not sent before a crash is sent again with all that it tells, also what it holds once only: the
// answer goes to its asker, and the birth makes its event.
func TestRecordsAreSentAgain(t *testing.T) {
	t.Parallel()
	const root, child actor.ID = "parent_9", "sub_00000001"
	tr := natstest.StartTroupe(t, host.Config{})
	head, err := host.NewTree(root, host.Limits{MaxDepth: 5, MaxLive: 5}).Head()
	if err != nil {
		t.Fatal(err)
	}
	birth := agent.Birth{
		Lineage: actor.Lineage{ID: child, Ancestors: []actor.ID{root}, Outside: true}, Order: 1,
		Config: a2e.SubagentConfig{Name: "ada", Model: "builtin/echo"}.WithDefaults(),
	}
	inbox := tr.Conn.NewInbox()
	record := actor.Record{V: actor.RecordVersion, Cursor: actor.Cursor{Queue: 1000}, Head: head, Effects: []actor.Effect{
		{Kind: actor.EffectBirth, To: actor.Address{ID: child}, Body: agent.Pack(&birth)},
		{Kind: actor.EffectAnswer, Name: "key1", Asker: actor.Asker{Reply: inbox}, Body: agent.Pack(&agent.Stored{JSON: []byte(`{"the":"answer"}`)})},
	}}
	told := make(chan *nats.Msg, 8)
	for _, subject := range []string{inbox, tr.Names.Event(root, child, "spawned")} {
		sub, err := tr.Conn.NC.ChanSubscribe(subject, told)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if _, err := tr.Store.Journal.Append(actor.Address{ID: root, Host: true}, 0, agent.Pack(&record)).Wait(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	// The message that the record has decided comes again, as after a crash.
	again := []byte(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"ada","model":"builtin/echo"}}`)
	if err := tr.Conn.NC.PublishRequest(tr.Names.A2E(root), tr.Conn.NewInbox(), again); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"the":"answer"`, `"name":"ada"`} { // in this order
		select {
		case m := <-told:
			if !strings.Contains(string(m.Data), want) {
				t.Errorf("what was sent again is %s, want %s in it", m.Data, want)
			}
		case <-natstest.Context(t).Done():
			t.Fatalf("nothing was sent again that has %s in it", want)
		}
	}
	if kept, found, err := tr.Store.Keys.Get(natstest.Context(t), "key1"); err != nil || !found || !strings.Contains(string(kept), "answer") {
		t.Errorf("the answer that is kept is %q (%t, %v)", kept, found, err)
	}
}

func lastRecord(t *testing.T, tr *natstest.Troupe, a actor.Address) []byte {
	t.Helper()
	m, err := tr.Store.Journal.Last(natstest.Context(t), a)
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}
