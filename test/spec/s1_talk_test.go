package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// last is the history that a thread was shown last.
func (m *mind) last(id string) []model.Entry {
	shown := m.shown(id)
	if len(shown) == 0 {
		return nil
	}
	return shown[len(shown)-1].History
}

// hears waits until a thread was shown a number of completions, and is at rest; it gives them.
func (s *stage) hears(m *mind, id string, n int) []model.Entry {
	s.t.Helper()
	natstest.Await(s.t, fmt.Sprintf("%d completions that %s is shown", n, id), func() bool {
		return len(entriesOf(m.last(id), model.EntryCompletion)) >= n && s.entry(id).Status != agent.StatusRunning
	})
	return entriesOf(m.last(id), model.EntryCompletion)
}

// text is what a completion says to a model.
func text(e model.Entry) string {
	var c struct{ Text string }
	_ = json.Unmarshal(e.Content, &c)
	return c.Text
}

// TestS1_6_1_Perspective: "Parent traffic enters the child in the side B perspective (role: 'user'): the child's side A
// acts on it, exactly as it would for an external caller."
func TestS1_6_1_Perspective(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"pair","name":"n","message":"first"}`),
		refers(0, "subagent_message", `{"reference":%q,"message":{"n":2}}`),
	})
	a, b := thinks(says("A")), thinks(says("B"))
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/a": a, "test/b": b},
		`{"name":"pair","maxSessionTurns":2,`+prompted("test/a", "")+`,"sideB":{"prompt":{"text":"b","model":"test/b"}}}`,
		`{"name":"boss","maxSessionTurns":2,"sideA":{"prompt":{"text":"t","model":"builtin/echo"}},"sideB":{"prompt":{"text":"t","model":"test/boss"}`+only(`{"agent":"pair","parentCommunication":"explicit"}`)+`}}`)
	id := s.instance("boss")
	s.say(id, `"go"`) // side B of the parent owns the child: the way in is the same
	natstest.Await(t, "the child's end", func() bool {
		all := s.children(id)
		return len(all) == 1 && all[0].Status == agent.StatusFailed && len(entriesOf(a.last(string(all[0].SubagentID)), model.EntryMessage)) == 2
	})
	c := string(s.child(id).SubagentID)
	for m, role := range map[*mind]model.Role{a: model.RoleUser, b: model.RoleAssistant} {
		var got []string
		for _, e := range entriesOf(m.last(c), model.EntryMessage) {
			got = append(got, string(e.Content))
			if e.Role != role || string(e.From) != id {
				t.Errorf("the parent's message is shown in the role %s, from %s; want %s", e.Role, e.From, role)
			}
		}
		if m == a && strings.Join(got, " ") != `"first" {"n":2}` {
			t.Errorf("side A is shown %v", got)
		}
	}
}

// TestS1_6_2_Completion: "When the child session ends via sessionStop and the effective parentCommunication is implicit,
// the parent receives a queued silent message …: Subagent (reference: {uuid}) has returned the following result: {result}.
// sessionFail similarly delivers a failure message." And decision 6: the failure text is "used for fail, error and
// limits". "Session end transitions registry status — it never terminates the child thread."
func TestS1_6_2_Completion(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does(
		"subagent_create", `{"agent":"stops","name":"n","message":"m"}`, "subagent_create", `{"agent":"says","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"gives_up","name":"n","message":"m"}`, "subagent_create", `{"agent":"fails","name":"n","message":"m"}`,
		"subagent_create", `{"agent":"errs","name":"n","message":"m"}`, "subagent_create", `{"agent":"steps","name":"n","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss},
		`{"name":"stops","sideA":{"prompt":`+plays(`[{"call":"finish","arguments":{"result":{"n":1}}}]`)+`,"sessionStop":"finish"}}`,
		`{"name":"says","sideA":{"prompt":`+plays(`[{"say":"a word"}]`)+`}}`,
		`{"name":"gives_up","sideA":{"prompt":`+plays(`[{"call":"give_up","arguments":{"message":"no way"}}]`)+`,"sessionFail":"give_up"}}`,
		`{"name":"fails","sideA":{"prompt":`+plays(`[{"fail":"no luck"}]`)+`}}`,
		`{"name":"errs","sideA":{"prompt":`+plays(`[{"panic":"bang"}]`)+`}}`,
		`{"name":"steps","sideA":{"prompt":`+plays(`[{"sleep_ms":0}]`)+`,"maxSteps":1}}`,
		defined("boss", "test/boss", only(`{"agent":"stops"}`, `{"agent":"says"}`, `{"agent":"gives_up"}`, `{"agent":"fails"}`, `{"agent":"errs"}`, `{"agent":"steps"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	seen := map[string]bool{}
	for _, e := range s.hears(boss, id, 6) {
		c := s.entry(string(e.From))
		seen[c.Relationship] = true
		head, status := "has failed with the following error:\n\n", agent.StatusFailed
		want := map[string]string{"gives_up": "no way", "fails": "no luck"}[c.Relationship]
		switch c.Relationship {
		case "stops", "says":
			head, status = "has returned the following result:\n\n", agent.StatusIdle
			want = map[string]string{"stops": `{"n":1}`, "says": "a word"}[c.Relationship]
		}
		begin := "Subagent (reference: " + c.Reference + ") " + head
		if got := text(e); !strings.HasPrefix(got, begin) || want != "" && got != begin+want || want == "" && len(got) == len(begin) {
			t.Errorf("the end of %s is told as %q; want %q", c.Relationship, got, begin+want)
		}
		if e.Role != model.RoleUser || e.IsError != (status == agent.StatusFailed) || c.Status != status {
			t.Errorf("the end of %s, which is %s, has role %s and error %v", c.Relationship, c.Status, e.Role, e.IsError)
		}
	}
	if len(seen) != 6 {
		t.Errorf("the ends of %v were told; want those of six children, each once", seen)
	}
}

// TestS1_6_3_Status: "sessionStatus (and state.setStatus()) updates the parent's registry status text without ending
// child execution."
func TestS1_6_3_Status(t *testing.T) {
	t.Parallel()
	g := newGate()
	m := thinks(func(r *model.Request) *model.Response {
		switch r.Step {
		case 1:
			return does("report", `{"status":"looking"}`, "report", `{"status":""}`, "report", `{}`)(r)
		case 2:
			g.entered <- string(r.Thread)
			<-g.open
		}
		return ended(r)
	})
	status := func(_ context.Context, h *host.State) error {
		h.SetStatus("by code")
		h.Say(json.RawMessage(`"done"`))
		return nil
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"status": status}}, map[string]model.Model{"test/m": m},
		defined("one", "test/m", `,"sessionStatus":"report"`), `{"name":"code","sideA":{"handler":"status"}}`)
	id := s.instance("one")
	w := s.watch(me)
	s.say(id, `"go"`)
	next(s, "the second step", g.entered)
	natstest.Await(t, "the status text", func() bool { return s.entry(id).StatusText == "looking" })
	if e := s.entry(id); e.Status != agent.StatusRunning {
		t.Errorf("telling its status ended the session: %+v", e)
	}
	w.named(id, "progress").is("content.text", `"looking"`)
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	got := s.await(me, id).list("result.results")
	got[0].is("error", `false`)
	got[1].is("content.code", `"schema_violation"`)
	got[2].is("content.code", `"schema_violation"`)

	id = s.instance("code")
	s.say(id, `"go"`)
	if e := s.rests(id, 1, agent.StatusIdle); e.StatusText != "by code" {
		t.Errorf("the handler's status is %q", e.StatusText)
	}
}

// TestS1_6_4_Explicit: "When the effective parentCommunication is explicit, runtimes MUST NOT auto-queue
// completion/failure to the parent. … explicit means a child's finish does not wake the parent at all."
func TestS1_6_4_Explicit(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"n","message":"m"}`, "subagent_create", `{"agent":"fails","name":"n","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, `{"name":"fails","sideA":{"prompt":`+plays(`[{"fail":"no luck"}]`)+`}}`,
		defined("boss", "test/boss", only(`{"agent":"worker","parentCommunication":"explicit"}`, `{"agent":"fails","parentCommunication":"explicit"}`)))
	id, _ := s.runs("boss")
	for _, c := range s.children(id) {
		natstest.Await(t, "the child's end", func() bool {
			e := s.entry(string(c.SubagentID))
			return e.Session == 1 && e.Status != agent.StatusRunning
		})
	}
	s.settled(me)
	if e := s.entry(id); e.Session != 1 {
		t.Errorf("the parent was woken: it is in session %d", e.Session)
	}
	s.session(id, 2, `"and now"`)
	if c := entriesOf(boss.last(id), model.EntryCompletion); len(c) > 0 {
		t.Errorf("completions of explicit children were queued: %v", c)
	}
}

// TestS1Decision17_Notify: "stopSession.notifyParent: boolean or string; default true if implicit, false if explicit;
// false suppresses, a string replaces. notifyParent(content) works in both modes".
func TestS1Decision17_Notify(t *testing.T) {
	t.Parallel()
	const said = "Subagent (reference: "
	for _, one := range []struct{ mode, notify, want string }{
		{"implicit", ``, said}, {"implicit", `,"notifyParent":null`, said}, {"implicit", `,"notifyParent":true`, said},
		{"implicit", `,"notifyParent":false`, ""}, {"implicit", `,"notifyParent":"look at the file"`, "look at the file"},
		{"explicit", ``, ""}, {"explicit", `,"notifyParent":false`, ""}, {"explicit", `,"notifyParent":true`, said}, {"explicit", `,"notifyParent":"look"`, "look"},
	} {
		t.Run(one.mode+one.notify, func(t *testing.T) {
			t.Parallel()
			boss := plans(plan{does("subagent_create", `{"agent":"child","name":"n","message":"m"}`)})
			tells := func(_ context.Context, h *host.State) error {
				if h.Message.Kind == model.EntryMessage {
					return h.NotifyParent(json.RawMessage(`{"by":"code"}`))
				}
				return nil
			}
			s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"tells": tells}}, map[string]model.Model{"test/boss": boss},
				`{"name":"child","sideA":{"prompt":`+plays(`[{"call":"finish","arguments":{"result":{"n":1},"status":"ready"`+one.notify+`}}]`)+`,"sessionStop":"finish"}}`,
				`{"name":"code","sideA":{"handler":"tells"}}`,
				defined("boss", "test/boss", only(`{"agent":"child","parentCommunication":"`+one.mode+`"}`, `{"agent":"code","parentCommunication":"`+one.mode+`","immediate":true}`)))
			id := s.instance("boss")
			code := string(s.child(id).SubagentID)
			s.say(id, `"go"`)
			natstest.Await(t, "the child's end", func() bool {
				all := s.children(id)
				return len(all) == 2 && all[1].Session == 1 && all[1].Status == agent.StatusIdle && all[1].StatusText == "ready"
			})
			child := s.children(id)[1]
			if one.want != "" {
				c := s.hears(boss, id, 1)
				if len(c) != 1 || c[0].From != child.SubagentID || !strings.HasPrefix(text(c[0]), one.want) {
					t.Errorf("the parent is told %s", tellHistory(c))
				}
			} else {
				s.settled(me)
				natstest.Await(t, "the parent's rest", func() bool { return s.entry(id).Status == agent.StatusIdle })
				if c := entriesOf(boss.last(id), model.EntryCompletion); len(c) > 0 || s.entry(id).Session != 1 {
					t.Errorf("the parent is told %s", tellHistory(c))
				}
			}
			s.say(code, `"go"`)
			natstest.Await(t, "what the handler tells", func() bool {
				return slices.ContainsFunc(boss.last(id), func(e model.Entry) bool {
					return e.Kind == model.EntryMessage && string(e.From) == code && e.Type == "notify" && string(e.Content) == `{"by":"code"}` && e.Role == model.RoleUser
				})
			})
		})
	}
	boss := plans(plan{does("finish", `{"result":1,"notifyParent":7}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, defined("boss", "test/boss", `,"sessionStop":"finish"`))
	id := s.instance("boss")
	s.session(id, 1, `"go"`)[0].is("content.code", `"schema_violation"`)
}

// TestS1Decision17_Outside: what is told to an owner outside is in its mail.
func TestS1Decision17_Outside(t *testing.T) {
	t.Parallel()
	tells := func(_ context.Context, h *host.State) error {
		h.Say(json.RawMessage(`"done"`))
		return errors.Join(h.NotifyParent(json.RawMessage(`{"n":1}`)), h.NotifyParent(json.RawMessage(`"two"`)))
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"tells": tells}}, nil, `{"name":"code","sideA":{"handler":"tells"}}`)
	id := s.instance("code")
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusIdle)
	natstest.Await(t, "two notes and a completion in the mail", func() bool { return s.mails(me, id) == 3 })
	for i, want := range []string{`{"n":1}`, `"two"`} {
		m := s.mail(me, id, fmt.Sprintf("notify-1-1-%d", i+1))
		m.is("message.content", want)
		m.is("message.type", `"notify"`)
		m.is("from_subagent_id", quote(id))
	}
	s.mail(me, id, "1").is("result", `{"output":"done"}`)
}

// TestS1_6_5_Provenance: "Runtimes SHOULD set … metadata.subagent_id — the child instance reference a message relates to;
// metadata.forwarded_from — the origin thread/message of forwarded content."
func TestS1_6_5_Provenance(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"child","name":"n","message":"m"}`)})
	child := plans(plan{does("ask", `{"question":"which?"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/child": child}, defined("child", "test/child", `,"askParent":"ask"`),
		defined("boss", "test/boss", only(`{"agent":"child"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	natstest.Await(t, "the question", func() bool {
		return slices.ContainsFunc(boss.last(id), func(e model.Entry) bool { return e.Type == "question" })
	})
	c := s.child(id)
	var m struct{ SubagentID, ForwardedFrom string }
	read := func(e model.Entry) {
		var meta map[string]json.RawMessage
		_ = json.Unmarshal(e.Metadata, &meta)
		m.SubagentID, m.ForwardedFrom = strings.Trim(string(meta["subagent_id"]), `"`), strings.Trim(string(meta["forwarded_from"]), `"`)
	}
	read(entriesOf(child.last(string(c.SubagentID)), model.EntryMessage)[0])
	if m.SubagentID != c.Reference || m.ForwardedFrom != id {
		t.Errorf("downwards the metadata is %+v", m)
	}
	s.publish(string(c.SubagentID), actor.LaneA, id, `{"content":"this one"}`)
	done := s.hears(boss, id, 1)
	read(done[0])
	if m.SubagentID != c.Reference {
		t.Errorf("of a completion the metadata is %s", done[0].Metadata)
	}
	for _, e := range boss.last(id) {
		if e.Type == "question" {
			if read(e); m.SubagentID != c.Reference {
				t.Errorf("of a question the metadata is %s", e.Metadata)
			}
		}
	}
}
