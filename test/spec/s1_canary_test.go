package spec

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

const canary = "c4n4ry-51ngs"

// sings reports whether a text has the canary in it, in any of the spellings that a value may get.
func sings(data []byte) bool {
	for _, spelling := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:14], hex.EncodeToString([]byte(canary))} {
		if strings.Contains(string(data), spelling) {
			return true
		}
	}
	return false
}

// An ear hears all that goes over the bus: what is published to streams, requests and answers, events.
type ear struct {
	mu    sync.Mutex
	heard int
	found []string
}

// listen hears everything but the requests that bring the secret.
func (s *stage) listen() *ear {
	s.t.Helper()
	e := &ear{}
	sub, err := s.Conn.NC.Subscribe(">", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, "troupe.a2e.") {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard++
		if sings(m.Data) || sings([]byte(m.Subject)) || sings([]byte(fmt.Sprint(m.Header))) {
			e.found = append(e.found, fmt.Sprintf("%s: %.500s", m.Subject, m.Data))
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return e
}

// TestS1Canary: a secret in a scoped variable is found nowhere: not in a journal, the registry, events, mail, inboxes,
// dead letters, logs, requests to models, or errors. (S1 §3.2: scopedEnv is "runtime-only transfer data".)
func TestS1Canary(t *testing.T) {
	t.Parallel()
	seal, err := store.NewSeal([]byte(strings.Repeat("k", store.SealKeyBytes)))
	if err != nil {
		t.Fatal(err)
	}
	var saw sync.Map // by the handler: who has the secret
	handler := func(ctx context.Context, h *host.State) error {
		value, _, err := h.Env(ctx, "SECRET")
		saw.Store(h.Thread, value)
		if err != nil || string(h.Message.Content) == `"fail"` {
			return errors.Join(err, errors.New("no luck"))
		}
		h.SetStatus("has looked")
		return h.NotifyParent(json.RawMessage(`"has it"`))
	}
	with := `,"scopedEnv":["SECRET"]`
	boss := plans(plan{
		does("subagent_create", `{"agent":"code","name":"c","message":"go"}`, "subagent_create", `{"agent":"code","name":"f","message":"fail"}`),
		does("subagent_create", `{"agent":"mind","name":"m","message":"go"}`, "subagent_create", `{"agent":"needs","name":"n","message":"go"}`),
		does("subagent_create", `{"agent":"panics","name":"p","message":"go"}`, "subagents", `{}`),
	})
	child := thinks(says("{{SECRET}} $SECRET"))
	minds := map[string]model.Model{"test/boss": boss, "test/child": child}
	models, err := model.New(model.Config{Models: minds})
	if err != nil {
		t.Fatal(err)
	}
	cfg := host.Config{Models: models, Handlers: map[string]host.Handler{"code": handler}}
	s := &stage{Troupe: natstest.StartSealed(t, cfg, seal), t: t, ctx: natstest.Context(t)}
	e := s.listen()
	s.agents(`{"name":"code","sideA":{"handler":"code"}}`, `{"name":"mind","sideA":{"prompt":{"text":"{{SECRET}} {{scopedEnv}} $SECRET","model":"test/child"}}}`,
		`{"name":"needs","requiredEnv":["SECRET","OTHER"],`+prompted("builtin/echo", "")+`}`,
		`{"name":"panics","sideA":{"prompt":`+plays(`[{"panic":"bang"}]`)+`}}`,
		defined("boss", "test/boss", only(`{"agent":"code","blocking":true`+with+`}`, `{"agent":"mind"`+with+`}`, `{"agent":"needs"`+with+`}`,
			`{"agent":"panics","blocking":true`+with+`}`, `{"agent":"code","as":"now","immediate":{"scopedEnv":["SECRET"]}}`)))

	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","id":"r1","definition":"boss","scoped_env":{"SECRET":%q}}`, canary).text("subagent_id")
	for _, bad := range []string{ // what is wrong with each is told without the value
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"stranger","scoped_env":{"SECRET":"` + canary + `"}}`,
		`{"type":"SUBAGENT_SPAWN_REQ","id":"r1","definition":"boss","scoped_env":{"SECRET":"` + canary + `"},"arguments":{"other":1}}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"SECRET":["` + canary + `"]}}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":"` + canary + `"}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"A=B":"` + canary + `"}}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"SECRET":"` + strings.Repeat(canary, store.MaxEnvBytes/len(canary)+1) + `"}}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"SECRET":"` + canary + `"},"parent_agent_id":"sub_00000000"}`,
		`{"type":"SUBAGENT_SPAWN_REQ","definition":"boss","scoped_env":{"SECRET":"` + canary + `"`,
		`{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"scoped_env":{"SECRET":"` + canary + `"}}`,
	} {
		if got := s.Ask(t, me, bad); sings([]byte(got)) {
			t.Errorf("an error tells the secret: %.300s", got)
		}
	}
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusIdle)
	// The variable that one of them lacks is given to its request.
	var refused struct {
		Request string `json:"request_id"`
	}
	for _, e := range entriesOf(boss.last(id), model.EntryResult) {
		if e.IsError && strings.Contains(string(e.Content), "request_id") {
			_ = json.Unmarshal(e.Content, &refused)
		}
	}
	for _, values := range []map[string]string{{"OTHER": canary, "NONE": canary}, {"NONE": canary}, {"OTHER": canary}, {"OTHER": canary}} {
		_, err := s.Host.Boot(s.ctx, actor.ID(id), refused.Request, values)
		if last := len(values) == 1 && values["OTHER"] != "" && err == nil; !last && (err == nil || sings([]byte(err.Error()))) {
			t.Errorf("a request is given %d values: %v", len(values), err)
		}
	}
	natstest.Await(t, "the child that lacked a variable", func() bool { return len(s.children(id)) == 6 })
	now := string(s.children(id)[0].SubagentID)
	s.say(now, `"go"`)
	s.rests(now, 1, agent.StatusIdle)
	s.publish(now, "host", me, `{"content":1}`) // a dead letter
	natstest.Await(t, "a dead letter", func() bool { return s.stored(s.Names.DeadStream(), s.Names.DeadFilter()) > 0 })
	s.KillHost(t)
	s.StartHost(t)
	s.say(id, `"once more"`)
	natstest.Await(t, "the parent's rest", func() bool { return s.entry(id).Session > 1 && s.entry(id).Status == agent.StatusIdle })
	s.terminate(me, id)
	s.settled(me)

	had := 0
	saw.Range(func(thread, value any) bool {
		had++
		if value != canary {
			t.Errorf("%v has %q for its secret", thread, value)
		}
		return true
	})
	if had != 3 {
		t.Errorf("%d threads looked for their secret, want 3", had)
	}
	// The test of the test: the ear does hear it.
	if err := s.Conn.Publish("troupe.control", []byte(canary)); err != nil {
		t.Fatal(err)
	}
	natstest.Await(t, "the control", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		n := len(e.found)
		return n > 0 && strings.HasPrefix(e.found[n-1], "troupe.control")
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found = e.found[:len(e.found)-1]
	if e.heard < 100 || len(e.found) > 0 {
		t.Errorf("of %d messages on the bus %d tell the secret:\n%s", e.heard, len(e.found), strings.Join(e.found, "\n"))
	}
	if logs := s.Logs(); sings([]byte(logs)) || logs == "" {
		t.Errorf("the logs, of %d bytes, tell the secret, or there are none", len(logs))
	}
	for name, m := range map[string]*mind{"boss": boss, "child": child} {
		if len(m.seen) == 0 {
			t.Errorf("%s was shown nothing", name)
		}
		for i := range m.seen {
			r := &m.seen[i]
			data, err := json.Marshal([]any{r.System, r.History, r.Tools, r.Config, r.Task, r.Schema})
			if err != nil || sings(data) {
				t.Errorf("%s is shown the secret (%v): %s", name, err, data)
			}
		}
	}
	s.searchStreams()
}

// searchStreams reads all that is stored, in every stream and bucket.
func (s *stage) searchStreams() {
	s.t.Helper()
	streams := 0
	names := s.Conn.JS.StreamNames(s.ctx)
	for name := range names.Name() {
		streams++
		stream, err := s.Conn.JS.Stream(s.ctx, name)
		if err != nil {
			s.t.Fatal(err)
		}
		state := stream.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
			m, err := stream.GetMsg(s.ctx, seq)
			if err != nil {
				continue // purged, or replaced
			}
			if sings(m.Data) || sings([]byte(m.Subject)) || sings([]byte(fmt.Sprint(m.Header))) {
				s.t.Errorf("%s holds the secret under %s: %.300s", name, m.Subject, m.Data)
			}
		}
	}
	if err := names.Err(); err != nil || streams < 10 {
		s.t.Fatalf("%d streams were searched: %v", streams, err)
	}
}
