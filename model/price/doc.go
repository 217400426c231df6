// Package price says what models cost: [Table] turns the tokens of a step into US dollars.
//
// The built-in prices are the list prices of Anthropic and OpenAI for standard requests, as of November 2026.
// They know no discounts and no tariffs of batches, regions or service tiers, and of dearer long prompts only
// those that say so. A program or a file can replace any of them. A model without a price costs nothing that
// could be told: that is not the same as free, so [Table.Cost] reports it.
//
// # Names
//
// A key of a table is a model's full name, "anthropic/claude-haiku-4-5". It also serves the dated versions of
// that name ("anthropic/claude-haiku-4-5-20251001", "openai/gpt-5.4-2026-03-05") and "-latest". It does not
// serve longer names: a price of "openai/gpt-5" says nothing of "openai/gpt-5-mini". A key that ends in "*"
// serves every name that begins so, if no other key does; of several the longest counts.
package price
