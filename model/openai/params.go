package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// params makes the request. own says that it goes to OpenAI itself.
func params(c *provider.Conversation, own bool) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         c.Model,
		Messages:      []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage(c.System)},
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	for i := range c.Turns {
		p.Messages = append(p.Messages, messages(&c.Turns[i])...)
	}
	for _, t := range c.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: t.Schema}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if c.Schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "result", Schema: c.Schema, Strict: sdk.Bool(strict(c.Schema))},
		}
	}
	switch {
	case own:
		p.PromptCacheKey = sdk.String(string(c.Thread))
		if c.MaxTokens > 0 {
			p.MaxCompletionTokens = sdk.Int(c.MaxTokens)
		}
	case c.MaxTokens > 0:
		p.MaxTokens = sdk.Int(c.MaxTokens)
	}
	return p
}

// messages makes the messages of a turn: one for each result, and one for its texts or what the model said
// and called.
func messages(t *provider.Turn) (list []sdk.ChatCompletionMessageParamUnion) {
	text := strings.Join(t.Texts, "\n\n")
	if t.Role == model.RoleUser {
		for _, r := range t.Results {
			if r.Error {
				r.Text = "Error: " + r.Text // the API has no other way to say so
			}
			list = append(list, sdk.ToolMessage(r.Text, r.Call))
		}
		if text != "" {
			list = append(list, sdk.UserMessage(text))
		}
		return list
	}
	m := sdk.ChatCompletionAssistantMessageParam{}
	if text != "" {
		m.Content.OfString = sdk.String(text)
	}
	for _, call := range t.Calls {
		m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: string(call.Arguments)},
			},
		})
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &m}}
}

// strict reports whether the API can enforce a schema: every object in it is closed and requires all of its
// properties. Of the keywords that it does not take, the API itself tells.
func strict(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			if !strict(part) {
				return false
			}
		}
	case map[string]any:
		if v["type"] == "object" || v["properties"] != nil {
			properties, _ := v["properties"].(map[string]any)
			required, _ := v["required"].([]any)
			if v["additionalProperties"] != false || len(required) != len(properties) {
				return false
			}
		}
		for _, part := range v {
			if !strict(part) {
				return false
			}
		}
	}
	return true
}
