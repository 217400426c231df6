package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// agents stores definitions, each a JSON object with a name.
func (s *stage) agents(definitions ...string) {
	s.t.Helper()
	var all []agent.Definition
	for _, text := range definitions {
		d, err := agent.ParseDefinition([]byte(text))
		if err != nil {
			s.t.Fatalf("definition %s: %v", text, err)
		}
		all = append(all, *d)
	}
	if problems := agent.Validate(all, nil); len(problems) > 0 {
		s.t.Fatalf("the definitions are not sound: %v", problems)
	}
	for _, d := range all {
		data, err := json.Marshal(&d)
		if err != nil {
			s.t.Fatal(err)
		}
		if _, _, err := s.Store.Agents.Apply(s.ctx, d.Name, data); err != nil {
			s.t.Fatal(err)
		}
	}
}

// plays is a prompt that plays a script.
func plays(script string) string {
	return fmt.Sprintf(`{"text":"play","model":"builtin/script","metadata":{"script":%s}}`, script)
}

// instance spawns an instance of an agent for me.
func (s *stage) instance(name string) string {
	s.t.Helper()
	got := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":%q}`, name)
	got.is("type", `"SUBAGENT_SPAWN_RESP"`)
	return got.text("subagent_id")
}

// say publishes a message to side A of a thread.
func (s *stage) say(id, content string) {
	s.t.Helper()
	s.publish(id, actor.LaneA, me, `{"content":`+content+`}`)
}

// entry reads a registry entry.
func (s *stage) entry(id string) (found agent.Entry) {
	s.t.Helper()
	stored, err := s.Store.Registry.Tree(s.ctx, me)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, one := range stored {
		if string(one.Child) == id {
			if err := json.Unmarshal(one.Data, &found); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return found
}

// rests waits until a thread's entry is in a status, in its n-th session or later.
func (s *stage) rests(id string, n uint64, status string) agent.Entry {
	s.t.Helper()
	var e agent.Entry
	natstest.Await(s.t, fmt.Sprintf("%s %s in session %d", id, status, n), func() bool {
		e = s.entry(id)
		return e.Session >= n && e.Status == status
	})
	return e
}

// A coordinator creates a blocking child with arguments, gets its result, continues it, and ends.
func TestComposeBlockingChild(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agents(
		`{"name":"boss","sideA":{"prompt":`+plays(`[
			{"call":"subagent_create","arguments":{"agent":"research","name":"Ada","arguments":{"topic":"ports"}}},
			{"call":"subagent_create","arguments":{"agent":"research","name":"Bea","arguments":{"topic":"ships"}}},
			{"call":"subagents","arguments":{}},
			{"result":"$results"}]`)+`,"subagents":[{"agent":"researcher","as":"research","blocking":true,"maxInstances":1}]}}`,
		`{"name":"researcher","toolDescription":"finds out","sideA":{"prompt":{"text":"You look for {{topic}}.","model":"builtin/script","metadata":{"script":[{"result":{"found":"$inbox.0.content"}}]},
			"requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
	)
	id := s.instance("boss")
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusIdle)
	result := s.await(me, id)
	result.is("status", `"COMPLETED"`)
	results := result.list("result.output")
	if len(results) != 3 {
		t.Fatalf("the coordinator has %d results: %s", len(results), result.raw)
	}
	results[0].is("result.found.topic", `"ports"`)
	results[1].is("result.found.topic", `"ships"`)
	if a, b := results[0].text("reference"), results[1].text("reference"); a != b {
		t.Errorf("the second creation made %s beside %s; it has to continue the one there is", b, a)
	}
	list := results[2].raw
	if n := strings.Count(list, `"relationship":"research"`); n != 1 || !strings.Contains(list, `"threadName":"Ada"`) || !strings.Contains(list, `"status":"idle"`) {
		t.Errorf("the snapshot is %s; want one idle instance, Ada", list)
	}
	s.noDeadLetters()
}

// A creation that lacks a variable waits for it: the parent's model gets the request, whoever knows the value gives it,
// and the child is created as it was asked to. Nobody but the child gets the value.
func TestComposeVariables(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agents(
		`{"name":"boss","sideA":{"prompt":`+plays(`[{"call":"subagent_create","arguments":{"agent":"mailer","name":"Ada","message":"send"}},{"result":"$last"}]`)+
			`,"subagents":[{"agent":"mailer","blocking":true,"scopedEnv":["KEY"]}]}}`,
		`{"name":"mailer","requiredEnv":["KEY"],"sideA":{"prompt":`+plays(`[{"result":"sent"}]`)+`}}`,
	)
	id := s.instance("boss")
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusIdle)
	refused := s.await(me, id)
	refused.is("result.code", `"subagent_env_required"`)
	refused.is("result.missing", `["KEY"]`)
	request, parent := refused.text("result.request_id"), actor.ID(id)
	if v, err := s.Host.Variables(s.ctx, parent, request); err != nil || strings.Join(v.Missing, " ") != "KEY" {
		t.Errorf("the request waits for %v, %v", v, err)
	}
	fails := func(kind actor.Kind, parent actor.ID, request string, values map[string]string) {
		t.Helper()
		if _, err := s.Host.Boot(s.ctx, parent, request, values); actor.KindOf(err) != kind {
			t.Errorf("booted with %v: %v, want %s", values, err, kind)
		}
	}
	fails(actor.EnvRequired, parent, request, nil)
	fails(actor.SchemaViolation, parent, request, map[string]string{"KEY": "x", "OTHER": "y"})
	fails(actor.NotFound, parent, "00000000-0000-4000-8000-000000000000", map[string]string{"KEY": "x"})
	booted, err := s.Host.Boot(s.ctx, parent, request, map[string]string{"KEY": "s3cret"})
	if err != nil {
		t.Fatalf("boot: %v", err)
	}
	fails(actor.Gone, parent, request, map[string]string{"KEY": "x"})
	s.rests(string(booted.ID), 1, agent.StatusIdle)
	s.rests(id, 2, agent.StatusIdle) // its end woke the parent
	if values, err := s.Store.Env.Get(s.ctx, booted.ID); err != nil || values["KEY"] != "s3cret" {
		t.Errorf("the child has %v, %v", values, err)
	}
	if values, err := s.Store.Env.Get(s.ctx, parent); err != nil || len(values) != 0 {
		t.Errorf("the parent has %v, %v; the values are the child's only", values, err)
	}
	s.noDeadLetters()
}

// Files go down with a creation and up with a session's end, and are where the receiver is told they are (S1 §7).
func TestComposeAttachments(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	boss := func(ctx context.Context, st *host.State) error {
		if st.Message.Kind == model.EntryCompletion {
			var c struct {
				Attachments []string `json:"attachments"`
				Missing     string   `json:"attachmentsMissing"`
			}
			if err := json.Unmarshal(st.Message.Content, &c); err != nil {
				return err
			}
			data, _, err := st.ReadFile(ctx, c.Attachments[0])
			if err != nil {
				return err
			}
			told <- fmt.Sprintf("%s: %s, without %s", c.Attachments, data, c.Missing)
			st.StopSession(host.Stop{Result: json.RawMessage(`"over"`)})
			return nil
		}
		if st.Message.Type == "createChild" {
			return nil
		}
		if _, err := st.WriteFile(ctx, "in.txt", []byte("in"), "text/plain"); err != nil {
			return err
		}
		st.CreateChild(host.Child{Relationship: "worker", Name: "Ada", Attachments: []string{"in.txt"}})
		return nil
	}
	worker := func(ctx context.Context, st *host.State) error {
		var meta struct {
			Attachments []string `json:"attachments"`
		}
		if err := json.Unmarshal(st.Message.Metadata, &meta); err != nil {
			return err
		}
		data, _, err := st.ReadFile(ctx, meta.Attachments[0])
		if err != nil {
			return err
		}
		if _, err := st.WriteFile(ctx, "in.txt", append(data, " and out"...), ""); err != nil {
			return err
		}
		st.StopSession(host.Stop{Result: json.RawMessage(`1`), Attachments: []string{"in.txt", "nothing.txt"}})
		return nil
	}
	s := startWith(t, host.Config{Handlers: map[string]host.Handler{"boss": boss, "worker": worker}}, nil)
	s.agents(
		`{"name":"boss","sideA":{"handler":"boss","subagents":[{"agent":"worker"}]}}`,
		`{"name":"worker","sideA":{"handler":"worker"}}`,
	)
	id := s.instance("boss")
	s.say(id, `"go"`)
	select {
	case got := <-told:
		if want := `[in-2.txt]: in and out, without there is no file "nothing.txt"; `; got != want {
			t.Errorf("the parent has %s, want %s", got, want)
		}
	case <-s.ctx.Done():
		t.Fatalf("the parent never heard of the end; it is %+v", s.entry(id))
	}
	natstest.Await(t, "the end of the boss", func() bool { return s.entry(id).Status == agent.StatusIdle })
}

// TestS1_16_Detach: "terminate() cascades to descendants by default (teardown: cascade | detach)."
func TestS1_16_Detach(t *testing.T) {
	t.Parallel()
	s := start(t)
	top := s.spawn(me, `"model":"builtin/echo"`)
	low := s.under(me, top, `"model":"builtin/echo"`)
	s.ask(me, `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q,"teardown":"detach"}`, top).is("event", `"terminated"`)
	if a, b := s.status(me, top), s.status(me, low); a != "TERMINATED" || b != "READY" {
		t.Errorf("after a detached end the thread is %s and what is below it %s", a, b)
	}
	s.ask(me, `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, top).is("content.changed", `false`)
	s.refused("schema_violation", "teardown", me, `{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q,"teardown":"gently"}`, top)
}
