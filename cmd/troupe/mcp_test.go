package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
)

// A mcpClient is a client of "troupe mcp".
type mcpClient struct {
	t testing.TB
	*mcp.ClientSession
}

// dialMCP connects the SDK's own client.
func dialMCP(t testing.TB, to mcp.Transport, opts *mcp.ClientOptions) mcpClient {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(natstest.Context(t), to, nil)
	if err != nil {
		t.Fatalf("connect to troupe mcp: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() }) // a test may have closed it, or killed the process
	return mcpClient{t, session}
}

// runMCP runs the program, and connects to it.
func runMCP(t testing.TB, args ...string) mcpClient {
	t.Helper()
	cmd := command(t, append([]string{"mcp"}, args...)...)
	log := &lines{}
	cmd.Stderr = log
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stderr of mcp: %s", log)
		}
	})
	return dialMCP(t, &mcp.CommandTransport{Command: cmd}, nil)
}

// call calls a tool and gives the result, and its text.
func (c mcpClient) call(name, arguments string) (*mcp.CallToolResult, string) {
	c.t.Helper()
	res, err := c.CallTool(natstest.Context(c.t), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		c.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok || len(res.Content) != 1 {
		c.t.Fatalf("%s answered with %v, want one text", name, res.Content)
	}
	return res, text.Text
}

// gives wants words in an answer, and gives the answer.
func (c mcpClient) gives(name, arguments string, words ...string) string {
	c.t.Helper()
	res, text := c.call(name, arguments)
	if res.IsError {
		c.t.Fatalf("%s %s failed: %s", name, arguments, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.t.Errorf("%s %s gave %s, want %s in it", name, arguments, text, word)
		}
	}
	return text
}

// refuses wants an error of a tool.
func (c mcpClient) refuses(name, arguments, code string, words ...string) {
	c.t.Helper()
	res, text := c.call(name, arguments)
	is, _ := res.StructuredContent.(map[string]any)
	if !res.IsError || is["code"] != code || !strings.HasPrefix(text, code+": ") {
		c.t.Errorf("%s %s gave %s (an error: %v), want the error %s", name, arguments, text, res.IsError, code)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			c.t.Errorf("%s %s says %q, want %q in it", name, arguments, text, word)
		}
	}
}

// spawn makes a subagent and gives its id.
func (c mcpClient) spawn(model, metadata string) string {
	c.t.Helper()
	text := c.gives("subagent_spawn", fmt.Sprintf(`{"agent":{"name":"s","model":%q,"metadata":%s}}`, model, metadata))
	var is a2e.SpawnResp
	if err := json.Unmarshal([]byte(text), &is); err != nil || is.SubagentID == "" || is.Status != a2e.Ready {
		c.t.Fatalf("spawn gave %s, %v", text, err)
	}
	return string(is.SubagentID)
}

func TestMCPWork(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := runMCP(t, "--nats", f.url, "--agent", "editor")
	one, two := c.spawn("builtin/echo", `{}`), c.spawn("builtin/script", `{"script":[{"result":{"answer":42}}]}`)
	for _, id := range []string{one, two} {
		c.gives("subagent_delegate", fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"hello"}}`, id), `"accepted":true`)
	}
	c.gives("subagent_await", fmt.Sprintf(`{"subagent_id":%q}`, one), `"status":"COMPLETED"`, `"output":"hello"`)
	text := c.gives("subagent_await", fmt.Sprintf(`{"mode":"all","subagent_ids":[%q,%q]}`, one, two), `"answer":42`)
	if strings.Contains(text, `"req_id"`) || strings.Contains(text, `"ts"`) {
		t.Errorf("the answer has an envelope: %s", text)
	}
	c.gives("subagent_send", fmt.Sprintf(`{"to_subagent_id":%q,"message":{"type":"text","content":"a note"}}`, one), `"delivered":true`)
	c.gives("subagent_list", `{}`, one, two)
	if text := c.gives("subagent_list", `{"status":["READY"]}`); strings.Contains(text, one) {
		t.Errorf("those that are READY: %s", text)
	}
	c.gives("subagent_merge", fmt.Sprintf(`{"subagent_ids":[%q,%q],"strategy":"voting"}`, one, two), `"strategy":"voting"`)
	c.gives("subagent_cancel", fmt.Sprintf(`{"subagent_id":%q}`, one), `"changed":false`)
	c.gives("subagent_terminate", fmt.Sprintf(`{"subagent_id":%q}`, one), `TERMINATED`)
	if got := f.ask("ls", "--agent", "editor").succeeds(t); !strings.Contains(got, one) {
		t.Errorf("troupe ls --agent editor does not show %s:\n%s", one, got)
	}
}

func TestMCPRefuses(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := runMCP(t, "--nats", f.url)
	c.refuses("subagent_await", `{"subagent_id":"sub_00000000"}`, "not_found")
	c.refuses("subagent_await", `{}`, "schema_violation", "subagent_id")
	c.refuses("subagent_await", `{"subagent_ids":["sub_00000000"]}`, "not_found")
	c.refuses("subagent_spawn", `{"agent":{"name":"s"}}`, "schema_violation", "model")
	c.refuses("subagent_spawn", `{"agent":{"name":"s","model":"builtin/echo"},"parent_agent_id":"sub_00000000"}`, "not_found", "parent_agent_id")
	c.refuses("subagent_spawn", `{"agent":{"name":"s","model":"builtin/echo"},"timeout":5}`, "schema_violation", "timeout")
	c.refuses("subagent_merge", `{"subagent_ids":["a"],"strategy":"none"}`, "schema_violation", "strategy")
	busy := c.spawn("builtin/script", `{"script":[{"sleep_ms":600000}]}`)
	task := fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"x"}}`, busy)
	c.gives("subagent_delegate", task, `"accepted":true`)
	c.gives("subagent_delegate", task, `"accepted":false`)
	c.refuses("subagent_await", fmt.Sprintf(`{"subagent_id":%q,"timeout_seconds":0.05}`, busy), "timeout")
	if _, err := c.CallTool(natstest.Context(t), &mcp.CallToolParams{Name: "none"}); err == nil {
		t.Error("a tool that does not exist was called")
	}
}

// Every tool that is described can be called with what its schema asks for: the protocol knows the same fields.
func TestMCPToolsMatchTheProtocol(t *testing.T) {
	t.Parallel()
	var all []*subagentTool
	if err := json.Unmarshal(mcpTools, &all); err != nil {
		t.Fatal(err)
	}
	full := map[string]string{
		"subagent_spawn": `{"agent":{"name":"s","model":"m","role":"r","system_prompt":"p","capabilities":["tools"],"memory_scope":"isolated","tool_scope":"shared",
			"max_steps":1,"timeout_seconds":1,"metadata":{},"idle_timeout_seconds":1,"budget":{"tokens":1,"usd":0.5,"steps":1,"seconds":1}},"parent_agent_id":"sub_1"}`,
		"subagent_delegate":  `{"subagent_id":"a","task":{"name":"t","instruction":"i","success_criteria":["c"],"metadata":{}}}`,
		"subagent_await":     `{"subagent_ids":["a","b"],"mode":"quorum","quorum":2,"timeout_seconds":1.5}`,
		"subagent_send":      `{"to_subagent_id":"a","from_subagent_id":"b","message":{"type":"t","content":null,"metadata":{}}}`,
		"subagent_list":      `{"status":["READY"],"parent_agent_id":"a","limit":1,"cursor":"c"}`,
		"subagent_cancel":    `{"subagent_id":"a"}`,
		"subagent_terminate": `{"subagent_id":"a"}`,
		"subagent_merge":     `{"subagent_ids":["a"],"strategy":"custom:x"}`,
	}
	all = slices.DeleteFunc(all, func(one *subagentTool) bool { return one.about.Type == "inbox" || one.about.Type == "answer" }) // no requests of the protocol
	if len(all) != len(full) {
		t.Errorf("%d tools are described, want %d", len(all), len(full))
	}
	for _, it := range all {
		arguments := full[it.about.Name]
		req, err := it.request(json.RawMessage(arguments))
		if err != nil {
			t.Errorf("%s %s: %v", it.about.Name, arguments, err)
			continue
		}
		written, err := a2e.Encode(req)
		if err != nil {
			t.Fatal(err)
		}
		var properties struct{ Properties map[string]any }
		if err := json.Unmarshal(it.about.Schema, &properties); err != nil {
			t.Fatal(err)
		}
		for field := range properties.Properties {
			if !strings.Contains(string(written), `"`+field+`"`) && field != "subagent_id" {
				t.Errorf("%s: the field %s of the schema is none of the request: %s", it.about.Name, field, written)
			}
		}
	}
}

// A request that is cancelled ends the wait, and nothing else.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := runMCP(t, "--nats", f.url)
	busy := c.spawn("builtin/script", `{"script":[{"sleep_ms":600000}]}`)
	c.gives("subagent_delegate", fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"x"}}`, busy))
	ctx, cancel := context.WithCancel(natstest.Context(t))
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "subagent_await", Arguments: json.RawMessage(fmt.Sprintf(`{"subagent_id":%q}`, busy))})
		ended <- err
	}()
	c.gives("subagent_list", `{}`, `RUNNING`)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a wait that was cancelled gave an answer")
	}
	c.gives("subagent_list", `{}`, `RUNNING`)
}

func TestMCPEmbedded(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	c := runMCP(t, "--embedded", "--store", store)
	id := c.spawn("builtin/echo", `{}`)
	c.gives("subagent_delegate", fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"hello"}}`, id))
	c.gives("subagent_await", fmt.Sprintf(`{"subagent_id":%q}`, id), `"output":"hello"`)
	if err := c.Close(); err != nil {
		t.Fatalf("troupe mcp did not end well with its stdin: %v", err)
	}
	again := runMCP(t, "--embedded", "--store", store)
	again.gives("subagent_await", fmt.Sprintf(`{"subagent_id":%q}`, id), `"output":"hello"`)
}

func TestMCPUsedWrongly(t *testing.T) {
	t.Parallel()
	troupe(t, "mcp").fails(t, exitUnreachable, "nats://127.0.0.1:1")
	troupe(t, "mcp", "--embedded", "--nats", "nats://127.0.0.1:1").fails(t, exitUsage, "exclude")
	troupe(t, "mcp", "--store", "x").fails(t, exitUsage, "--embedded")
	troupe(t, "mcp", "--embedded", "--agent", "").fails(t, exitUsage, "agent")
}

// stdout has the protocol and nothing else, and a signal ends a server that is waiting.
func TestMCPStdout(t *testing.T) {
	t.Parallel()
	cmd := command(t, "mcp", "--embedded")
	in, out, errs := pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	d := json.NewDecoder(out)
	hear := func(id string) map[string]json.RawMessage {
		for {
			var m map[string]json.RawMessage
			if err := d.Decode(&m); err != nil {
				t.Fatalf("stdout is not the protocol: %v\n%s", err, errs)
			}
			if string(m["jsonrpc"]) != `"2.0"` {
				t.Fatalf("stdout has %v, want JSON-RPC alone", m)
			}
			if string(m["id"]) == id {
				return m
			}
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	hear("1")
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"subagent_spawn","arguments":{"agent":{"name":"s","model":"builtin/script","metadata":{"script":[{"sleep_ms":600000}]}}}}}`)
	var spawned struct{ StructuredContent a2e.SpawnResp }
	if err := json.Unmarshal(hear("2")["result"], &spawned); err != nil {
		t.Fatal(err)
	}
	id := spawned.StructuredContent.SubagentID
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"subagent_delegate","arguments":{"subagent_id":%q,"task":{"name":"t","instruction":"x"}}}}`, id))
	hear("3")
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"subagent_await","arguments":{"subagent_id":%q}}}`, id))
	say(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	hear("5")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || errs.String() != "" {
		t.Errorf("after SIGTERM it ended with %v and said %q, want 0 and nothing", err, errs)
	}
}

func pipes(t testing.TB, cmd *exec.Cmd) (in io.Writer, out io.Reader, errs *lines) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	errs = &lines{}
	cmd.Stderr = errs
	return in, out, errs
}

// A call that waits says so, to a client that wants to know.
func TestMCPProgress(t *testing.T) {
	t.Parallel()
	tr := natstest.StartTroupe(t, host.Config{})
	c, err := client.New(client.Config{Conn: tr.Conn, Names: tr.Names, Agent: "editor"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(natstest.Context(t))
	defer cancel()
	server, err := newMCPServer(ctx, c, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	here, there := mcp.NewInMemoryTransports()
	serving := make(chan error, 1)
	go func() { serving <- server.Run(ctx, there) }()
	beats := make(chan struct{}, 100)
	session := dialMCP(t, here, &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
		select {
		case beats <- struct{}{}:
		default:
		}
	}})
	busy := session.spawn("builtin/script", `{"script":[{"sleep_ms":600000}]}`)
	session.gives("subagent_delegate", fmt.Sprintf(`{"subagent_id":%q,"task":{"name":"t","instruction":"x"}}`, busy))
	params := &mcp.CallToolParams{Name: "subagent_await", Arguments: json.RawMessage(fmt.Sprintf(`{"subagent_id":%q}`, busy))}
	params.SetProgressToken("p1")
	waiting, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = session.CallTool(waiting, params) // it is cancelled below
	}()
	for range 3 {
		select {
		case <-beats:
		case <-natstest.Context(t).Done():
			t.Fatal("no progress was told")
		}
	}
	stop()
	<-ended
	cancel()
	<-serving
}

// What a tool says of its failure is told as text and as JSON.
func TestMCPResult(t *testing.T) {
	t.Parallel()
	r := mcpResult(tool.Result{Content: json.RawMessage(`{"code":"not_found","message":"no such subagent"}`), IsError: true})
	text, err := r.Content[0].MarshalJSON()
	if err != nil || !r.IsError || !strings.Contains(string(text), "not_found: no such subagent") {
		t.Errorf("the result is %s, %v", text, err)
	}
}

// What a subagent asks a person is listed, and answered by a tool: once.
func TestMCPAnswers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.ask("agents", "apply", write(t, t.TempDir(), "gate.yaml", "name: approval_gate\ntitle: Gate\nsideA: {human: true}\n")).succeeds(t)
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connect(natstest.Context(t), bus.Config{URL: f.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	me, err := newClient(conn, names, "editor")
	if err != nil {
		t.Fatal(err)
	}
	id, err := me.Spawn(natstest.Context(t), client.SpawnRequest{Definition: "approval_gate"})
	if err != nil {
		t.Fatal(err)
	}
	c := runMCP(t, "--nats", f.url, "--agent", "editor")
	c.gives("subagent_inbox", `{}`, `{"requests":[]}`)
	f.ask("send", string(id), "may I?", "--open", "--agent", "editor").succeeds(t)
	var asked struct {
		Requests []struct {
			Request string `json:"request"`
			ID      string `json:"subagent_id"`
		} `json:"requests"`
	}
	natstest.Await(t, "the request is listed", func() bool {
		return json.Unmarshal([]byte(c.gives("subagent_inbox", `{}`)), &asked) == nil && len(asked.Requests) == 1
	})
	if asked.Requests[0].ID != string(id) {
		t.Errorf("%s asks, want %s", asked.Requests[0].ID, id)
	}
	answer := fmt.Sprintf(`{"request":%q,"content":"yes, go on"}`, asked.Requests[0].Request)
	c.gives("subagent_answer", answer, `"answered":true`)
	natstest.Await(t, "the subagent goes on", func() bool { return !strings.Contains(c.gives("subagent_inbox", `{}`), string(id)) })
	c.refuses("subagent_answer", answer, "conflict")
	c.refuses("subagent_answer", `{"request":"nonsense","content":1}`, "not_found")
	c.refuses("subagent_answer", `{"request":"x"}`, "schema_violation", "content")
}
