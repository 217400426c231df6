package host_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

// A thousand spawns at once are more than one record of the host can hold: they go in several, without a
// request being given up and without one being decided alone after another.
func TestBurstOfSpawns(t *testing.T) {
	t.Parallel()
	const many = 1000
	tr := natstest.StartTroupe(t, host.Config{Limits: host.Limits{MaxLive: many}})
	request := fmt.Sprintf(`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m","system_prompt":%q}}`, strings.Repeat("x", 1200))
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if answer := tr.Ask(t, "parent_1", request); !strings.Contains(answer, `"status":"READY"`) {
				t.Errorf("a spawn was answered %.300s", answer)
			}
		})
	}
	wg.Wait()
	if answer := tr.Ask(t, "parent_1", request); !strings.Contains(answer, "quota_exceeded") {
		t.Errorf("one more than the cap was answered %.300s", answer)
	}
}
