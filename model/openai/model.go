package openai

import (
	"context"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// Prefix is what the names of the models begin with.
const Prefix = "openai/"

// A Config is that of all providers. Without MaxTokens an answer may be as long as the server lets it.
type Config = provider.Config

// A Model takes steps with whichever model a request names.
type Model struct {
	client *provider.Client
	chat   sdk.ChatCompletionService
}

// New makes a Model. A key or an address that can't be one is a schema_violation; no key at all is told by
// Step.
func New(c Config) (*Model, error) {
	if strings.TrimRight(c.BaseURL, "/") == "https://api.openai.com/v1" {
		c.BaseURL = "" // the provider's own
	}
	client, err := provider.New("openai", "OPENAI_API_KEY", c)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithHTTPClient(client.HTTP()),
		option.WithMaxRetries(0), // the client tries again, also when a stream breaks
	}
	if client.Key != "" {
		options = append(options, option.WithAPIKey(client.Key))
	}
	if client.BaseURL != "" {
		options = append(options, option.WithBaseURL(client.BaseURL))
	} else {
		options = append(options, option.WithEnvironmentProduction())
	}
	return &Model{client: client, chat: sdk.NewChatCompletionService(options...)}, nil
}

// Step takes a step. Package provider says how it fails.
func (m *Model) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	return m.client.Step(ctx, r, m.send)
}
