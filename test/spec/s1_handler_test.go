package spec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// coded starts a host with a handler, which is side A of the agent "code".
func coded(t *testing.T, handler host.Handler, minds map[string]model.Model, more string, definitions ...string) *stage {
	t.Helper()
	definitions = append(definitions, `{"name":"code","sideA":{"handler":"code"`+more+`}}`)
	return stageWith(t, host.Config{Handlers: map[string]host.Handler{"code": handler}}, minds, definitions...)
}

// TestS1Decision20_OneAtATime: "Handlers get envelopes one at a time, at least once, with a stable id to de-duplicate
// on".
func TestS1Decision20_OneAtATime(t *testing.T) {
	t.Parallel()
	var busy, most atomic.Int32
	var mu sync.Mutex
	var got []string
	ids := map[string]string{}
	g := newGate()
	handler := func(_ context.Context, h *host.State) error {
		most.Store(max(most.Load(), busy.Add(1)))
		defer busy.Add(-1)
		if string(h.Message.Content) == `"first"` {
			g.entered <- "first"
			<-g.open
		}
		mu.Lock()
		defer mu.Unlock()
		if other, taken := ids[h.Message.ID]; taken || h.Message.ID == "" {
			t.Errorf("%s and %s have the same id %q", other, h.Message.Content, h.Message.ID)
		}
		ids[h.Message.ID] = string(h.Message.Content)
		got = append(got, string(h.Message.Content))
		return nil
	}
	s := coded(t, handler, nil, "")
	id := s.instance("code")
	w := s.watch(me)
	s.say(id, `"first"`)
	next(s, "the first message", g.entered)
	want := []string{`"first"`}
	for i := range 25 {
		s.say(id, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	w.until("26 messages", id, func(event) bool { return w.count(id, "message_received") == 26 })
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	s.say(id, `"late"`)
	s.rests(id, 2, agent.StatusIdle)
	mu.Lock()
	defer mu.Unlock()
	if most.Load() != 1 || !slices.Equal(got, append(want, `"late"`)) {
		t.Errorf("at most %d at a time, the handler was given %v", most.Load(), got)
	}
}

// TestS1Decision20_Retries: "an error is retried with backoff (5 times), then the session fails." The id stays the same,
// what a failed try asked for is forgotten, and a panic is an error.
func TestS1Decision20_Retries(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string][]string{} // ids, by content
	handler := func(_ context.Context, h *host.State) error {
		mu.Lock()
		defer mu.Unlock()
		content := string(h.Message.Content)
		tries[content] = append(tries[content], h.Message.ID)
		n := len(tries[content])
		h.SetStatus(fmt.Sprintf("try %d of %s", n, content))
		if err := h.NotifyParent(json.RawMessage(fmt.Sprintf(`"note %d"`, n))); err != nil {
			return err
		}
		switch {
		case content == `"never"`:
			return errors.New("no luck")
		case content == `"late"` && n == 4:
			panic("bang")
		case content == `"late"` && n < 5:
			return errors.New("not yet")
		}
		h.Say(json.RawMessage(`"done"`))
		return nil
	}
	s := coded(t, handler, nil, "")
	id := s.instance("code")
	s.say(id, `"late"`)
	if e := s.rests(id, 1, agent.StatusIdle); e.StatusText != `try 5 of "late"` {
		t.Errorf("the status is %q", e.StatusText)
	}
	natstest.Await(t, "a note and a completion in the mail", func() bool { return s.mails(me, id) == 2 })
	s.mail(me, id, "notify-1-1-1").is("message.content", `"note 5"`)

	s.say(id, `"never"`)
	e := s.rests(id, 2, agent.StatusFailed)
	got := s.await(me, id)
	got.is("status", `"FAILED"`)
	if !strings.Contains(got.text("error"), "no luck") || e.StopReason != agent.StopError || e.StatusText != "" && strings.Contains(e.StatusText, "never") {
		t.Errorf("the session ended as %s with the status %q", got.raw, e.StatusText)
	}
	natstest.Await(t, "a third message in the mail", func() bool { return s.mails(me, id) == 3 }) // the failure; no notes

	s.say(id, `"fine"`) // it is not the end of the thread
	s.rests(id, 3, agent.StatusIdle)
	mu.Lock()
	defer mu.Unlock()
	for content, n := range map[string]int{`"late"`: 5, `"never"`: 5, `"fine"`: 1} {
		if ids := tries[content]; len(ids) != n || len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Errorf("%s was given under the ids %v; want %d times the same", content, ids, n)
		}
	}
	s.noDeadLetters()
}

// TestS1Decision20_Kept: what a message asked for whose handler returned happens, also when the next message of the same
// step fails.
func TestS1Decision20_Kept(t *testing.T) {
	t.Parallel()
	g := newGate()
	handler := func(_ context.Context, h *host.State) error {
		switch string(h.Message.Content) {
		case `"wait"`:
			g.entered <- "wait"
			<-g.open
		case `"good"`:
			h.SetStatus("good")
			h.CreateChild(host.Child{Relationship: "worker", Name: "w"})
		case `"bad"`:
			return errors.New("no luck")
		}
		return nil
	}
	s := coded(t, handler, nil, only(`{"agent":"worker"}`), worker)
	id := s.instance("code")
	w := s.watch(me)
	s.say(id, `"wait"`)
	next(s, "the first message", g.entered)
	s.say(id, `"good"`)
	s.say(id, `"bad"`)
	w.until("three messages", id, func(event) bool { return w.count(id, "message_received") == 3 })
	close(g.open)
	e := s.rests(id, 1, agent.StatusFailed)
	if e.StopReason != agent.StopError || e.StatusText != "good" || len(s.children(id)) != 1 {
		t.Errorf("the session ended for the reason %q; the status is %q, and there are %d children; want error, good and 1", e.StopReason, e.StatusText, len(s.children(id)))
	}
}

// TestS1Decision20_Once: what a handler asks for happens once, though the process dies while it runs and it runs again.
func TestS1Decision20_Once(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids []string
	g := newGate()
	handler := func(ctx context.Context, h *host.State) error {
		if h.Message.Kind != model.EntryMessage || h.Message.Type != "" {
			return nil
		}
		mu.Lock()
		ids = append(ids, h.Message.ID)
		mu.Unlock()
		h.CreateChild(host.Child{Relationship: "worker", Name: "w", Arguments: json.RawMessage(`{"n":1}`)})
		g.entered <- "handler"
		select {
		case <-g.open:
		case <-ctx.Done():
			return ctx.Err()
		}
		return h.NotifyParent(json.RawMessage(`"once"`))
	}
	s := coded(t, handler, nil, only(`{"agent":"worker","parentCommunication":"explicit"}`), worker)
	id := s.instance("code")
	s.say(id, `"go"`)
	next(s, "the handler", g.entered)
	s.KillHost(t)
	s.StartHost(t)
	next(s, "the handler again", g.entered)
	close(g.open)
	s.rests(id, 1, agent.StatusIdle)
	c := string(s.child(id).SubagentID)
	s.rests(c, 1, agent.StatusIdle)
	natstest.Await(t, "a note and an end in the mail", func() bool { return s.mails(me, id) >= 2 })
	s.settled(me)
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 2 || len(slices.Compact(ids)) != 1 {
		t.Errorf("the message was given under the ids %v, want one id at least twice", ids)
	}
	if n := s.mails(me, id); n != 2 || s.entry(c).Session != 1 {
		t.Errorf("the parent has %d messages in the mail and the child is in session %d; want a note, an end, and one", n, s.entry(c).Session)
	}
}

// TestS1Decision20_State: a handler's State has what S1's ThreadState has.
func TestS1Decision20_State(t *testing.T) {
	t.Parallel()
	problems := make(chan string, 100)
	want := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			problems <- fmt.Sprintf("%s: %v, want %v", what, got, want)
		}
	}
	handler := func(ctx context.Context, h *host.State) error {
		_, err := h.Get(ctx, "n")
		switch {
		case h.Message.Type == "createChild" || h.Message.Kind == model.EntryCompletion:
			return nil
		case h.Session == 1:
			want("a value that is not there", actor.KindOf(err), actor.NotFound)
			want("parent", h.Parent, me)
			want("message", string(h.Message.Content), `"go"`)
			want("from", h.Message.From, me)
			want("arguments", string(h.Arguments), `{"topic":"ports"}`)
			if err := errors.Join(h.Set(ctx, "n", json.RawMessage(`{"a":1}`)), h.Set(ctx, "gone", json.RawMessage(`1`)), h.Delete(ctx, "gone")); err != nil {
				return err
			}
			if _, err := h.WriteFile(ctx, "dir/f.txt", []byte("text"), "text/plain"); err != nil {
				return err
			}
			h.CreateChild(host.Child{Relationship: "worker", Name: "w"})
			h.Say(json.RawMessage(`"said"`))
			return nil
		}
		want("history", len(h.History) > 2, true)
		value, err := h.Get(ctx, "n")
		want("value", fmt.Sprint(string(value), err), `{"a":1}<nil>`)
		_, err = h.Get(ctx, "gone")
		want("deleted", actor.KindOf(err), actor.NotFound)
		data, file, err := h.ReadFile(ctx, "dir/f.txt")
		want("file", fmt.Sprint(string(data), file.Path, err), "textdir/f.txt<nil>")
		files, err := h.Files(ctx, "dir/")
		want("files", fmt.Sprint(len(files), err), "1 <nil>")
		want("remove", h.RemoveFile(ctx, "dir/f.txt"), nil)
		_, _, err = h.ReadFile(ctx, "dir/f.txt")
		want("removed", actor.KindOf(err), actor.NotFound)
		children, err := h.Children(ctx)
		want("children", fmt.Sprint(len(children), err), "1 <nil>")
		_, ok, err := h.Env(ctx, "NONE")
		want("a variable that is not there", fmt.Sprint(ok, err), "false <nil>")
		h.MessageChild(children[0].Reference, json.RawMessage(`"hello"`))
		h.StopSession(host.Stop{Result: json.RawMessage(`{"stopped":true}`), Status: "at rest"})
		return nil
	}
	s := coded(t, handler, nil, only(`{"agent":"worker","parentCommunication":"explicit"}`), worker)
	id := s.ask(me, `{"type":"SUBAGENT_SPAWN_REQ","definition":"code","arguments":{"topic":"ports"}}`).text("subagent_id")
	s.say(id, `"go"`)
	s.rests(id, 1, agent.StatusIdle)
	s.await(me, id).is("result", `{"output":"said"}`) // the outcome of what it asked for does not take that back
	s.StopHost(t)
	s.StartHost(t)
	s.say(id, `"again"`)
	if e := s.rests(id, 2, agent.StatusIdle); e.StatusText != "at rest" {
		t.Errorf("the status is %q", e.StatusText)
	}
	s.await(me, id).is("result", `{"stopped":true}`)
	s.rests(string(s.child(id).SubagentID), 1, agent.StatusIdle)
	s.settled(me)
	if e := s.entry(id); e.Session != 2 {
		t.Errorf("what it asked for in its last breath opened session %d", e.Session)
	}
	close(problems)
	for p := range problems {
		t.Error(p)
	}
}

// TestS1Decision20_Ends: a handler ends its session as failed, or its thread; a child that can't be made, or one that is
// terminated, is told to it.
func TestS1Decision20_Ends(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	handler := func(_ context.Context, h *host.State) error {
		switch string(h.Message.Content) {
		case `"fail"`:
			h.FailSession("as asked")
		case `"end"`:
			h.Terminate()
		case `"make"`:
			h.CreateChild(host.Child{Relationship: "stranger", Name: "n"})
			h.CreateChild(host.Child{Relationship: "worker"})
			h.MessageChild("sub_00000000", json.RawMessage(`1`))
		default:
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %v %s", h.Message.Type, h.Message.IsError, code(h.Message.Content)))
		}
		return nil
	}
	s := coded(t, handler, nil, only(`{"agent":"worker"}`), worker)
	id := s.instance("code")
	s.say(id, `"make"`)
	natstest.Await(t, "three outcomes", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == 3 })
	mu.Lock()
	slices.Sort(told)
	if want := "createChild true not_found; createChild true schema_violation; messageChild true not_found"; strings.Join(told, "; ") != want {
		t.Errorf("the handler is told %s; want %s", strings.Join(told, "; "), want)
	}
	mu.Unlock()
	if len(s.children(id)) > 0 {
		t.Errorf("a refused child was made")
	}
	natstest.Await(t, "the end of the session", func() bool { return s.entry(id).Status == agent.StatusIdle })
	n := s.entry(id).Session
	s.say(id, `"fail"`)
	s.rests(id, n+1, agent.StatusFailed)
	s.await(me, id).is("error", `"as asked"`)
	s.say(id, `"end"`)
	s.rests(id, n+2, agent.StatusTerminated)
}

// code is the code of an error.
func code(content json.RawMessage) string {
	var e struct{ Code string }
	_ = json.Unmarshal(content, &e)
	return e.Code
}
