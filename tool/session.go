package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupehq/troupe/actor"
)

const (
	// exitTime is how long a command may take to end once its input is closed, and again after SIGTERM.
	exitTime = 2 * time.Second
	// outputTime is how long its output is read after it has ended: a child of its own may hold it open.
	outputTime = time.Second
)

// A session is a running server.
type session struct {
	mcp    *mcp.ClientSession
	ended  chan struct{} // closed once the server has closed the session, or close was called
	broken chan string   // why a call found the session unusable
	after  func()        // what is to be done when the session is closed

	mu     sync.Mutex
	closed bool
	next   uint64
	calls  map[uint64]context.CancelCauseFunc // those under way
}

// errLost is why the calls end that are under way when their session is closed.
var errLost = errors.New("the session was closed")

// enter notes a call, which close ends: closing waits for calls, and some wait for ever. It reports false when it is
// too late for a call.
func (s *session) enter(cancel context.CancelCauseFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	n := s.next
	s.next++
	s.calls[n] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, n)
	}, true
}

// endCalls ends the calls that are under way, and refuses others.
func (s *session) endCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, cancel := range s.calls {
		cancel(errLost)
	}
}

// start starts the server, or connects to it, and lists its tools.
func (k *keeper) start(ctx context.Context) (*session, *offer, error) {
	limit := orDefault(k.StartTimeout)
	starting, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within %v", limit))
	defer cancel()
	transport, after, err := k.transport()
	if err != nil {
		return nil, nil, k.fail(actor.Unavailable, err)
	}
	seen := &keeping{Transport: transport}
	connected, err := k.client.Connect(starting, seen, nil)
	if err != nil {
		if seen.conn != nil {
			_ = seen.conn.Close() // that it did not start well has been said
		}
		after()
		return nil, nil, k.startError(starting, err)
	}
	s := &session{mcp: connected, ended: make(chan struct{}), broken: make(chan string, 1), after: after, calls: map[uint64]context.CancelCauseFunc{}}
	go func() {
		defer close(s.ended)
		_ = connected.Wait() // how it ended is not told apart
	}()
	o, err := k.list(starting, s)
	if err != nil {
		s.close()
		return nil, nil, k.startError(starting, err)
	}
	return s, o, nil
}

func (k *keeper) startError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return k.fail(actor.Unavailable, fmt.Errorf("it did not start: %w", err))
}

// close ends the session, and with it the server if it is a command of ours. It returns when that has ended.
func (s *session) close() {
	s.endCalls()
	_ = s.mcp.Close() // it may have ended before, or ends by force; there is no more to do about it
	<-s.ended
	s.after()
}

// keeping remembers the connection of a transport: the client does not close it on every path on which it fails.
type keeping struct {
	mcp.Transport
	conn mcp.Connection
}

// Connect implements [mcp.Transport].
func (t *keeping) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	t.conn = conn
	return conn, err
}

// transport makes the way to the server, and what is to be done when it is no longer used.
func (k *keeper) transport() (t mcp.Transport, after func(), err error) {
	if k.URL != "" {
		client, own, err := k.httpClient(k.header)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.StreamableClientTransport{Endpoint: k.URL, HTTPClient: client}, own.CloseIdleConnections, nil
	}
	cmd := exec.Command(k.Command[0], k.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = k.env, k.Dir, outputTime
	cmd.Stderr = &lineLog{write: func(line string) { k.log.Debug().Str("stderr", k.hide.Replace(line)).Msg("an MCP server says") }}
	ownGroup(cmd)
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: exitTime}, func() { endGroup(cmd) }, nil
}

// A lineLog passes on what is written to it line by line, with long lines cut.
type lineLog struct {
	write func(line string)
	rest  []byte
}

const maxLine = 4 << 10

// Write implements [io.Writer].
func (l *lineLog) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c == '\n':
			l.write(strings.ToValidUTF8(string(l.rest), "�"))
			l.rest = l.rest[:0]
		case len(l.rest) < maxLine:
			l.rest = append(l.rest, c)
		}
	}
	return len(p), nil
}

// A remote is a tool of an MCP server.
type remote struct {
	keeper *keeper
	name   string // as the server knows it
	full   Description
}

// remote makes a tool of what a server lists. Where its schema is beyond us, the server alone checks arguments.
func (k *keeper) remote(t *mcp.Tool, name string) (*guarded, error) {
	text, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, err
	}
	if string(text) == "null" {
		text = anything
	}
	compiled, err := compile(text)
	if err != nil {
		k.log.Warn().Str("tool", name).Str("why", k.words(err)).Msg("the schema of an MCP server's tool can't be used: the server checks alone")
		compiled = nil
	}
	d := Description{Name: name, Description: t.Description, Schema: text}
	return &guarded{tool: &remote{k, t.Name, d}, description: d, schema: compiled, limit: k.limit, log: k.log}, nil
}

// Describe implements [Tool].
func (r *remote) Describe() Description { return r.full }

// Call implements [Tool].
func (r *remote) Call(ctx context.Context, c Call) (Result, error) {
	k := r.keeper
	limit := orDefault(k.Timeout)
	calling, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	s, err := k.session(calling)
	if err != nil {
		return Result{}, err
	}
	calling, lose := context.WithCancelCause(calling)
	defer lose(nil)
	leave, ok := s.enter(lose)
	if !ok {
		return Result{}, k.fail(actor.Unavailable, errLost)
	}
	defer leave()
	res, err := s.mcp.CallTool(calling, &mcp.CallToolParams{
		Name: r.name, Arguments: c.Arguments, Meta: mcp.Meta{"troupe/call": c.ID, "troupe/thread": string(c.Thread), "troupe/session": c.Session},
	})
	if err != nil {
		return Result{}, k.callError(calling, s, err)
	}
	k.succeeded()
	return resultOf(res)
}

// callError tells an answer from a silence. A session that gave no answer is not used again.
func (k *keeper) callError(ctx context.Context, s *session, err error) error {
	var answer *jsonrpc.Error
	lost := errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(context.Cause(ctx), errLost)
	switch {
	case ctx.Err() != nil && !lost:
		return k.fail(actor.Timeout, context.Cause(ctx))
	case errors.As(err, &answer) && !lost:
		k.succeeded()
		kind := actor.RuntimeError
		if answer.Code == jsonrpc.CodeInvalidParams {
			kind = actor.SchemaViolation
		}
		return k.fail(kind, err)
	}
	k.lose(s, k.words(err))
	if text := err.Error(); strings.Contains(text, errMessage.Error()) || strings.Contains(text, "maximum line length") { // the SDK's has no value
		return k.fail(actor.TooLarge, errMessage)
	}
	return k.fail(actor.Unavailable, fmt.Errorf("it was lost during the call, which may have been made: %w", err))
}
