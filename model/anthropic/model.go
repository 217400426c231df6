package anthropic

import (
	"context"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/provider"
)

// Prefix is what the names of the models begin with.
const Prefix = "anthropic/"

// DefaultMaxTokens is how many tokens an answer may have. It is within the limit of every model since Claude 4.
const DefaultMaxTokens = 32_000

// A Config is that of all providers.
type Config = provider.Config

// A Model takes steps with whichever of Anthropic's models a request names.
type Model struct {
	client   *provider.Client
	messages sdk.MessageService
}

// New makes a Model. A key or an address that can't be one is a schema_violation; no key at all is told by
// Step.
func New(c Config) (*Model, error) {
	if strings.TrimRight(c.BaseURL, "/") == "https://api.anthropic.com" {
		c.BaseURL = "" // the provider's own
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = DefaultMaxTokens
	}
	client, err := provider.New("anthropic", "ANTHROPIC_API_KEY", c)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithEnvironmentProduction(),
		option.WithHTTPClient(client.HTTP()),
		option.WithMaxRetries(0), // the client tries again, also when a stream breaks
		option.WithoutOpenTelemetry(),
	}
	if client.Key != "" {
		options = append(options, option.WithAPIKey(client.Key))
	}
	if client.BaseURL != "" {
		options = append(options, option.WithBaseURL(client.BaseURL))
	}
	return &Model{client: client, messages: sdk.NewMessageService(options...)}, nil
}

// Step takes a step. Package provider says how it fails.
func (m *Model) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	return m.client.Step(ctx, r, m.send)
}
