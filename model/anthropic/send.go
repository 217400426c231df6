package anthropic

import (
	"context"
	"errors"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// send gets an answer.
func (m *Model) send(ctx context.Context, c *provider.Conversation, say func(string)) (*provider.Answer, error) {
	stream := m.messages.NewStreaming(ctx, params(c))
	defer stream.Close()
	var got answer
	for stream.Next() {
		event := stream.Current()
		got.take(&event)
		if event.Type == "content_block_delta" && event.Delta.Type == "text_delta" {
			say(got.text.String())
		}
	}
	if err := stream.Err(); err != nil {
		return got.answer(), failure(err)
	}
	if !got.whole {
		return got.answer(), provider.Broken()
	}
	return got.answer(), nil
}

// failure gives an error of the SDK, which may be one that the API broke the stream off with.
func failure(err error) error {
	var api *sdk.Error
	if errors.As(err, &api) {
		return provider.Told([]byte(api.RawJSON()))
	}
	return err
}

// stop is why a message ends.
func stop(reason sdk.StopReason) provider.Stop {
	switch reason {
	case sdk.StopReasonEndTurn, sdk.StopReasonToolUse, sdk.StopReasonStopSequence:
		return provider.StopEnd
	case sdk.StopReasonMaxTokens:
		return provider.StopLength
	case sdk.StopReasonModelContextWindowExceeded:
		return provider.StopContext
	case sdk.StopReasonRefusal:
		return provider.StopRefused
	}
	return provider.StopOther
}

// usageOf counts the cached tokens as input, as the API does not.
func usageOf(u *counts) model.Usage {
	return model.Usage{
		InputTokens:      u.input + u.read + u.write,
		OutputTokens:     u.output,
		CacheReadTokens:  u.read,
		CacheWriteTokens: u.write,
	}
}
