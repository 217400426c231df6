package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A boss is the model of a parent thread: it spawns its children and gives each a task, is then busy in
// a step for as long as the gate says, waits for all completions, and ends with what it was shown.
type boss struct {
	children []string // configurations, as JSON; each gets the script that its metadata has
	oneATurn bool     // spawn and delegate one after the other
	busy     *gate    // nil: not busy
}

// shown is one entry of the history, as the boss ends with it.
type shown struct {
	Kind    model.EntryKind
	Step    int
	From    actor.ID
	IsError bool
	At      time.Time
	Content json.RawMessage
}

func (b boss) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	if calls := b.calls(r); calls != nil {
		return &model.Response{Calls: calls}, nil
	}
	if b.busy != nil && r.Step == b.planned()+1 {
		if _, err := b.busy.Step(ctx, r); err != nil {
			return nil, err
		}
		return &model.Response{}, nil
	}
	var all []shown
	completions := 0
	for _, e := range r.History {
		if e.Kind == model.EntryCompletion || e.Kind == model.EntryMessage {
			all = append(all, shown{e.Kind, e.Step, e.From, e.IsError, e.At, e.Content})
		}
		if e.Kind == model.EntryCompletion {
			completions++
		}
	}
	if completions < len(b.children) {
		return &model.Response{Sleep: 20 * time.Millisecond}, nil
	}
	result, err := json.Marshal(map[string]any{"shown": all, "steps": r.Step})
	return &model.Response{Done: true, Result: result}, err
}

// planned is how many steps go into spawning and delegating.
func (b boss) planned() int {
	if b.oneATurn {
		return 2 * len(b.children)
	}
	return 2
}

// calls gives the tool calls of a step that spawns or delegates.
func (b boss) calls(r *model.Request) (calls []model.Call) {
	first, last := 0, len(b.children)
	spawning := r.Step == 1
	switch {
	case r.Step > b.planned():
		return nil
	case b.oneATurn:
		first = (r.Step - 1) / 2
		last, spawning = first+1, r.Step%2 == 1
	}
	var spawned []string
	for _, e := range r.History {
		var resp struct {
			Type, Subagent_ID string
		}
		if e.Kind == model.EntryResult && json.Unmarshal(e.Content, &resp) == nil && resp.Type == "SUBAGENT_SPAWN_RESP" {
			spawned = append(spawned, resp.Subagent_ID)
		}
	}
	for i := first; i < last; i++ {
		c := model.Call{ID: fmt.Sprintf("call %d", i), Name: "subagent_spawn", Arguments: json.RawMessage(`{"agent":` + b.children[i] + `}`)}
		if !spawning {
			c.Name = "subagent_delegate"
			c.Arguments = json.RawMessage(fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"task %d"}}`, spawned[i], i))
		}
		calls = append(calls, c)
	}
	return calls
}

// many is n times the same configuration.
func many(n int, config string) (all []string) {
	for range n {
		all = append(all, config)
	}
	return all
}

// runBoss spawns a boss, which is the model "test/boss" of the stage, and sets it to work.
func (s *stage) runBoss() string {
	s.t.Helper()
	id := s.spawn(me, `"model":"test/boss","capabilities":["multi_agent"],"max_steps":1000`)
	s.delegate(me, id, "null")
	return id
}

// shownTo gives what a boss was shown, once it has ended.
func (s *stage) shownTo(id string) (all []shown, steps int) {
	s.t.Helper()
	got := s.await(me, id)
	got.is("status", `"COMPLETED"`)
	var result struct {
		Shown []shown
		Steps int
	}
	if err := json.Unmarshal(s.full(got.at("result")), &result); err != nil {
		s.t.Fatal(err)
	}
	return result.Shown, result.Steps
}

// onceEach checks that all entries are completions of n different children, in the order of their times.
func (s *stage) onceEach(all []shown, n int) {
	s.t.Helper()
	seen := map[actor.ID]bool{}
	var last time.Time
	for _, e := range all {
		if e.Kind != model.EntryCompletion || seen[e.From] {
			s.t.Errorf("the parent was shown a %s of %s that it had before or did not expect", e.Kind, e.From)
		}
		if e.At.Before(last) {
			s.t.Errorf("the completion of %s, of %v, came after one of %v", e.From, e.At, last)
		}
		seen[e.From], last = true, e.At
	}
	if len(seen) != n {
		s.t.Errorf("the parent was shown the completions of %d children, want %d", len(seen), n)
	}
}
