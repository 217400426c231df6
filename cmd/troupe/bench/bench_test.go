package bench_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/cmd/troupe/bench"
)

// A small run measures everything that needs no second process. Figures are not judged, but for the writes
// a child, which do not depend on the machine. Few children at a time share few notices.
func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := bench.Run(ctx, bench.Options{Children: 200, Window: 32, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var writes []float64
	for _, r := range rows {
		if r.Value <= 0 {
			t.Errorf("%s: %v %s", r.Name, r.Value, r.Unit)
		}
		if strings.Contains(r.Name, "writes") {
			writes = append(writes, r.Value)
		}
	}
	if len(rows) != 6 || len(writes) != 2 {
		t.Fatalf("%d rows, %d of them about writes; want 6 and 2: %+v", len(rows), len(writes), rows)
	}
	if writes[0] > 8 || writes[1] > 13 {
		t.Errorf("a delegate costs %.1f JetStream writes and a life %.1f, want at most 8 and 13", writes[0], writes[1])
	}
}
