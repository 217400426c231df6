package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupehq/troupe/test/natstest"
)

// mode is the variable that makes this program an MCP server: the tests run it as one.
const mode = "TROUPE_TEST_MCP"

func TestMain(m *testing.M) {
	if os.Getenv(mode) != "" {
		os.Exit(serveMCP())
	}
	natstest.Main(m)
}

// serveMCP is the MCP server that tests run.
func serveMCP() int {
	if strings.Contains(os.Getenv(mode), "broken") {
		fmt.Fprintln(os.Stderr, "the secret is", os.Getenv("SECRET"))
		return 3
	}
	if err := testServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

type nothing struct{}

// testServer offers tools of all kinds.
func testServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	text := func(name string, do func(ctx context.Context, r *mcp.CallToolRequest) *mcp.CallToolResult) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "the tool " + name}, func(ctx context.Context, r *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
			return do(ctx, r), nil, nil
		})
	}
	say := func(words ...string) *mcp.CallToolResult {
		r := &mcp.CallToolResult{}
		for _, w := range words {
			r.Content = append(r.Content, &mcp.TextContent{Text: w})
		}
		return r
	}
	text("pid", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say(fmt.Sprint(os.Getpid())) })
	text("lines", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("one", "two") })
	text("env", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		env := os.Environ()
		slices.Sort(env)
		return say(strings.Join(env, "\n"))
	})
	text("meta", func(_ context.Context, r *mcp.CallToolRequest) *mcp.CallToolResult {
		return say(fmt.Sprint(r.Params.Meta["troupe/call"], " ", r.Params.Meta["troupe/thread"], " ", r.Params.Meta["troupe/session"]))
	})
	text("die", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { os.Exit(7); return nil })
	text("hang", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult { <-ctx.Done(); return nil })
	text("fails", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		r := say("no such city")
		r.IsError = true
		return r
	})
	text("picture", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		r := say("look:")
		r.Content = append(r.Content, &mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG")})
		return r
	})
	text("large", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		return say(strings.Repeat("x", 1<<20))
	})
	text("exact", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		r := say(`{"n":12345678901234567890}`)
		r.StructuredContent = json.RawMessage(`{"n":12345678901234567890}`)
		return r
	})
	text("a.b", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("dot") })
	text("twice.same", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("") })
	text("twice/same", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("") })
	text(strings.Repeat("long", 20), func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("") })
	text("grow", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		text("grown", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say("I am new") })
		return say("there is more now")
	})
	type place struct {
		City string `json:"city"`
		Days int    `json:"days,omitempty"`
	}
	type forecast struct {
		City string `json:"city"`
		Sun  bool   `json:"sun"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "weather", Description: "tells the weather"}, func(_ context.Context, _ *mcp.CallToolRequest, p place) (*mcp.CallToolResult, forecast, error) {
		return nil, forecast{p.City, true}, nil
	})
	return s
}
