package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// lookback is how many blocks before a mark the API looks for an earlier one.
const lookback = 20

// params makes the request.
func params(c *provider.Conversation) sdk.MessageNewParams {
	mark := sdk.NewCacheControlEphemeralParam()
	p := sdk.MessageNewParams{
		Model:        c.Model,
		MaxTokens:    c.MaxTokens,
		System:       []sdk.TextBlockParam{{Text: c.System, CacheControl: mark}},
		CacheControl: mark,
		Messages:     make([]sdk.MessageParam, 0, len(c.Turns)),
	}
	for i := range c.Turns {
		p.Messages = append(p.Messages, message(&c.Turns[i]))
	}
	if n := len(c.Turns); n > 2 && size(&c.Turns[n-1])+size(&c.Turns[n-2]) >= lookback {
		content := p.Messages[n-3].OfUser.Content
		*content[len(content)-1].GetCacheControl() = mark
	}
	for _, t := range c.Tools {
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Schema)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	if c.Schema != nil {
		p.OutputConfig.Format.Schema = closed(c.Schema)
	}
	return p
}

// closed makes a schema one that the API enforces: its objects are closed, and keywords that the API does not
// take become descriptions. One that the SDK can't read goes as it is: the API says what is wrong with it.
func closed(schema map[string]any) map[string]any {
	if c, ok := sdk.BetaJSONSchemaOutputFormat(schema).Schema.(map[string]any); ok && c != nil {
		return c
	}
	return schema
}

// size is how many blocks a turn has.
func size(t *provider.Turn) int { return len(t.Results) + len(t.Texts) + len(t.Calls) }

// message makes a message of a turn: results, texts, calls, of which a turn of either side has two at most.
func message(t *provider.Turn) sdk.MessageParam {
	blocks := make([]sdk.ContentBlockParamUnion, 0, size(t))
	for _, r := range t.Results {
		blocks = append(blocks, sdk.NewToolResultBlock(r.Call, r.Text, r.Error))
	}
	for _, text := range t.Texts {
		blocks = append(blocks, sdk.NewTextBlock(text))
	}
	for _, call := range t.Calls {
		blocks = append(blocks, sdk.NewToolUseBlock(call.ID, json.RawMessage(call.Arguments), call.Name))
	}
	if t.Role == model.RoleAssistant {
		return sdk.NewAssistantMessage(blocks...)
	}
	return sdk.NewUserMessage(blocks...)
}
