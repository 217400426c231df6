package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// totals adds up what every subagent and all below it used.
func totals(entries map[actor.ID]agent.Entry) map[actor.ID]agent.Usage {
	all := make(map[actor.ID]agent.Usage, len(entries))
	for _, e := range entries {
		if e.Usage == nil {
			continue
		}
		id := e.SubagentID
		for range len(entries) + 1 { // as deep as it may be, should the entries lead in a circle
			u := all[id]
			u.Add(*e.Usage)
			all[id] = u
			above, ok := entries[id]
			if !ok {
				break
			}
			id = above.ParentAgentID
		}
	}
	return all
}

// spent is what was used, in a few words; "" when there is nothing to tell but steps.
func spent(u agent.Usage) string {
	var parts []string
	if n := u.Tokens(); n > 0 {
		parts = append(parts, short(n)+" tokens")
	}
	if u.USD > 0 {
		parts = append(parts, "$"+cents(u.USD))
	}
	return strings.Join(parts, " ")
}

// short is a number in a few digits.
func short(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f := float64(n) / unit.size; f >= 0.9995 {
			return strconv.FormatFloat(f, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// cents is an amount of dollars as people write it: two digits, or as many as a small one needs.
func cents(m agent.Micros) string {
	switch usd := float64(m) / 1e6; {
	case usd >= 0.1:
		return strconv.FormatFloat(usd, 'f', 2, 64)
	default:
		return strconv.FormatFloat(usd, 'f', 4, 64)
	}
}

// usageRow tells all that was used, on one line.
func usageRow(u agent.Usage) string {
	parts := []string{fmt.Sprintf("%d steps", u.Steps)}
	if u.Tokens() > 0 {
		parts = append(parts, fmt.Sprintf("%d input tokens", u.InputTokens))
		if u.CacheReadTokens+u.CacheWriteTokens > 0 {
			parts = append(parts, fmt.Sprintf("of these %d from the cache and %d into it", u.CacheReadTokens, u.CacheWriteTokens))
		}
		parts = append(parts, fmt.Sprintf("%d output tokens", u.OutputTokens))
	}
	if u.USD > 0 {
		parts = append(parts, "$"+u.USD.String())
	}
	return strings.Join(parts, ", ")
}
