package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/tool"
)

const mcpLong = `Serve the Model Context Protocol on stdin and stdout, so that any MCP client can use Troupe as
its back end for subagents: tools to spawn, delegate, await, send, list, cancel, terminate and
merge, and to answer what subagents ask a person. It ends when its stdin does.

It works with a troupe that runs, at --nats or --context. With --embedded it runs a server and a host
of its own, which nobody else can connect to, in a temporary store unless --store names one.`

const mcpInstructions = `Troupe runs subagents that work in parallel and survive restarts. Make one with subagent_spawn, give it a task with subagent_delegate, get the result with subagent_await. Delegate to all of several before you await the first. Results of several are combined by subagent_merge.`

// beatEvery is how often a call that waits says so, to a client that wants to know: many give up on a call that
// is silent for a minute.
const beatEvery = 10 * time.Second

// mcpFlags are the flags of mcp.
type mcpFlags struct {
	agent, store string
	embedded     bool
}

func (a *app) mcpCommand() *cobra.Command {
	var m mcpFlags
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Serve subagents as MCP tools, on stdin and stdout",
		Long:    mcpLong,
		Example: "  troupe mcp --agent editor --nats nats://127.0.0.1:4222\n  troupe mcp --embedded --store ~/.local/share/troupe",
		Args:    takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if m.store != "" && !m.embedded {
				return usage(errors.New("--store is for --embedded"))
			}
			err := a.mcp(ctx, &m)
			if ctx.Err() != nil {
				return nil // this is how it may end
			}
			return err
		}),
	}
	a.where(cmd, "URL of the NATS server (default $NATS_URL, else nats://127.0.0.1:4222)")
	f := cmd.Flags()
	f.StringVar(&m.agent, "agent", "mcp", "who is asking: the agent whose subagents these are")
	f.BoolVar(&m.embedded, "embedded", false, "run a server and a host in this process")
	f.StringVar(&m.store, "store", "", "with --embedded: directory of the server's store (default: a temporary one, removed at the end)")
	exclude(cmd, "embedded", "nats", "context")
	return cmd
}

// mcp serves until stdin or ctx ends.
func (a *app) mcp(ctx context.Context, m *mcpFlags) error {
	names, err := a.names()
	if err != nil {
		return err
	}
	if !m.embedded {
		conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Name: "troupe mcp " + m.agent})
		if err != nil {
			return err
		}
		defer conn.Close()
		return serveMCP(ctx, conn, names, m.agent)
	}
	var s stage
	if err = s.set(ctx, a, names, &runFlags{name: m.agent, store: m.store}, 0); err == nil {
		err = serveMCP(ctx, s.conn, names, m.agent)
	}
	return errors.Join(err, s.close())
}

// serveMCP serves on stdin and stdout.
func serveMCP(ctx context.Context, conn *bus.Conn, names subjects.Names, agent string) error {
	c, err := newClient(conn, names, agent)
	if err != nil {
		return err
	}
	server, err := newMCPServer(ctx, c, beatEvery)
	if err != nil {
		return err
	}
	return server.Run(ctx, &mcp.StdioTransport{})
}

// newMCPServer makes a server of the subagent tools. Their calls end with ctx at the latest.
func newMCPServer(ctx context.Context, c *client.Client, every time.Duration) (*mcp.Server, error) {
	tools, names, err := subagentTools(c)
	if err != nil {
		return nil, err
	}
	described, err := tools.Describe(ctx, names)
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "troupe", Title: "Troupe", Version: version},
		&mcp.ServerOptions{Instructions: mcpInstructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	for _, d := range described {
		server.AddTool(&mcp.Tool{Name: d.Name, Description: d.Description, InputSchema: d.Schema},
			func(calling context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				calling, cancel := context.WithCancel(calling)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)() // a server that is closed waits for its calls
				defer beat(calling, r, every)()
				result, err := tools.Call(calling, r.Params.Name, tool.Call{Arguments: r.Params.Arguments})
				if err != nil {
					return nil, err
				}
				return mcpResult(result), nil
			})
	}
	return server, nil
}

// mcpResult is a result as MCP has it: as text for all clients, and as JSON for those that read it.
func mcpResult(r tool.Result) *mcp.CallToolResult {
	text := string(r.Content)
	if r.IsError {
		text = told(r.Content)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: text}},
		StructuredContent: json.RawMessage(r.Content),
		IsError:           r.IsError,
	}
}

// beat tells a client that wants to know, again and again, that its call is still under way, until stop.
func beat(ctx context.Context, r *mcp.CallToolRequest, every time.Duration) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// A client that is gone shows at the answer.
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: "still waiting"})
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
