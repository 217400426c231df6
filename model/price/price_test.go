package price_test

import (
	"math"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/price"
)

func table(t *testing.T, prices map[string]price.Price) *price.Table {
	t.Helper()
	tab, err := price.New(price.Config{Prices: prices})
	if err != nil {
		t.Fatalf("the prices were refused: %v", err)
	}
	return tab
}

func TestCost(t *testing.T) {
	t.Parallel()
	tab := table(t, map[string]price.Price{
		"acme/one": {Input: 1, Output: 10, CacheRead: 0.1, CacheWrite: 2},
		"acme/*":   {Input: 5}, "acme/on*": {Input: 7}, "free/*": {},
		"acme/long":                  {Input: 1, LongPrompt: &price.LongPrice{Over: 1000, Price: price.Price{Input: 3}}},
		"anthropic/claude-haiku-4-5": {Input: 100},
	})
	million := model.Usage{InputTokens: 1e6}
	for _, c := range []struct {
		name  string
		usage model.Usage
		want  float64
		known bool
	}{
		{"acme/one", model.Usage{InputTokens: 6e6, OutputTokens: 1e6, CacheReadTokens: 2e6, CacheWriteTokens: 1e6}, 3 + 10 + 0.2 + 2, true},
		{"acme/one-20251001", million, 1, true},
		{"acme/one-2026-03-05", million, 1, true},
		{"acme/one-latest", million, 1, true},
		{"acme/one-mini", million, 7, true},
		{"acme/two", million, 5, true},
		{"acme/long", model.Usage{InputTokens: 1000}, 0.001, true},
		{"acme/long", million, 3, true},
		{"free/x", million, 0, true},
		{"nobody/x", million, 0, false},
		{"anthropic/claude-haiku-4-5-20251001", million, 100, true},
		{"anthropic/claude-sonnet-4-5", million, 3, true},
		{"openai/gpt-5-mini", million, 0.25, true},
		{"openai/gpt-5-huge", million, 0, false},
		{"openai/gpt-5-1234567", million, 0, false},
	} {
		if got, known := tab.Cost(c.name, c.usage); math.Abs(got-c.want) > 1e-9 || known != c.known {
			t.Errorf("%s with %+v costs %v (known %v), got %v (%v)", c.name, c.usage, c.want, c.known, got, known)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	prices, err := price.Read(strings.NewReader(`{"a/b": {"input": 3, "output": 15, "long_prompt": {"over": 10, "input": 6, "output": 20, "cache_read": 1}}}`))
	p := prices["a/b"]
	if err != nil || p.CacheRead != 3 || p.CacheWrite != 3 || p.LongPrompt == nil || p.LongPrompt.CacheRead != 1 || p.LongPrompt.CacheWrite != 6 {
		t.Errorf("what is left out is the input's price, got %+v, %v", p, err)
	}
	for text, want := range map[string]actor.Kind{
		`[]`: actor.ParseError, `{`: actor.ParseError, `{"a": 1}`: actor.SchemaViolation, `{"a": {"input": 1}}`: actor.SchemaViolation,
		`{"a": {"input": 1, "output": 2, "ouput": 3}}`: actor.SchemaViolation, `{"a": {"input": "1", "output": 2}}`: actor.SchemaViolation,
	} {
		if _, err := price.Read(strings.NewReader(text)); actor.KindOf(err) != want {
			t.Errorf("%s should be a %s, got %v", text, want, err)
		}
	}
	for name, p := range map[string]price.Price{"*": {}, "": {}, "a": {Input: -1}, "b": {Output: math.NaN()}, "c": {LongPrompt: &price.LongPrice{Over: -1}}} {
		if _, err := price.New(price.Config{Prices: map[string]price.Price{name: p}}); actor.KindOf(err) != actor.SchemaViolation {
			t.Errorf("%q: %+v is no price, got %v", name, p, err)
		}
	}
}
