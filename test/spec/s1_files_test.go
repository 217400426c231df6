package spec

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
)

func (s *stage) writeFile(id, path, content string) {
	s.t.Helper()
	if _, err := s.Store.Files.Write(s.ctx, actor.ID(id), path, []byte(content), ""); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) readFile(id, path string) string {
	s.t.Helper()
	data, _, err := s.Store.Files.Read(s.ctx, actor.ID(id), path)
	if err != nil {
		s.t.Errorf("%s has no file %s: %v", id, path, err)
	}
	return string(data)
}

// attached gives the paths that a message says are its attachments.
func attached(e model.Entry) []string {
	var meta struct{ Attachments []string }
	_ = json.Unmarshal(e.Metadata, &meta)
	return meta.Attachments
}

// TestS1_7_Down: "Subagent communication that crosses thread boundaries MUST copy filesystem references: parent → child
// for initial and ongoing messaging attachments. … The destination thread MUST receive destination-local attachment
// paths." And decision 19: "all checked, all copied, then queued, in one atomic step; a name clash gets a new unique
// name." And case 30: a parent's image attachments reach the child under paths that exist there.
func TestS1_7_Down(t *testing.T) {
	t.Parallel()
	child := thinks(says("seen"))
	boss := plans(plan{
		does("subagent_create", `{"agent":"child","name":"n","message":"initial","attachments":["a/pic.png","note.txt"],"arguments":{"more":["extra.txt"]}}`),
	}, plan{
		refers(0, "subagent_message", `{"reference":%q,"message":"ongoing","attachments":["note.txt"]}`),
	}, plan{
		refers(0, "subagent_message", `{"reference":%q,"message":"missing","attachments":["note.txt","none.txt"]}`),
		does("subagent_create", `{"agent":"child","name":"n","message":"m","attachments":["note.txt","../up.txt"]}`),
	})
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/child": child}, defined("child", "test/child", ""),
		defined("boss", "test/boss", only(`{"agent":"child","parentCommunication":"explicit","initUserMessageProperty":"message","initAttachmentsProperty":"more"}`)))
	id := s.instance("boss")
	png := "\x89PNG\r\n\x1a\n\x00\xff"
	s.writeFile(id, "a/pic.png", png)
	s.writeFile(id, "note.txt", "first")
	s.writeFile(id, "extra.txt", "extra")
	s.session(id, 1, `"go"`)[0].is("error", `false`)
	c := string(s.child(id).SubagentID)
	s.rests(c, 1, agent.StatusIdle)
	m := entriesOf(child.last(c), model.EntryMessage)
	if got := attached(m[0]); !slices.Equal(got, []string{"a/pic.png", "note.txt", "extra.txt"}) {
		t.Fatalf("the child is told of the attachments %v", got)
	}
	if s.readFile(c, "a/pic.png") != png || s.readFile(c, "note.txt") != "first" || s.readFile(c, "extra.txt") != "extra" {
		t.Errorf("the files arrive changed")
	}
	// The parent's file changes, and goes down again: both are there.
	s.writeFile(id, "note.txt", "second")
	s.session(id, 2, `"again"`)[0].is("error", `false`)
	s.rests(c, 2, agent.StatusIdle)
	m = entriesOf(child.last(c), model.EntryMessage)
	got := attached(m[1])
	if len(got) != 1 || got[0] == "note.txt" || s.readFile(c, got[0]) != "second" || s.readFile(c, "note.txt") != "first" {
		t.Errorf("the second attachment is told as %v, and note.txt is %q", got, s.readFile(c, "note.txt"))
	}
	files, err := s.Store.Files.List(s.ctx, actor.ID(c), "")
	if err != nil {
		t.Fatal(err)
	}
	// What is missing at the source is an error, and nothing is copied or queued.
	for _, r := range s.session(id, 3, `"again"`) {
		r.is("error", `true`)
		r.is("content.field", `"attachments"`)
	}
	after, err := s.Store.Files.List(s.ctx, actor.ID(c), "")
	if err != nil || len(after) != len(files) || s.entry(c).Session != 2 || len(s.children(id)) != 1 {
		t.Errorf("refused attachments left something behind: %d files (%v), session %d, %d children", len(after), err, s.entry(c).Session, len(s.children(id)))
	}
	s.noDeadLetters()
}

// TestS1_7_Code: what code sends down is copied as well, and each thread has files of its own.
func TestS1_7_Code(t *testing.T) {
	t.Parallel()
	child := thinks(says("seen"))
	sends := func(ctx context.Context, h *host.State) error {
		if h.Message.Kind != model.EntryMessage || h.Message.Type != "" {
			return nil
		}
		if _, err := h.WriteFile(ctx, "out.txt", []byte("by code"), "text/plain"); err != nil {
			return err
		}
		h.CreateChild(host.Child{Relationship: "child", Name: "n", Arguments: json.RawMessage(`{"message":"m"}`), Attachments: []string{"out.txt"}})
		return nil
	}
	s := stageWith(t, host.Config{Handlers: map[string]host.Handler{"sends": sends}}, map[string]model.Model{"test/child": child},
		defined("child", "test/child", ""), `{"name":"code","sideA":{"handler":"sends"`+only(`{"agent":"child","parentCommunication":"explicit"}`)+`}}`)
	id := s.instance("code")
	s.say(id, `"go"`)
	s.wakes(child, s.firstChild(id), 1)
	c := string(s.child(id).SubagentID)
	if m := entriesOf(child.last(c), model.EntryMessage); len(m) != 1 || !slices.Equal(attached(m[0]), []string{"out.txt"}) {
		t.Errorf("the child is shown\n%s", tellHistory(child.last(c)))
	}
	if s.readFile(c, "out.txt") != "by code" {
		t.Error("the file arrives changed")
	}
	s.writeFile(c, "out.txt", "the child's own")
	if s.readFile(id, "out.txt") != "by code" {
		t.Error("the child's file is the parent's")
	}
}

// TestCase28_Names: two names that differ only in non-ASCII characters → two tools, or a definition error; never one.
func TestCase28_Names(t *testing.T) {
	t.Parallel()
	const one, two = "風林火山 Agent", "疾風迅雷 Agent"
	invalid(t, "schema_violation", "agents[1].sideA.subagents[0].agent", defined(one, "m", ""), defined("x", "m", only(`{"agent":"`+one+`"}`)))
	for _, names := range [][2]string{{"wind-a", "wind_a"}, {"Wind", "wind"}} {
		invalid(t, "subagent_name_conflict", "agents[2].sideA.subagents[1].as", defined(one, "m", ""), defined(two, "m", ""),
			defined("x", "m", only(`{"agent":"`+one+`","as":"`+names[0]+`"}`, `{"agent":"`+two+`","as":"`+names[1]+`"}`)))
	}
	boss := plans(plan{
		does("subagent_create", `{"agent":"wind","name":"風","message":"m"}`),
		does("subagent_create", `{"agent":"thunder","name":"雷","message":"m"}`),
		does("subagents", `{}`),
	})
	a, b := thinks(says("one")), thinks(says("two"))
	s := stageOf(t, map[string]model.Model{"test/boss": boss, "test/a": a, "test/b": b}, defined(one, "test/a", ""), defined(two, "test/b", ""),
		defined("boss", "test/boss", only(`{"agent":"`+one+`","as":"wind"}`, `{"agent":"`+two+`","as":"thunder"}`)))
	id, got := s.runs("boss")
	got[2].is("content.0.name", quote(one))
	got[2].is("content.1.name", quote(two))
	_, create := s.toolOf(&boss.shown(id)[0], "subagent_create")
	create.is("properties.agent.enum", `["wind","thunder"]`)
	for i, c := range s.children(id) {
		s.rests(string(c.SubagentID), 1, agent.StatusIdle)
		if n := len([]*mind{a, b}[i].shown(string(c.SubagentID))); n != 1 || c.ThreadName != []string{"風", "雷"}[i] {
			t.Errorf("the child %q of %s took %d steps of its own agent's", c.ThreadName, c.Name, n)
		}
	}
	if s.instance(one) == s.instance(two) || s.entry(s.instance(two)).Name != two {
		t.Errorf("the two agents are one")
	}
}
