package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/troupehq/troupe/model/provider"
)

// An answer is put together from the events of a stream. The SDK's own accumulator empties arguments that are
// no JSON, which have to come through.
type answer struct {
	text   strings.Builder
	blocks map[int64]*call
	order  []*call
	usage  counts
	reason sdk.StopReason
	why    string
	whole  bool
}

// A call is a block of type tool_use.
type call struct {
	id, name  string
	start     json.RawMessage // the input that the block began with
	arguments strings.Builder
}

// counts are the tokens as the API counts them: input without what was cached.
type counts struct{ input, output, read, write int64 }

// take adds an event.
func (a *answer) take(event *sdk.MessageStreamEventUnion) {
	switch event.Type {
	case "message_start":
		u := &event.Message.Usage
		a.usage = counts{u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens}
	case "content_block_start":
		a.begin(event)
	case "content_block_delta":
		switch event.Delta.Type {
		case "text_delta":
			a.text.WriteString(event.Delta.Text)
		case "input_json_delta":
			if c := a.blocks[event.Index]; c != nil {
				c.arguments.WriteString(event.Delta.PartialJSON)
			}
		}
	case "message_delta":
		a.finish(event)
	case "message_stop":
		a.whole = true
	}
}

// begin starts a block. The texts of one answer are told as one.
func (a *answer) begin(event *sdk.MessageStreamEventUnion) {
	block := &event.ContentBlock
	switch block.Type {
	case "text":
		if a.text.Len() > 0 {
			a.text.WriteString("\n\n")
		}
		a.text.WriteString(block.Text)
	case "tool_use":
		c := &call{id: block.ID, name: block.Name, start: block.AsToolUse().Input}
		if a.blocks == nil {
			a.blocks = map[int64]*call{}
		}
		a.blocks[event.Index] = c
		a.order = append(a.order, c)
	}
}

// finish takes why the message ends, and the final counts: those that are told replace the first ones.
func (a *answer) finish(event *sdk.MessageStreamEventUnion) {
	a.reason = event.Delta.StopReason
	a.why = event.Delta.StopDetails.Explanation
	u := &event.Usage
	a.usage.output = u.OutputTokens
	if u.JSON.InputTokens.Valid() {
		a.usage.input = u.InputTokens
	}
	if u.JSON.CacheReadInputTokens.Valid() {
		a.usage.read = u.CacheReadInputTokens
	}
	if u.JSON.CacheCreationInputTokens.Valid() {
		a.usage.write = u.CacheCreationInputTokens
	}
}

// answer is what there is so far.
func (a *answer) answer() *provider.Answer {
	out := &provider.Answer{Text: a.text.String(), Stop: stop(a.reason), Why: a.why, Usage: usageOf(&a.usage)}
	if out.Stop == provider.StopOther {
		out.Why = string(a.reason)
	}
	for _, c := range a.order {
		text := c.arguments.String()
		if text == "" {
			text = string(c.start)
		}
		out.Calls = append(out.Calls, provider.Call{ID: c.id, Name: c.name, Arguments: text})
	}
	return out
}
