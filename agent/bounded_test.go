package agent

import (
	"math"
	"testing"
)

// What a model tells of its usage is bounded: sums of it must never turn over.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	u := Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, CacheReadTokens: -5, USD: math.MaxInt64}.bounded()
	if u.Tokens() <= 0 || u.CacheReadTokens != 0 || u.USD <= 0 {
		t.Fatalf("an absurd usage became %+v", u)
	}
	var life Usage
	for range 1000 {
		life.Add(u)
	}
	if life.Tokens() <= 0 || life.USD <= 0 {
		t.Errorf("after 1,000 such steps the sum is %+v", life)
	}
}
