package price

// builtin gives the list prices as of November 2026.
func builtin() map[string]Price {
	prices := map[string]Price{
		"anthropic/claude-fable-5-1":  {Input: 10, Output: 50, CacheRead: 0.25, CacheWrite: 12.5},
		"anthropic/claude-mythos-5-1": {Input: 10, Output: 50, CacheRead: 0.25, CacheWrite: 12.5},
		"anthropic/claude-fable-5":    {Input: 10, Output: 50, CacheRead: 1, CacheWrite: 12.5},
		"anthropic/claude-mythos-5":   {Input: 10, Output: 50, CacheRead: 1, CacheWrite: 12.5},
		"anthropic/claude-opus-5-5":   {Input: 4, Output: 20, CacheRead: 0.2, CacheWrite: 5},
		"anthropic/claude-sonnet-5-5": {Input: 2, Output: 10, CacheRead: 0.1, CacheWrite: 2.5},
		"anthropic/claude-sonnet-5":   {Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5},
		"anthropic/claude-sonnet-4-6": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		"anthropic/claude-sonnet-4-5": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		"anthropic/claude-haiku-5-5": {Input: 0.1, Output: 0.5, CacheRead: 0.01, CacheWrite: 0.125,
			LongPrompt: &LongPrice{Over: 100_000, Price: Price{Input: 0.5, Output: 2.5, CacheRead: 0.05, CacheWrite: 0.625}}},
		"anthropic/claude-haiku-4-5": {Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25},

		"openai/gpt-6-astra":   {Input: 10, Output: 50, CacheRead: 1, CacheWrite: 12.5},
		"openai/gpt-6-sol":     {Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5},
		"openai/gpt-6-luna":    {Input: 0.1, Output: 0.5, CacheRead: 0.01, CacheWrite: 0.125},
		"openai/gpt-6.1-sol":   {Input: 2, Output: 10, CacheRead: 0.1, CacheWrite: 2.5},
		"openai/gpt-6.1-terra": {Input: 1, Output: 5, CacheRead: 0.05, CacheWrite: 1.25},
	}
	for _, name := range []string{"5", "4-8", "4-7", "4-6", "4-5"} {
		prices["anthropic/claude-opus-"+name] = Price{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}
	}
	for name, p := range map[string][3]float64{ // input, cached input, output; the cache is written for nothing
		"gpt-5.6-sol": {4, 0.4, 20}, "gpt-5.6-terra": {2, 0.2, 12}, "gpt-5.6-luna": {0.2, 0.02, 1.2},
		"gpt-5.5": {5, 0.5, 30}, "gpt-5.5-pro": {30, 30, 180},
		"gpt-5.4": {2.5, 0.25, 15}, "gpt-5.4-mini": {0.75, 0.075, 4.5}, "gpt-5.4-nano": {0.2, 0.02, 1.25}, "gpt-5.4-pro": {30, 30, 180},
		"gpt-5.2": {1.75, 0.175, 14}, "gpt-5.1": {1.25, 0.125, 10},
		"gpt-5": {1.25, 0.125, 10}, "gpt-5-mini": {0.25, 0.025, 2}, "gpt-5-nano": {0.05, 0.005, 0.4},
		"gpt-4.1": {2, 0.5, 8}, "gpt-4.1-mini": {0.4, 0.1, 1.6}, "gpt-4.1-nano": {0.1, 0.025, 0.4},
		"gpt-4o": {2.5, 1.25, 10}, "gpt-4o-mini": {0.15, 0.075, 0.6},
		"o3": {2, 0.5, 8}, "o4-mini": {1.1, 0.275, 4.4},
	} {
		prices["openai/"+name] = Price{Input: p[0], CacheRead: p[1], CacheWrite: p[0], Output: p[2]}
	}
	return prices
}
