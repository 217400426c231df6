package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// Several creations wait for the one instance that the first is to make. When that is refused each of the others tries by
// itself, and everybody is answered.
func TestBootsOfOneInstance(t *testing.T) {
	t.Parallel()
	const def = `{"name":"boss","sideA":{"prompt":{"text":"p","model":"m"},"subagents":[{"agent":"research","blocking":true,"maxInstances":1,"scopedEnv":["KEY"]}]}}`
	for n := 1; n <= 5; n++ {
		birth, err := Born(Birth{
			Lineage: actor.Lineage{ID: "sub_0", Ancestors: []actor.ID{"parent_1"}, Outside: true}, Config: a2e.SubagentConfig{Name: "x", Model: "m"}.WithDefaults(),
			Composition: &Composition{Version: 1, Definition: []byte(def)},
		}, 1)
		if err != nil {
			t.Fatal(err)
		}
		th, err := Load(&birth, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		replies := 0
		var jobs []uint64
		var spawns []string
		decide := func(kind string, body any, i int) {
			env := actor.Envelope{Kind: kind, Body: Pack(body), From: "sub_0", Lane: actor.LaneCtl}
			if kind == KindBoot {
				env.Key, env.Asker = actor.Key{ID: fmt.Sprint("k", i)}, actor.Asker{Reply: fmt.Sprint("r", i)}
			}
			turn := th.Decide(actor.Input{Now: time.UnixMicro(1e6), Batch: []actor.Envelope{env}})
			for _, j := range turn.Jobs {
				jobs = append(jobs, j.N)
			}
			for _, e := range turn.Effects {
				switch {
				case e.Kind == actor.EffectReply:
					replies++
				case e.Kind == actor.EffectSend && e.Name == KindSpawn:
					spawns = append(spawns, e.Asker.Call)
				}
			}
		}
		for i := range n {
			decide(KindBoot, &Prepare{Relationship: []byte(`{"agent":"research"}`), Owner: actor.LaneA, Title: fmt.Sprint("t", i)}, i)
		}
		for len(jobs)+len(spawns) > 0 {
			if len(jobs) > 0 {
				job := jobs[0]
				jobs = jobs[1:]
				decide(KindJob, &JobAnswer{N: job, Prepared: &Prepared{Composition: Composition{Definition: []byte(`{}`)}, Message: actor.Value{JSON: []byte(`"m"`)}}}, 0)
				continue
			}
			if len(spawns) > 1 {
				t.Fatalf("%d instances were asked for at the same time, of the one that there may be", len(spawns))
			}
			call := spawns[0]
			spawns = nil
			decide(KindAnswer, &Answer{Call: call, IsError: true, Content: actor.Value{JSON: []byte(`{"code":"quota_exceeded"}`)}}, 0)
		}
		if replies != n || len(th.head.Composed.Pending) != 0 || len(th.head.Composed.Spawning) != 0 {
			t.Errorf("of %d creations %d were answered, and %d are still under way", n, replies, len(th.head.Composed.Pending))
		}
	}
}
