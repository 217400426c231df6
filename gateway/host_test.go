package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// canary is the value that must be nowhere but among the values.
const canary = "canary-7f3a"

// A house is a gateway over a real host, and a parent whose creations of mailers wait for variables.
type house struct {
	*desk
	*natstest.Troupe
	parent   string
	requests []string
}

// newHouse has a boss ask for mailers, so many, of which at most so many may be.
func newHouse(t *testing.T, mailers, most int) *house {
	t.Helper()
	tr := natstest.StartTroupe(t, host.Config{})
	h := &house{desk: &desk{t: t, log: &lines{}}, Troupe: tr}
	var err error
	h.Gateway, err = gateway.New(gateway.Config{Booter: tr.Host, Ready: func() error { return nil }, Log: zerolog.New(h.log)})
	if err != nil {
		t.Fatal(err)
	}
	var script []string
	for i := range mailers {
		script = append(script, fmt.Sprintf(`{"call":"subagent_create","arguments":{"agent":"mail","name":"M%d","message":"send %d"}}`, i, i))
	}
	h.apply(`{"name":"mailer","requiredEnv":["KEY","REGION"],"sideA":{"prompt":{"text":"play","model":"builtin/script","metadata":{"script":[{"result":"$inbox.0.content"}]}}}}`)
	h.apply(fmt.Sprintf(`{"name":"boss","sideA":{"prompt":{"text":"play","model":"builtin/script","metadata":{"script":[%s,{"result":"$results"}]}},
		"subagents":[{"agent":"mailer","as":"mail","maxInstances":%d,"parentCommunication":"explicit","scopedEnv":["KEY","REGION"]}]}}`, strings.Join(script, ","), most))
	h.parent = h.asked(`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss"}`)["subagent_id"].(string)
	if err := tr.Store.Env.Set(natstest.Context(t), actor.ID(h.parent), map[string]string{"REGION": "north"}); err != nil {
		t.Fatal(err)
	}
	inbox := tr.Names.Inbox(actor.ID(h.parent), actor.LaneA, "planner")
	if _, err := tr.Conn.Send(inbox, []byte(`{"content":"go"}`)).Wait(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the boss to have asked", func() bool { return len(h.refusals()) == mailers })
	return h
}

func (h *house) apply(text string) {
	h.t.Helper()
	d, err := agent.ParseDefinition([]byte(text))
	if err != nil {
		h.t.Fatal(err)
	}
	if _, _, err := h.Store.Agents.Apply(natstest.Context(h.t), d.Name, []byte(text)); err != nil {
		h.t.Fatal(err)
	}
}

// asked asks the host, which must not answer with an error.
func (h *house) asked(request string) (m map[string]any) {
	h.t.Helper()
	got := h.Ask(h.t, "planner", request)
	if err := json.Unmarshal([]byte(got), &m); err != nil || m["type"] == "error" {
		h.t.Fatalf("%s is answered with %s", request, got)
	}
	return m
}

// refusals gives the requests that the boss was told of.
func (h *house) refusals() []string {
	h.t.Helper()
	keys, err := h.Conn.JS.KeyValue(natstest.Context(h.t), h.Names.RequestsBucket())
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := keys.ListKeys(natstest.Context(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	h.requests = nil
	for key := range found.Keys() {
		if _, id, err := subjects.ParseRequestKey(key); err == nil {
			h.requests = append(h.requests, id)
		}
	}
	return h.requests
}

func (h *house) give(i int, body string) reply {
	h.t.Helper()
	return h.send("POST", "/threads/"+h.parent+"/variables/"+h.requests[i], body)
}

// children lists the boss's instances that are not terminated.
func (h *house) children() (ids []string) {
	h.t.Helper()
	list, _ := h.asked(`{"type":"SUBAGENT_LIST_REQ"}`)["subagents"].([]any)
	for _, one := range list {
		m := one.(map[string]any)
		if m["parent_agent_id"] == h.parent && m["status"] != "TERMINATED" {
			ids = append(ids, m["subagent_id"].(string))
		}
	}
	return ids
}

// nowhereElse looks for the canary in everything that is stored, beside the values themselves, and in the log.
func (h *house) nowhereElse() {
	h.t.Helper()
	ctx := natstest.Context(h.t)
	if log := h.log.String(); strings.Contains(log, canary) {
		h.t.Errorf("the value is in the log: %s", log)
	}
	looked := 0
	streams := h.Conn.JS.ListStreams(ctx)
	for info := range streams.Info() {
		if info.Config.Name == subjects.KVStream(h.Names.EnvBucket()) {
			continue
		}
		s, err := h.Conn.JS.Stream(ctx, info.Config.Name)
		if err != nil {
			h.t.Fatal(err)
		}
		for seq := max(1, info.State.FirstSeq); seq <= info.State.LastSeq; seq++ {
			m, err := s.GetMsg(ctx, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				h.t.Fatal(err)
			}
			looked++
			if bytes.Contains(m.Data, []byte(canary)) {
				h.t.Errorf("the value is in %s, subject %s", info.Config.Name, m.Subject)
			}
		}
	}
	if err := streams.Err(); err != nil || looked == 0 {
		h.t.Errorf("%d messages were looked at (%v)", looked, err)
	}
}

const give = `{"values":{"KEY":"` + canary + `"}}`

// TestS1_13_Variables: "GET gives names only; POST boots the child with the original payload, re-checking cap and
// parent; 422 still missing (stays open), 404 unknown or foreign, 410 used or expired, 409 at the cap."
func TestS1_13_Variables(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 2, 1)
	const open = `{"required":["KEY","REGION"],"missing":["KEY"],"status":"open"}`
	at := "/threads/" + h.parent + "/variables/"
	h.send("GET", at+h.requests[0], "").is(200, open)
	h.send("GET", "/threads/"+agent.Reference(actor.ID(h.parent))+"/variables/"+h.requests[1], "").is(200, open)
	h.send("GET", at+"00000000-0000-4000-8000-000000000000", "").refuses(404, actor.NotFound)
	h.send("GET", "/threads/sub_00000000/variables/"+h.requests[0], "").refuses(404, actor.NotFound)
	h.send("POST", "/threads/sub_00000000/variables/"+h.requests[0], give).refuses(404, actor.NotFound)
	if missing := h.give(0, `{"values":{}}`).refuses(422, actor.EnvRequired); !slices.Equal(missing, []string{"KEY"}) {
		t.Errorf("%v is missing, want KEY", missing)
	}
	h.give(0, `{"values":{"KEY":"x","REGION":"south"}}`).refuses(400, actor.SchemaViolation)
	if ids := h.children(); len(ids) != 0 {
		t.Fatalf("refused requests made %v", ids)
	}

	var booted struct {
		Reference    string
		ID           actor.ID `json:"subagent_id"`
		Relationship string
	}
	r := h.give(0, give)
	if err := json.Unmarshal([]byte(r.body), &booted); err != nil || r.StatusCode != 201 {
		t.Fatalf("%d %s, want 201", r.StatusCode, r.body)
	}
	if ids := h.children(); !slices.Equal(ids, []string{string(booted.ID)}) || booted.Reference != agent.Reference(booted.ID) || booted.Relationship != "mail" {
		t.Errorf("%s, and the children are %v; want it to name the only one", r.body, ids)
	}
	values, err := h.Store.Env.Get(natstest.Context(t), booted.ID)
	if err != nil || len(values) != 2 || values["KEY"] != canary || values["REGION"] != "north" {
		t.Errorf("the child has %v (%v), want what was given beside what its parent gave", values, err)
	}
	done := h.asked(fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, booted.ID))
	if result := fmt.Sprint(done["result"]); !strings.HasPrefix(result, "map[output:send ") {
		t.Errorf("the child ended with %v, want that it was told what it was created with", done)
	}
	h.send("GET", at+h.requests[0], "").refuses(410, actor.Gone)
	h.give(0, give).refuses(410, actor.Gone)

	h.give(1, give).refuses(409, actor.AtCapacity, booted.Reference)
	h.send("GET", at+h.requests[1], "").is(200, open)
	h.asked(fmt.Sprintf(`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, booted.ID))
	natstest.Await(t, "the place of the one that was terminated", func() bool { return h.give(1, give).StatusCode == 201 })
	if ids := h.children(); len(ids) != 1 || ids[0] == string(booted.ID) {
		t.Errorf("the children are %v, want another one", ids)
	}
	h.nowhereElse()
}

// Of many that give the values at the same moment exactly one boots, and nobody is told of another child.
func TestS1_13_ManyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1, 10)
	replies := make([]reply, 8)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = h.give(0, give) })
	}
	wg.Wait()
	ids := h.children()
	if len(ids) != 1 {
		t.Fatalf("the children are %v, want one", ids)
	}
	won := 0
	for _, r := range replies {
		switch {
		case r.StatusCode == 201:
			won++
			r.is(201, fmt.Sprintf(`{"reference":%q,"subagent_id":%q,"relationship":"mail"}`, agent.Reference(actor.ID(ids[0])), ids[0]))
		case r.StatusCode != 409 && r.StatusCode != 410:
			t.Errorf("one that came too late is answered with %d %s, want 409 or 410", r.StatusCode, r.body)
		}
	}
	if won == 0 {
		t.Error("nobody was told of the child")
	}
	values, err := h.Store.Env.Get(natstest.Context(t), actor.ID(ids[0]))
	if err != nil || values["KEY"] != canary {
		t.Errorf("the child has %v (%v)", values, err)
	}
	h.nowhereElse()
}

// TestS1_13_TerminatedParent: "re-checking cap and parent".
func TestS1_13_TerminatedParent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1, 1)
	h.asked(fmt.Sprintf(`{"type":"SUBAGENT_TERMINATE_REQ","subagent_id":%q}`, h.parent))
	h.give(0, give).refuses(410, actor.ThreadTerminated)
	if ids := h.children(); len(ids) != 0 {
		t.Errorf("a terminated parent has the children %v", ids)
	}
	h.nowhereElse()
}
