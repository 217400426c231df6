package history

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

// played is a prompt that plays a script.
func played(script string) string {
	return fmt.Sprintf(`{"text":"play","model":"builtin/script","metadata":{"script":%s}}`, script)
}

// The agents of the load. What a boss creates wakes it never again: a boss that is woken creates more.
var definitions = []string{
	`{"name":"boss","sideA":{"prompt":` + played(`[
		{"call":"subagent_create","arguments":{"agent":"research","name":"Ada","arguments":{"topic":"a"}}},
		{"calls":[
			{"call":"subagent_create","arguments":{"agent":"quiet","name":"Bea","message":"go"}},
			{"call":"subagent_create","arguments":{"agent":"research","name":"Eve","arguments":{"topic":"b"}}},
			{"call":"subagent_create","arguments":{"agent":"research","name":"Bad","arguments":{}}},
			{"call":"subagents","arguments":{}}]},
		{"result":"$results"}]`) + `,
		"subagents":[{"agent":"researcher","as":"research","blocking":true,"maxInstances":1,"scopedEnv":["KEY"]},{"agent":"quiet","maxInstances":3,"parentCommunication":"explicit"}]}}`,
	`{"name":"researcher","requiredEnv":["KEY"],"sideA":{"prompt":{"text":"{{topic}}","model":"builtin/script",
		"metadata":{"script":[{"progress":"reading"},{"sleep_ms":15},{"result":"$inbox"}]},
		"requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
	`{"name":"quiet","sideA":{"prompt":` + played(`[{"say":"done"}]`) + `,"subagents":[{"agent":"shadow","immediate":true}]}}`,
	`{"name":"shadow","sideA":{"prompt":` + played(`[{"say":"here"}]`) + `}}`,
	`{"name":"dual","maxSessionTurns":4,"sideA":{"prompt":` + played(`[{"say":"ping"},{"say":"ping"},{"say":"ping"}]`) + `},
		"sideB":{"prompt":` + played(`[{"say":"pong"},{"say":"pong"},{"say":"pong"}]`) + `}}`,
}

// Define stores the agents of the load.
func Define(ctx context.Context, st *store.Store) error {
	for _, text := range definitions {
		d, err := agent.ParseDefinition([]byte(text))
		if err != nil {
			return err
		}
		data, err := json.Marshal(d)
		if err != nil {
			return err
		}
		if _, _, err := st.Agents.Apply(ctx, d.Name, data); err != nil {
			return err
		}
	}
	return nil
}

// checkInstances: no relationship has more instances than it may, each immediate child is there once, and a parent knows
// all its children.
func (x *inspection) checkInstances() {
	count := map[actor.ID]map[string]int{}
	for _, l := range x.inOrder() {
		c := l.birth.Composition
		if c == nil || c.Relationship == nil {
			continue
		}
		parent := l.birth.Lineage.Parent()
		if count[parent] == nil {
			count[parent] = map[string]int{}
		}
		if !l.last().Terminated() {
			count[parent][c.RelationshipName()]++
		}
		if above := x.lives[parent]; above != nil && !knows(above, l.id) && !above.last().Status().Closed() {
			x.violation("a parent knows its children", "%s does not know %s, its %s", parent, l.id, c.RelationshipName())
		}
	}
	for id, of := range count {
		if of["research"] > 1 || of["quiet"] > 3 {
			x.violation("no relationship has more instances than it may", "%s has %v", id, of)
		}
	}
	for _, l := range x.inOrder() {
		if l.birth.Config.Model == "agent/quiet" && count[l.id]["shadow"] != 1 && !l.last().Terminated() {
			x.violation("an immediate child is spawned with its parent", "%s has %d", l.id, count[l.id]["shadow"])
		}
	}
}

func knows(parent *life, child actor.ID) bool {
	for _, i := range parent.last().Instances("") {
		if i.ID == child {
			return true
		}
	}
	return false
}
