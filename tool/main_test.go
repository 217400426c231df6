package tool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
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
	switch os.Getenv(mode) {
	case "broken":
		fmt.Fprintln(os.Stderr, "the secret is", os.Getenv("SECRET"))
		return 3
	case "child":
		return listen()
	}
	if err := testServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// listen is a process that would live for ever: whoever connects learns of its end.
func listen() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println(l.Addr())
	for {
		if _, err := l.Accept(); err != nil {
			return 1
		}
	}
}

// child starts such a process, which holds our output open, and gives its address.
func child() string {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = []string{mode + "=child"}, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

type nothing struct{}

// testServer offers tools of all kinds.
func testServer() *mcp.Server {
	opts := &mcp.ServerOptions{}
	if os.Getenv(mode) == "old" {
		opts.SupportedProtocolVersions = []string{"2025-06-18"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, opts)
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
	text("child", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return say(child()) })
	text("die", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { os.Exit(7); return nil })
	var hanging atomic.Int64
	text("hanging", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		return say(fmt.Sprint(hanging.Load()))
	})
	text("hang", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult {
		hanging.Add(1)
		defer hanging.Add(-1)
		<-ctx.Done()
		return say("cancelled")
	})
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
	text("huge", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		return say(strings.Repeat("x", 17<<20))
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
