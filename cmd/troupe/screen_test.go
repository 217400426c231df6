package main

import (
	"errors"
	"fmt"
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
		{&actor.Error{Op: "x", Kind: actor.SchemaViolation, Field: "agent.name", Err: errors.New("is empty")}, "agent.name is empty (schema_violation)"},
		{&actor.Error{Op: "x", Kind: actor.NotFound}, "not found (not_found)"},
		{fmt.Errorf("first: %w", inner), "first: nobody; listens (unavailable)"},
		{failed("%s", a2e.Failed), "FAILED"},
	} {
		if got := explain(c.err); got != c.want {
			t.Errorf("%q is explained as %q, want %q", c.err, got, c.want)
		}
	}
}
