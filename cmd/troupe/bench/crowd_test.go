package bench

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestCrowd runs the measurement with few messages: what does not depend on the machine has to be met.
func TestCrowd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	rows, err := Run(ctx, Options{Crowd: 6000, Rounds: 1, Children: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 8 {
		t.Fatalf("%d rows, want four for each way that messages come: %+v", len(rows), rows)
	}
	for _, r := range rows {
		if (strings.Contains(r.Name, "bytes in") || strings.Contains(r.Name, "lost")) && !r.Met {
			t.Errorf("%s: %g, want %s", r.Name, r.Value, r.Goal)
		}
		if strings.Contains(r.Name, "neighbours") && (r.Value <= 0 || r.Ratio <= 0) {
			t.Errorf("%s: %g, ratio %g: nothing was measured", r.Name, r.Value, r.Ratio)
		}
	}
}
