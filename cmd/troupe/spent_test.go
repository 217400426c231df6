package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// The tree tells of each subagent what it and all below it used, if there is anything to tell.
func TestTreeAddsUpUsage(t *testing.T) {
	t.Parallel()
	e := func(id, parent, name string, used *agent.Usage) agent.Entry {
		return agent.Entry{SubagentID: actor.ID(id), ParentAgentID: actor.ID(parent), Name: name, Usage: used, Order: uint64(id[4])}
	}
	entries := []agent.Entry{
		e("sub_1", "cli", "a", &agent.Usage{Steps: 1, InputTokens: 900, OutputTokens: 100}),
		e("sub_2", "sub_1", "b", &agent.Usage{Steps: 2, InputTokens: 10_000, OutputTokens: 1, USD: 34_500}),
		e("sub_3", "sub_2", "c", &agent.Usage{Steps: 1, InputTokens: 1, USD: 500_000}),
		e("sub_4", "cli", "d", nil),
	}
	got := strings.Join(newGrove("cli", "cli", entries).lines(time.UnixMicro(0)), "\n")
	want := strings.Join([]string{
		"cli",
		"  ○ a      sub_1    0s  11k tokens $0.53",
		"    ○ b    sub_2    0s  10k tokens $0.53",
		"      ○ c  sub_3    0s  1 tokens $0.50",
		"  ○ d      sub_4    0s",
	}, "\n")
	if got != want {
		t.Errorf("the tree is\n%s\nwant\n%s", got, want)
	}
	if got := newGrove("cli", "cli", entries[3:]).lines(time.UnixMicro(0))[1]; strings.HasSuffix(got, " ") {
		t.Errorf("%q keeps room for a column that there is no need of", got)
	}
	below := totals(newGrove("cli", "sub_1", entries).entries)["sub_1"]
	if got, want := usageRow(below), "4 steps, 10901 input tokens, 101 output tokens, $0.5345"; got != want {
		t.Errorf("all below sub_1 is %q, want %q", got, want)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1k", 1234: "1.23k", 12_345: "12.3k", 999_999: "1M", 1_234_567: "1.23M", 5e9: "5G"} {
		if got := short(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for m, want := range map[agent.Micros]string{0: "0.0000", 99: "0.0001", 12_345: "0.0123", 100_000: "0.10", 1_234_567: "1.23"} {
		if got := cents(m); got != want {
			t.Errorf("%d millionths are %q, want %q", int64(m), got, want)
		}
	}
	if got := fmt.Sprint(agent.Micros(-1_050_000), agent.Micros(3), agent.Micros(2_000_000)); got != "-1.05 0.000003 2" {
		t.Errorf("amounts are written %s", got)
	}
}
