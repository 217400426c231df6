package host_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

// An inbox stream that ends before what the leases say was settled, as after a power cut, is mended: otherwise
// every new message would be taken for one that was settled long ago.
func TestInboxThatLostItsEnd(t *testing.T) {
	t.Parallel()
	tr := natstest.StartTroupe(t, host.Config{})
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"}}`
	tr.Ask(t, "parent_1", spawn)
	tr.StopHost(t)
	ctx := natstest.Context(t)
	leases, err := tr.Store.Leases.All(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		lease := store.Lease{Epoch: l.Lease.Epoch, Watermark: 1_000_000}
		if _, err := tr.Store.Leases.Write(ctx, l.Partition, lease, l.Rev); err != nil {
			t.Fatal(err)
		}
	}
	tr.StartHost(t)
	if answer := tr.Ask(t, "parent_1", spawn); !strings.Contains(answer, "READY") {
		t.Errorf("behind a lost end a spawn was answered %s", answer)
	}
	if end, err := tr.Conn.InboxEnd(ctx, tr.Names); err != nil || end <= 1_000_000 {
		t.Errorf("the inbox ends at %d, %v; want it past all that was settled", end, err)
	}
}
