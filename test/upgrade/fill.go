// Package upgrade opens stores that earlier versions of the program wrote, and goes on working with them. It is for
// tests only.
//
// A store is made with the version that is to be remembered:
//
//	go run ./test/upgrade/make test/upgrade/testdata/NAME.tar.gz
package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// Agent is whose subagents a store holds. Their names say what they are.
const Agent = actor.ID("cli")

// The subagents of a store.
const (
	Idle       = "idle"       // two tasks done; the last ended with OldResult
	Ready      = "ready"      // never had a task
	Failed     = "failed"     // its task failed
	Terminated = "terminated" // after a task
	Sleeper    = "sleeper"    // in the middle of a task, which ends with OldResult
	Boss       = "boss"       // has spawned Grandchild, has its result, and is done
	Grandchild = "grandchild"
	Large      = "large"  // its result is a blob, of LargeBytes
	Person     = "person" // an instance of an agent: waits for a person's answer
	Queued     = "queued" // never had a task; a message waits in its history
)

// OldResult is what finished tasks ended with.
const OldResult = `{"answer":42}`

// LargeBytes is how long the text of the large result is.
const LargeBytes = 200_000

// Fill works with a host until its store holds one subagent of each sort.
func Fill(ctx context.Context, conn *bus.Conn, st *store.Store, names subjects.Names) error {
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: Agent})
	if err != nil {
		return err
	}
	f := filler{ctx: ctx, c: c}
	f.script(Idle, `[{"result":1}]`, `[{"result":`+OldResult+`}]`)
	f.script(Ready)
	f.script(Failed, `[{"fail":"no way"}]`)
	f.do(f.script(Terminated, `[{"result":`+OldResult+`}]`), func(id actor.ID) error { _, err := c.Terminate(ctx, id); return err })
	f.script(Boss, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"grandchild","model":"builtin/script","metadata":{"script":[{"result":`+OldResult+`}]}}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"x"}}},
		{"sleep_ms":300},{"result":`+OldResult+`}]`)
	f.spawn(client.SpawnRequest{Agent: a2e.SubagentConfig{Name: Large, Model: "builtin/echo"}}, func(id actor.ID) error {
		_, err := c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: strings.Repeat("x", LargeBytes)})
		if err == nil {
			_, err = c.Await(ctx, id)
		}
		return err
	})
	f.do(f.script(Queued), func(id actor.ID) error {
		_, err := c.Send(ctx, client.Message{To: id, Type: "note", Content: json.RawMessage(`"hello from before"`)})
		return err
	})
	if f.err == nil {
		_, _, f.err = st.Agents.Apply(ctx, "gate", []byte(`{"name":"gate","title":"A gate","sideA":{"human":true}}`))
	}
	f.spawn(client.SpawnRequest{Agent: a2e.SubagentConfig{Name: Person}, Definition: "gate"}, func(id actor.ID) error {
		_, err := c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "may it pass?"})
		return err
	})
	if f.err == nil {
		_, f.err = st.Files.Write(ctx, f.ids[Idle], "notes/a.txt", []byte("a file from before"), "")
	}
	if f.err == nil {
		f.err = st.Memory.Set(ctx, f.ids[Idle], "k", json.RawMessage(`"kept from before"`))
	}
	// last, so that it sleeps when the store is closed
	f.spawn(f.config(Sleeper, `[{"sleep_ms":20000},{"result":`+OldResult+`}]`), func(id actor.ID) error {
		_, err := c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "sleep"})
		return err
	})
	return f.err
}

// A filler stops at the first error.
type filler struct {
	ctx context.Context
	c   *client.Client
	ids map[string]actor.ID
	err error
}

func (f *filler) config(name, script string) client.SpawnRequest {
	config := a2e.SubagentConfig{Name: name, Model: "builtin/script", Capabilities: []string{"tools", "multi_agent"}, TimeoutSeconds: 2_000_000_000}
	if script != "" {
		config.Metadata = map[string]json.RawMessage{"script": json.RawMessage(script)}
	}
	return client.SpawnRequest{Agent: config}
}

// script spawns a subagent and gives it a task for each script; the last of them is the one that it keeps.
func (f *filler) script(name string, scripts ...string) actor.ID {
	last := `[{"result":` + OldResult + `}]`
	if len(scripts) > 0 {
		last = scripts[len(scripts)-1]
	}
	return f.spawn(f.config(name, last), func(id actor.ID) error {
		for range scripts {
			if _, err := f.c.Delegate(f.ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "go"}); err != nil {
				return err
			}
			if _, err := f.c.Await(f.ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *filler) spawn(r client.SpawnRequest, then func(actor.ID) error) actor.ID {
	if f.err != nil {
		return ""
	}
	id, err := f.c.Spawn(f.ctx, r)
	if err != nil {
		f.err = fmt.Errorf("spawn %s: %w", r.Agent.Name, err)
		return ""
	}
	if f.ids == nil {
		f.ids = map[string]actor.ID{}
	}
	f.ids[r.Agent.Name] = id
	f.do(id, then)
	return id
}

func (f *filler) do(id actor.ID, what func(actor.ID) error) {
	if f.err == nil {
		f.err = what(id)
	}
}
