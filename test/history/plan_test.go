package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupehq/troupe/model"
)

// TestScriptsAreSound keeps the load honest: a script that the model refuses would test little.
func TestScriptsAreSound(t *testing.T) {
	t.Parallel()
	w := writer{rng: rand.New(rand.NewPCG(rand.Uint64(), 2)), root: "agent"}
	for range 500 {
		data, err := json.Marshal(w.script(0))
		if err == nil {
			err = model.ValidateScript(data)
		}
		if err != nil {
			t.Fatalf("a script that the model refuses: %v", err)
		}
	}
}

// TestPlanFollowsFromItsSeed: a seed gives the same steps, in whatever order they are asked for, and another seed
// gives others.
func TestPlanFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	cfg := PlanConfig{Seed: 7, Agents: 2, Workers: 2}
	told := func(cfg PlanConfig, order func(n int) int) string {
		p, steps := NewPlan(cfg), make([]string, 4*30)
		for n := range steps {
			i := order(n)
			data, err := json.Marshal(p.Step(i%4, i/4))
			if err != nil {
				t.Fatal(err)
			}
			steps[i] = string(data)
		}
		return fmt.Sprint(steps)
	}
	forth := told(cfg, func(n int) int { return n })
	if back := told(cfg, func(n int) int { return 119 - n }); back != forth {
		t.Errorf("a plan depends on who asks first:\n%s\n%s", forth, back)
	}
	cfg.Seed++
	if other := told(cfg, func(n int) int { return n }); other == forth {
		t.Error("two seeds give one plan")
	}
}
