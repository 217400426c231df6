package host

import (
	"testing"

	"github.com/troupehq/troupe/store"
)

// Only owners that died count, and deaths only over a message that they decided alone.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		held      store.Lease
		takeovers int
		deaths    int
	}{
		{"nobody's yet", store.Lease{}, 0, 0},
		{"given back", store.Lease{Epoch: 4, Takeovers: 2}, 2, 0},
		{"from the dead", store.Lease{Owner: "other", Epoch: 4}, 1, 0},
		{"our own, from before we died", store.Lease{Owner: "me", Epoch: 4, Takeovers: 1}, 2, 0},
		{"over a message", store.Lease{Owner: "other", Epoch: 4, Takeovers: 3, Deciding: 9, Deaths: 1}, 4, 2},
	} {
		l := takeOver(tt.held, "me")
		if l.Owner != "me" || l.Epoch != tt.held.Epoch+1 || l.Takeovers != tt.takeovers || l.Deaths != tt.deaths || l.Deciding != tt.held.Deciding {
			t.Errorf("%s: %+v becomes %+v, want %d takeovers and %d deaths", tt.name, tt.held, l, tt.takeovers, tt.deaths)
		}
	}
}
