package host

import (
	"fmt"
	"testing"
	"time"
)

// TestStepsAreCounted: by model and outcome, for so many models and no more.
func TestStepsAreCounted(t *testing.T) {
	t.Parallel()
	var n counters
	for i := range 3 * maxModels {
		n.stepped(fmt.Sprint("model", i), "ok", time.Second)
	}
	n.stepped("model0", "error", 20*time.Minute)
	n.stepped("model0", "ok", 0)
	if len(n.steps) != maxModels+2 {
		t.Errorf("%d models and outcomes are counted, want those of %d models, the others together, and one error", len(n.steps), maxModels)
	}
	if s := n.steps[stepKey{"other", "ok"}]; s == nil || s.N != 2*maxModels {
		t.Errorf("the other models have the steps %+v, want %d", s, 2*maxModels)
	}
	if s := n.steps[stepKey{"model0", "ok"}]; s.N != 2 || s.Timed != 1 || s.Seconds != 1 || s.Buckets[4] != 1 {
		t.Errorf("two steps, one of them of a second here, are counted as %+v", s)
	}
	if s := n.steps[stepKey{"model0", "error"}]; s.N != 1 || s.Buckets != [len(StepBuckets)]uint64{} {
		t.Errorf("a step longer than all buckets is counted as %+v", s)
	}
}
