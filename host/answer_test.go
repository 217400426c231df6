package host_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
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

func lastRecord(t *testing.T, tr *natstest.Troupe, a actor.Address) []byte {
	t.Helper()
	m, err := tr.Store.Journal.Last(natstest.Context(t), a)
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}
