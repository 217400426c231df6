package openai

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// send gets an answer.
func (m *Model) send(ctx context.Context, c *provider.Conversation, say func(string)) (*provider.Answer, error) {
	stream := m.chat.NewStreaming(ctx, params(c, m.client.BaseURL == ""))
	defer stream.Close()
	var got answer
	for stream.Next() {
		chunk := stream.Current()
		if got.take(&chunk) {
			say(got.text.String())
		}
	}
	if err := stream.Err(); err != nil {
		return got.answer(), failure(err)
	}
	if got.reason == "" {
		return got.answer(), provider.Broken()
	}
	return got.answer(), nil
}

// failure gives an error of the SDK, which may be one that the server broke the stream off with.
func failure(err error) error {
	var told *ssestream.StreamError
	if errors.As(err, &told) {
		return provider.Told(told.Event.Data)
	}
	return err
}

// An answer is put together from the chunks of a stream. Its calls are told apart by their index, or, by
// servers that give every call index 0, by their id.
type answer struct {
	text    strings.Builder
	refusal strings.Builder
	calls   []*call
	usage   model.Usage
	reason  string
}

// A call is a function that the model calls.
type call struct {
	index     int64
	id, name  string
	arguments strings.Builder
}

// take adds a chunk, and reports whether it has text.
func (a *answer) take(chunk *sdk.ChatCompletionChunk) (text bool) {
	if u := &chunk.Usage; chunk.JSON.Usage.Valid() {
		a.usage = model.Usage{
			InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens,
			CacheReadTokens: u.PromptTokensDetails.CachedTokens, CacheWriteTokens: u.PromptTokensDetails.CacheWriteTokens,
		}
	}
	for i := range chunk.Choices {
		choice := &chunk.Choices[i]
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		a.text.WriteString(choice.Delta.Content)
		a.refusal.WriteString(choice.Delta.Refusal)
		for j := range choice.Delta.ToolCalls {
			a.call(&choice.Delta.ToolCalls[j])
		}
		if choice.FinishReason != "" {
			a.reason = choice.FinishReason
		}
		text = text || choice.Delta.Content != ""
	}
	return text
}

// call adds a part of a call.
func (a *answer) call(part *sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	var c *call
	for _, known := range a.calls {
		if known.index == part.Index && (part.ID == "" || known.id == "" || part.ID == known.id) {
			c = known
		}
	}
	if c == nil {
		c = &call{index: part.Index}
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = part.ID
	}
	if c.name == "" {
		c.name = part.Function.Name
	}
	c.arguments.WriteString(part.Function.Arguments)
}

// answer is what there is so far.
func (a *answer) answer() *provider.Answer {
	out := &provider.Answer{Text: a.text.String(), Usage: a.usage}
	for _, c := range a.calls {
		out.Calls = append(out.Calls, provider.Call{ID: c.id, Name: c.name, Arguments: c.arguments.String()})
	}
	switch a.reason {
	case "stop", "tool_calls", "function_call", "":
		if a.refusal.Len() > 0 {
			out.Stop, out.Why = provider.StopRefused, a.refusal.String()
		}
	case "length":
		out.Stop = provider.StopLength
	case "content_filter":
		out.Stop, out.Why = provider.StopRefused, "a filter of the provider stopped the answer"
	default:
		out.Stop, out.Why = provider.StopOther, a.reason
	}
	return out
}
