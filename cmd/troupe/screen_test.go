package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"hello", 5, "hello"},
		{"hello", 4, "hel…"},
		{"hello", 1, "…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"🌍🌍", 3, "🌍…"},
		{"", 3, ""},
	} {
		if got := clip(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("日本語 hello", 7)
	f.Fuzz(func(t *testing.T, s string, width int) {
		if !utf8.ValidString(s) || width < 1 || width > 1000 {
			return
		}
		if got := clip(s, width); !utf8.ValidString(got) || columns(got) > width {
			t.Fatalf("%q in %d columns is %q, of %d columns", s, width, got, columns(got))
		}
	})
}

func TestClean(t *testing.T) {
	t.Parallel()
	if got, want := clean("a\tb\nc\x1b[31m\u202Ed"), "a b c\uFFFD[31m\uFFFDd"; got != want {
		t.Errorf("%q, want %q: a name must not move the cursor or turn the line around", got, want)
	}
}

func TestAResultReachesATerminalClean(t *testing.T) {
	t.Parallel()
	raw := "a\tb\r\nc\x1b]0;title\a\x9b1m\u009b2J\x7f\u202Ed\ve"
	want := "a\tb\nc\uFFFD]0;title\uFFFD\uFFFD1m\uFFFD2J\uFFFD\uFFFDd\uFFFDe"
	if got := shown(raw, true); got != want {
		t.Errorf("on a terminal the result is %q, want %q", got, want)
	}
	if got, want := escaped("[\"\u009b1m\u202E\uFFFDé\"]\n"), "[\"\\u009b1m\\u202e\uFFFDé\"]\n"; got != want {
		t.Errorf("as JSON on a terminal the result is %q, want %q", got, want)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	raw = strings.ReplaceAll(raw, "\x9b1m", "") // no JSON has it
	result, err := json.Marshal(map[string]string{"output": raw})
	if err == nil {
		err = (&app{stdout: out}).result(result)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out.Name()); err != nil || string(got) != raw+"\n" {
		t.Errorf("piped, the result is %q, want it exactly: %q (%v)", got, raw, err)
	}
}

func TestTreeLinesOfFailures(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("語", 60)
	e := agent.Entry{SubagentID: "sub_1", ParentAgentID: "cli", Name: long, Session: 1, Step: 1, MaxSteps: 2, StatusText: "all is well"}
	e.Status, e.StopReason = agent.StatusFailed, agent.StopTimeout
	other := agent.Entry{SubagentID: "sub_2", ParentAgentID: "cli", Name: "b", Order: 1}
	g := newGrove("cli", "cli", []agent.Entry{e, other})
	lines := g.lines(time.UnixMicro(0))
	if !strings.HasSuffix(lines[1], "stopped by timeout") || strings.Contains(lines[1], "well") {
		t.Errorf("%q should say why it failed, not how it went", lines[1])
	}
	place := func(line string) int { before, _, _ := strings.Cut(line, "sub_"); return columns(before) }
	if place(lines[1]) != place(lines[2]) || place(lines[1]) > 2+2+maxNameColumns+2 {
		t.Errorf("a long name moved the columns:\n%s\n%s", lines[1], lines[2])
	}
	g.why = map[actor.ID]string{"sub_1": "no\nway"}
	if lines := g.lines(time.UnixMicro(0)); !strings.HasSuffix(lines[1], "  no way") {
		t.Errorf("%q should tell the error, which is known", lines[1])
	}
}

func TestTreeLines(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(10_000_000)
	e := func(id, parent, name string, order uint64) agent.Entry {
		return agent.Entry{SubagentID: actor.ID(id), ParentAgentID: actor.ID(parent), Name: name, Order: order, CreatedAt: 7_000_000, MaxSteps: 40}
	}
	child, other := e("sub_2", "sub_1", "child", 2), e("sub_3", "cli", "other", 3)
	other.Session, other.Step, other.StopReason = 1, 2, agent.StopDone
	other.StatusText = "looked\nat it"
	g := newGrove("cli", "cli", []agent.Entry{other, child, e("sub_1", "cli", "first", 1)})
	got := fmt.Sprintf("%q", g.lines(now))
	want := fmt.Sprintf("%q", []string{
		"cli",
		"  ○ first    sub_1    3s",
		"    ○ child  sub_2    3s",
		"  ✓ other    sub_3    3s  step 2/40  looked at it",
	})
	if got != want {
		t.Errorf("the tree is\n%s, want\n%s", got, want)
	}
	if lines := fit(g.lines(now), 3); len(lines) != 3 || lines[2] != "… and 2 more" {
		t.Errorf("in three lines the tree is %q, want that two are missing", lines)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	inner := &actor.Error{Op: "bus.Request", Kind: actor.Unavailable, Err: errors.New("nobody\nlistens")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{inner, "nobody; listens (unavailable)"},
		{&actor.Error{Op: "client", ID: "sub_1", Kind: actor.Timeout, Err: inner}, "sub_1: nobody; listens (timeout)"},
		{&actor.Error{Op: "x", Kind: actor.SchemaViolation, Field: "agent.name", Err: errors.New("is empty")}, "agent.name: is empty (schema_violation)"},
		{&actor.Error{Op: "x", Kind: actor.NotFound}, "not found (not_found)"},
		{fmt.Errorf("first: %w", inner), "first: nobody; listens (unavailable)"},
		{failed("%s", a2e.Failed), "FAILED"},
	} {
		if got := explain(c.err); got != c.want {
			t.Errorf("%q is explained as %q, want %q", c.err, got, c.want)
		}
	}
}
