package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// TestS1_4_1_Persistence: "When a child session ends — stop, fail, error, or turn-cap — the registry status
// transitions (running → idle / failed), the thread remains addressable, and a later message starts a new session with
// history intact. Runtimes MUST NOT destroy or orphan child threads on any session-finalization path."
func TestS1_4_1_Persistence(t *testing.T) {
	t.Parallel()
	ends := map[string]func(r *model.Request) *model.Response{
		"stops": says("done"),
		"fails": fails("no luck"),
		"errs":  func(*model.Request) *model.Response { panic("bang") },
		"steps": func(*model.Request) *model.Response { return &model.Response{Sleep: time.Millisecond} },
		"turns": says("on and on"),
	}
	minds := map[string]model.Model{"test/boss": plans(plan{does(
		"subagent_create", `{"agent":"stops","name":"n","message":"first"}`,
		"subagent_create", `{"agent":"fails","name":"n","message":"first"}`,
		"subagent_create", `{"agent":"errs","name":"n","message":"first"}`,
		"subagent_create", `{"agent":"steps","name":"n","message":"first"}`,
		"subagent_create", `{"agent":"turns","name":"n","message":"first"}`)})}
	for name, act := range ends {
		minds["test/"+name] = thinks(func(r *model.Request) *model.Response {
			if r.Session == 1 {
				return act(r)
			}
			return &model.Response{Done: true, Result: json.RawMessage(`{"again":true}`)}
		})
	}
	s := stageOf(t, minds, defined("stops", "test/stops", ""), defined("fails", "test/fails", ""), defined("errs", "test/errs", ""),
		defined("steps", "test/steps", `,"maxSteps":2`),
		`{"name":"turns","maxSessionTurns":1,`+prompted("test/turns", "")+`,"sideB":{"prompt":{"text":"b","model":"builtin/echo"}}}`,
		defined("boss", "test/boss", only(`{"agent":"stops"}`, `{"agent":"fails"}`, `{"agent":"errs"}`, `{"agent":"steps"}`, `{"agent":"turns"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	natstest.Await(t, "five children", func() bool { return len(s.children(id)) == 5 })
	for _, c := range s.children(id) {
		want := map[string][2]string{
			"stops": {agent.StatusIdle, "stop"}, "fails": {agent.StatusFailed, "fail"}, "errs": {agent.StatusFailed, "error"},
			"steps": {agent.StatusFailed, "max_steps"}, "turns": {agent.StatusFailed, "max_turns"},
		}[c.Relationship]
		e := s.rests(string(c.SubagentID), 1, want[0])
		if string(e.StopReason) != want[1] {
			t.Errorf("%s ended for the reason %q, want %q", c.Relationship, e.StopReason, want[1])
		}
		before := s.children(id)
		s.say(string(c.SubagentID), `"second"`)
		if c.Relationship == "turns" {
			e = s.rests(string(c.SubagentID), 2, agent.StatusFailed)
		} else {
			e = s.rests(string(c.SubagentID), 2, agent.StatusIdle)
		}
		shown := minds["test/"+c.Relationship].(*mind).shown(string(c.SubagentID))
		var contents []string
		for _, m := range entriesOf(shown[len(shown)-1].History, model.EntryMessage) {
			contents = append(contents, string(m.Content))
		}
		if strings.Join(contents, " ") != `"first" "second"` {
			t.Errorf("%s was shown the messages %v in its second session", c.Relationship, contents)
		}
		if after := s.children(id); len(after) != len(before) || e.Reference != c.Reference || e.CreatedAt != c.CreatedAt {
			t.Errorf("the second session of %s is not the same thread's: %+v", c.Relationship, e)
		}
	}
	if b := s.births(); b < 6 {
		t.Errorf("of 6 threads %d journals are left", b)
	}
}

// TestS1_4_1_Terminate: "Only explicit termination destroys an instance".
func TestS1_4_1_Terminate(t *testing.T) {
	t.Parallel()
	boss := plans(plan{does("subagent_create", `{"agent":"worker","name":"w","message":"m"}`)}, plan{refers(0, "subagent_message", `{"reference":%q,"message":"again"}`), does("subagents", `{}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", only(`{"agent":"worker","parentCommunication":"explicit"}`)))
	id, _ := s.runs("boss")
	c := string(s.child(id).SubagentID)
	s.rests(c, 1, agent.StatusIdle)
	s.terminate(me, c)
	got := s.session(id, 2, `"again"`)
	got[0].is("error", `true`)
	got[0].is("content.code", `"thread_terminated"`)
	got[1].is("content.0.status", `"terminated"`) // it is listed all the same
	if e := s.rests(c, 1, agent.StatusTerminated); e.Session != 1 {
		t.Errorf("a terminated child took a session: %+v", e)
	}
}

// TestS1_4_2_Registry: "Instances are tracked in the parent's ThreadState.children", with the fields of
// SubagentRegistryEntry. And decision 15: "reference is a UUID whose first 8 hex digits are those of the thread id; both
// address the thread. createdAt is in microseconds."
func TestS1_4_2_Registry(t *testing.T) {
	t.Parallel()
	boss := plans(plan{
		does("subagent_create", `{"agent":"sub","name":"Ada","arguments":{"topic":"ports"}}`),
		refers(0, "subagent_message", `{"reference":%q,"message":"by reference"}`),
		func(r *model.Request) *model.Response {
			var made struct{ Reference string }
			_ = json.Unmarshal(results(r)[0].Content, &made)
			return does("subagent_message", fmt.Sprintf(`{"reference":%q,"message":"by id"}`, "sub_"+made.Reference[:8]))(r)
		},
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss},
		`{"name":"finder","title":"A Finder","toolDescription":"finds","sideA":{"prompt":{"text":"on {{topic}}","model":"builtin/echo","requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
		defined("boss", "test/boss", only(`{"agent":"finder","as":"sub","description":"looks","parentCommunication":"explicit"}`)))
	id, got := s.runs("boss")
	for _, r := range got {
		r.is("error", `false`)
	}
	c := s.child(id)
	kv, err := s.Conn.JS.KeyValue(s.ctx, s.Names.RegistryBucket())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := kv.Get(s.ctx, subjects.RegistryKey(me, actor.ID(id), c.SubagentID))
	if err != nil {
		t.Fatalf("the registry has no key of root, parent and child: %v", err)
	}
	e := parse(t, string(stored.Value()))
	for path, want := range map[string]string{
		"relationship": `"sub"`, "name": `"finder"`, "title": `"A Finder"`, "description": `"looks"`, "threadName": `"Ada"`,
		"initialArguments": `{"topic":"ports"}`, "parentCommunication": `"explicit"`,
	} {
		e.is(path, want)
	}
	e.missing("blocking") // false
	if ref := e.text("reference"); len(ref) != 36 || "sub_"+ref[:8] != string(c.SubagentID) || strings.Count(ref, "-") != 4 {
		t.Errorf("the reference %q is no UUID that begins with the digits of %s", ref, c.SubagentID)
	}
	if e.text("spawnGroupId") == "" {
		t.Errorf("there is no spawn group: %s", e.raw)
	}
	if at := time.UnixMicro(int64(e.number("createdAt"))); time.Since(at).Abs() > time.Hour {
		t.Errorf("createdAt is %s, which read as microseconds is %v", e.text("createdAt"), at)
	}
}

// TestS1_4_2_NoAmbientRegistry: "runtimes … MUST NOT additionally inject an ambient registry system message — a
// registry block that mutates between requests invalidates provider prefix caches". What a step is shown begins with
// what the step before was shown.
func TestS1_4_2_NoAmbientRegistry(t *testing.T) {
	t.Parallel()
	const create = `{"agent":"worker","name":"Somebody","message":"m"}`
	boss := plans(plan{
		does("subagent_create", create),
		does("subagent_create", create, "subagents", `{}`, "report", `{"status":"busy"}`),
		func(r *model.Request) *model.Response {
			return &model.Response{Text: "thinking", Sleep: time.Millisecond}
		},
		refers(0, "subagent_message", `{"reference":%q,"message":"more"}`),
	}, plan{does("subagents", `{}`)}, plan{does("subagents", `{}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss}, worker, defined("boss", "test/boss", `,"sessionStatus":"report"`+only(`{"agent":"worker"}`)))
	id := s.instance("boss")
	s.say(id, `"go"`)
	natstest.Await(t, "three completions", func() bool {
		shown := boss.shown(id)
		return len(shown) > 0 && len(entriesOf(shown[len(shown)-1].History, model.EntryCompletion)) == 3 && s.entry(id).Status == agent.StatusIdle
	})
	shown := boss.shown(id)
	for i := 1; i < len(shown); i++ {
		before, now := shown[i-1], shown[i]
		if now.System != before.System || !reflect.DeepEqual(now.Tools, before.Tools) {
			t.Errorf("step %d has another prompt or other tools than the one before:\n%s\n%s", i+1, now.System, before.System)
		}
		if len(now.History) < len(before.History) || !reflect.DeepEqual(now.History[:len(before.History)], before.History) {
			t.Errorf("step %d is not shown what the one before was, and more behind it:\n%s\nbefore that:\n%s", i+1, tellHistory(now.History), tellHistory(before.History))
		}
	}
	ref := s.children(id)[0].Reference
	if strings.Contains(shown[0].System+fmt.Sprint(shown[len(shown)-1].System), ref) {
		t.Errorf("a prompt names an instance: %s", shown[len(shown)-1].System)
	}
	for _, e := range shown[len(shown)-1].History { // it is spoken of where it was called for, and by itself
		told := e.Kind == model.EntryResult || e.Kind == model.EntryCompletion || e.Kind == model.EntryEnd
		if strings.Contains(string(e.Content), ref) && e.Role == model.RoleUser && !told {
			t.Errorf("the history has an ambient %s that names an instance: %s", e.Kind, e.Content)
		}
	}
}

func tellHistory(history []model.Entry) (all string) {
	for _, e := range history {
		all += fmt.Sprintf("  %s %s session %d step %d %s %s %s\n", e.Kind, e.Role, e.Session, e.Step, e.Call, e.Metadata, e.Content)
	}
	return all
}

// TestS1_5_Subagents: "subagents — … Takes no arguments; returns the registry snapshot for the side's relationships —
// reference, relationship name, agent name, status, working-status text, initial arguments, creation time." And
// decision 7: it "lists this side's non-hidden instances, terminated ones too, by creation."
func TestS1_5_Subagents(t *testing.T) {
	t.Parallel()
	g := newGate()
	busy := thinks(func(r *model.Request) *model.Response {
		if r.Step == 1 {
			return does("report", `{"status":"halfway"}`)(r)
		}
		g.entered <- string(r.Thread)
		<-g.open
		return says("done")(r)
	})
	boss := plans(plan{
		does("subagent_create", `{"agent":"busy","name":"Bea","arguments":{"n":1},"message":"m"}`),
		does("subagent_create", `{"agent":"worker","name":"Will"}`),
		does("subagent_create", `{"agent":"worker","name":"Wanda","message":"m"}`),
	}, plan{does("subagents", `{}`), does("subagents", `{"x":1}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/busy": busy}, worker, defined("busy", "test/busy", `,"sessionStatus":"report"`),
		defined("boss", "test/boss", only(`{"agent":"busy","parentCommunication":"explicit"}`, `{"agent":"worker","parentCommunication":"explicit"}`,
			`{"agent":"worker","as":"unseen","hidden":true,"immediate":true}`)))
	id, _ := s.runs("boss")
	next(s, "the busy child's step", g.entered)
	all := s.children(id)
	s.rests(string(all[3].SubagentID), 1, agent.StatusIdle)
	s.terminate(me, string(all[2].SubagentID))
	s.rests(string(all[2].SubagentID), 0, agent.StatusTerminated)
	got := s.session(id, 2, `"look"`)
	list := got[0].list("content")
	if len(list) != 3 {
		t.Fatalf("the snapshot has %d instances, want 3: %s", len(list), got[0].raw)
	}
	for i, want := range []map[string]string{
		{"relationship": `"busy"`, "name": `"busy"`, "threadName": `"Bea"`, "status": `"running"`, "statusText": `"halfway"`},
		{"relationship": `"worker"`, "name": `"worker"`, "threadName": `"Will"`, "status": `"terminated"`},
		{"relationship": `"worker"`, "name": `"worker"`, "threadName": `"Wanda"`, "status": `"idle"`},
	} {
		e := all[i+1] // behind the hidden one
		want["reference"], want["createdAt"] = quote(e.Reference), fmt.Sprint(e.CreatedAt)
		for path, value := range want {
			list[i].is(path, value)
		}
	}
	list[0].is("initialArguments.n", `1`)
	close(g.open)
}

// TestS1_8_TerminateMidway: "terminate() is the only soft-destruction path: it aborts in-flight execution, rejects new
// execution and queued-message entry, and updates parent registry status to terminated." And decision 16: "cascades to
// descendants by default; no message to the parent; … idempotent; queueing to it is refused with thread_terminated."
func TestS1_8_TerminateMidway(t *testing.T) {
	t.Parallel()
	g := newGate()
	boss := plans(plan{does("subagent_create", `{"agent":"mid","name":"m","message":"m"}`)})
	mid := plans(plan{does("subagent_create", `{"agent":"low","name":"l","message":"m"}`)})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/mid": mid, "test/gate": g}, defined("low", "test/gate", ""),
		defined("mid", "test/mid", only(`{"agent":"low","blocking":true}`)), defined("boss", "test/boss", only(`{"agent":"mid"}`)))
	id, _ := s.runs("boss")
	next(s, "the step of the lowest", g.entered)
	m := s.child(id)
	l := s.child(string(m.SubagentID))
	s.terminate(me, string(m.SubagentID)).is("event", `"terminated"`)
	next(s, "the end of the step under way", g.aborted)
	for _, e := range []agent.Entry{m, l} {
		s.rests(string(e.SubagentID), 1, agent.StatusTerminated)
		s.say(string(e.SubagentID), `"more"`)
		natstest.Await(t, "the dead letter of a message to the terminated", func() bool {
			return s.stored(s.Names.DeadStream(), s.Names.Dead(e.SubagentID)) == 1
		})
		s.ask(me, `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"parent_1","to_subagent_id":%q,"message":{"type":"t","content":1}}`, e.SubagentID).
			equals(`{"type":"SUBAGENT_MESSAGE_RESP","delivered":false}`)
		s.ask(me, `{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"i"}}`, e.SubagentID).is("accepted", `false`)
	}
	s.terminate(me, string(m.SubagentID)) // again
	s.settled(me)
	if e := s.entry(id); e.Session != 1 || len(boss.shown(id)) != 2 {
		t.Errorf("the parent was told: it is in session %d and took %d steps", e.Session, len(boss.shown(id)))
	}
	if names := slices.Sorted(slices.Values(toolNames(&boss.shown(id)[0]))); len(names) != 3 {
		t.Errorf("the parent lost tools: %v", names)
	}
}

// TestS1_8_Queue: "queued messages are durable and ordered; injected before the next step when executing, otherwise
// forcing the next turn."
func TestS1_8_Queue(t *testing.T) {
	t.Parallel()
	g := newGate()
	m := thinks(func(r *model.Request) *model.Response {
		if r.Session == 1 && r.Step == 1 {
			g.entered <- string(r.Thread)
			<-g.open
		}
		return says(fmt.Sprintf("step %d", r.Step))(r)
	})
	s := stageOf(t, map[string]model.Model{"test/m": m}, defined("one", "test/m", ""))
	id := s.instance("one")
	w := s.watch(me)
	s.say(id, `"go"`)
	next(s, "the first step", g.entered)
	for i := range 25 {
		s.say(id, fmt.Sprint(i))
	}
	w.until("25 messages", id, func(event) bool { return w.count(id, "message_received") == 26 })
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	shown := m.shown(id)
	if len(shown) != 2 || shown[1].Session != 1 {
		t.Fatalf("25 messages to a thread at work made %d steps, want one more in the same session", len(shown)-1)
	}
	var got []string
	for _, e := range entriesOf(shown[1].History, model.EntryMessage)[1:] {
		got = append(got, string(e.Content))
	}
	if len(got) != 25 || !slices.IsSortedFunc(got, func(a, b string) int { return len(a)*100 - len(b)*100 + strings.Compare(a, b) }) {
		t.Errorf("they are shown as %v", got)
	}
	// What is in the inbox while no host is there waits for it.
	s.StopHost(t)
	s.say(id, `"while you were out"`)
	s.StartHost(t)
	s.rests(id, 2, agent.StatusIdle)
	shown = m.shown(id)
	last := entriesOf(shown[len(shown)-1].History, model.EntryMessage)
	if string(last[len(last)-1].Content) != `"while you were out"` {
		t.Errorf("after the restart the thread was shown %s", last[len(last)-1].Content)
	}
}
