package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/tool"
)

// A callAt is where a tool was called, and by whom.
type callAt struct {
	actor.Lineage
	session  uint64
	config   a2e.SubagentConfig
	composed bool
}

// A scope is what a thread may use by the scopes that A2E gives it. It never changes.
type scope struct {
	space    actor.ID // of its memory
	snapshot string   // that the space begins as
	tools    []string // names, and beginnings of names with a "*"
}

// scopes remembers the scopes of threads.
type scopes struct {
	mu    sync.Mutex
	known map[actor.ID]scope
}

// scopeOf finds what a thread may use (DECISIONS S0.14). An agent outside has the memory space named after it, and the
// tools of the host's allow-list. A composed thread has its own space, and the tools that its prompts name.
func (h *Host) scopeOf(ctx context.Context, id actor.ID) (scope, error) {
	if !IsThread(id) {
		return scope{space: id, tools: h.Tools.Allow()}, nil
	}
	h.scopes.mu.Lock()
	s, ok := h.scopes.known[id]
	h.scopes.mu.Unlock()
	if ok {
		return s, nil
	}
	t, _, err := h.thread(ctx, id)
	if err != nil {
		return s, err
	}
	if s, err = h.scopeFor(ctx, t); err != nil {
		return s, err
	}
	h.scopes.mu.Lock()
	defer h.scopes.mu.Unlock()
	if len(h.scopes.known) >= maxLineages {
		clear(h.scopes.known)
	}
	h.scopes.known[id] = s
	return s, nil
}

func (h *Host) scopeFor(ctx context.Context, t *agent.Thread) (scope, error) {
	l, config := t.Lineage(), t.Config()
	if t.Composition() != nil {
		return scope{space: l.ID, tools: t.ToolNames()}, nil
	}
	parent := scope{space: l.ID}
	if l.Parent() != "" {
		var err error
		if parent, err = h.scopeOf(ctx, l.Parent()); err != nil {
			return parent, err
		}
	}
	s := scope{space: l.ID, snapshot: t.Snapshot()}
	if config.MemoryScope == a2e.MemoryShared {
		s.space, s.snapshot = parent.space, parent.snapshot
	}
	switch config.ToolScope {
	case a2e.ToolsShared:
		s.tools = parent.tools
	case a2e.ToolsRestricted:
		s.tools = h.Tools.Restrict(parent.tools)
	default: // isolated: its own, as its metadata lists them
		_ = json.Unmarshal(config.Metadata["tools"], &s.tools) // anything but a list of names is none
		s.tools = h.Tools.Restrict(s.tools)
		if IsThread(l.Parent()) {
			s.tools = common(s.tools, parent.tools) // a model can't give its child more than it was given
		}
	}
	return s, nil
}

// common gives what two lists of names and beginnings of names have in common.
func common(a, b []string) []string {
	both := []string{}
	for _, x := range a {
		for _, y := range b {
			switch {
			case matches(y, strings.TrimSuffix(x, "*")) && (y != x || !slices.Contains(both, x)):
				both = append(both, x)
			case matches(x, strings.TrimSuffix(y, "*")):
				both = append(both, y)
			}
		}
	}
	return both
}

// memoryOf opens a thread's memory space. One that begins as a snapshot is restored the first time.
func (h *Host) memoryOf(ctx context.Context, id actor.ID) (space actor.ID, err error) {
	s, err := h.scopeOf(ctx, id)
	if err == nil && s.snapshot != "" {
		err = h.Store.Memory.Restore(ctx, s.snapshot, s.space)
	}
	return s.space, err
}

// snapshotFor takes the snapshot that a child of parent is to begin with: one consistent cut of the parent's space.
func (h *Host) snapshotFor(ctx context.Context, parent actor.ID) (digest string, err error) {
	space, err := h.memoryOf(ctx, parent)
	if err != nil {
		return "", err
	}
	return h.Store.Memory.Snapshot(ctx, space)
}

// offered are the tools of a subagent without a definition: those that its capabilities turn on.
func (h *Host) offered(ctx context.Context, id actor.ID, config *a2e.SubagentConfig) (tools []model.Tool, err error) {
	has := func(capability string) bool { return slices.Contains(config.Capabilities, capability) }
	if has(agent.MultiAgent) {
		tools = append(tools, multiAgentTools...)
	}
	if has(agent.CapabilityMemory) {
		tools = append(tools, described("memory_")...)
	}
	if !has(agent.CapabilityTools) {
		return tools, nil
	}
	s, err := h.scopeOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return append(tools, h.describe(ctx, id, s.tools)...), nil
}

// describe describes tools of the host's. A model can work without those that can't be described now.
func (h *Host) describe(ctx context.Context, id actor.ID, names []string) (tools []model.Tool) {
	all, err := h.Tools.Describe(ctx, names)
	if err != nil && ctx.Err() == nil {
		h.Log.Warn().Err(err).Str("actor", string(id)).Msg("some tools are left out of a step")
	}
	for _, d := range all {
		tools = append(tools, model.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
	}
	return tools
}

// toolJob calls a tool. What fails is its result, for the model to read.
func (h *Host) toolJob(ctx context.Context, at callAt, body []byte) agent.JobAnswer {
	var call agent.ToolCall
	if err := agent.Unpack(body, &call); err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	var result tool.Result
	err := h.steadily(ctx, "a tool", func() (err error) {
		result, err = h.callTool(ctx, at, &call)
		return err
	})
	if err == nil {
		err = h.keepFiles(ctx, at.ID, call.ID, &result)
	}
	if err != nil {
		data, encodeErr := a2e.Encode(a2e.NewError(a2e.Envelope{}, time.Now(), err))
		if encodeErr != nil {
			return agent.JobAnswer{Err: err.Error()}
		}
		result = tool.Result{Content: data, IsError: true}
	}
	if !json.Valid(result.Content) {
		result.Content = json.RawMessage("null")
	}
	v, err := h.kept(ctx, result.Content)
	if err != nil {
		return agent.JobAnswer{Err: err.Error()}
	}
	answer := agent.JobAnswer{Content: v}
	if result.IsError {
		answer.Err = "tool"
	}
	return answer
}

func (h *Host) callTool(ctx context.Context, at callAt, call *agent.ToolCall) (tool.Result, error) {
	if f := builtin[call.Name]; f != nil {
		if !at.composed && !(strings.HasPrefix(call.Name, "memory_") && slices.Contains(at.config.Capabilities, agent.CapabilityMemory)) {
			return tool.Result{}, unavailableTool(call.Name)
		}
		return f(ctx, h, at.ID, call.Arguments)
	}
	if err := h.permits(ctx, at, call.Name); err != nil {
		return tool.Result{}, err
	}
	result, err := h.Tools.Call(ctx, call.Name, tool.Call{Thread: at.ID, Session: at.session, ID: call.ID, Arguments: call.Arguments})
	if err != nil && actor.KindOf(err) == actor.Unavailable { // the tool's word, not ours: the model decides whether to try again
		return tool.Result{}, &actor.Error{Op: "tool.Call", Kind: actor.RuntimeError, Err: err}
	}
	return result, err
}

// permits refuses a tool of the host's that the caller may not call.
func (h *Host) permits(ctx context.Context, at callAt, name string) error {
	if at.composed { // the prompt names it
		return nil
	}
	s, err := h.scopeOf(ctx, at.ID)
	if err != nil {
		return err
	}
	if !slices.Contains(at.config.Capabilities, agent.CapabilityTools) || !slices.ContainsFunc(s.tools, func(pattern string) bool { return matches(pattern, name) }) {
		return unavailableTool(name)
	}
	return nil
}

func matches(pattern, name string) bool {
	start, many := strings.CutSuffix(pattern, "*")
	return many && strings.HasPrefix(name, start) || pattern == name
}

func unavailableTool(name string) error {
	return &actor.Error{Kind: actor.NotFound, Field: "call", Err: fmt.Errorf("no tool %q is available to this agent", name)}
}

// keepFiles writes the binary values of a result to the thread's files, and has the result say where they are.
func (h *Host) keepFiles(ctx context.Context, thread actor.ID, call string, r *tool.Result) error {
	for _, f := range r.Files {
		path := "tools/" + call + "/" + f.Name
		if _, err := h.Store.Files.Write(ctx, thread, path, f.Data, f.MIME); err != nil {
			return errors.Join(errors.New("a file of the result was not kept"), err)
		}
		was, err := json.Marshal(map[string]string{"$file": f.Name})
		if err != nil {
			return err
		}
		is, err := json.Marshal(map[string]string{"$file": path})
		if err != nil {
			return err
		}
		r.Content = json.RawMessage(strings.ReplaceAll(string(r.Content), string(was), string(is)))
	}
	return nil
}
