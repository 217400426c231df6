package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/tool"
)

// mcpTools describes the tools of troupe mcp: what each is, and which request its arguments are the fields of.
//
//go:embed mcp_tools.json
var mcpTools []byte

// A subagentTool makes a request of the protocol in the name of an agent.
type subagentTool struct {
	about struct {
		Name        string          `json:"name"`
		Type        string          `json:"type"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
	}
	client *client.Client
}

// UnmarshalJSON reads what the tool is.
func (t *subagentTool) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(&t.about)
}

// subagentTools gives the tools that make requests with a client.
func subagentTools(c *client.Client) (*tool.Registry, []string, error) {
	var all []*subagentTool
	if err := json.Unmarshal(mcpTools, &all); err != nil {
		return nil, nil, err
	}
	var cfg tool.Config
	var names []string
	for _, t := range all {
		t.client = c
		cfg.Tools = append(cfg.Tools, t)
		names = append(names, t.about.Name)
	}
	r, err := tool.New(cfg)
	return r, names, err
}

// Describe implements [tool.Tool].
func (t *subagentTool) Describe() tool.Description {
	return tool.Description{Name: t.about.Name, Description: t.about.Description, Schema: t.about.Schema}
}

// Call implements [tool.Tool]. The result is the answer as the protocol has it, without an envelope.
func (t *subagentTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	switch t.about.Type {
	case "inbox":
		return t.inbox(ctx)
	case "answer":
		return t.answer(ctx, c.Arguments)
	}
	req, err := t.request(c.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	msg, err := ask(ctx, t.client, req)
	if err != nil {
		return tool.Result{}, err
	}
	content, err := a2e.Encode(bare(msg))
	return tool.Result{Content: content}, err
}

// inbox is what waits for a person.
func (t *subagentTool) inbox(ctx context.Context) (r tool.Result, err error) {
	all, err := waitingFor(ctx, t.client)
	if err == nil {
		r.Content, err = json.Marshal(map[string]any{"requests": all})
	}
	return r, err
}

// answer answers what a person was asked.
func (t *subagentTool) answer(ctx context.Context, arguments json.RawMessage) (r tool.Result, err error) {
	var is struct {
		Request string          `json:"request"`
		Content json.RawMessage `json:"content"`
	}
	if err = json.Unmarshal(arguments, &is); err == nil {
		err = t.client.Answer(ctx, is.Request, is.Content)
	}
	if err == nil {
		r.Content, err = json.Marshal(map[string]any{"request": is.Request, "answered": true})
	}
	return r, err
}

// request makes a request of arguments. Where the protocol asks for what goes without saying here, it is said:
// a message is from the caller, and of several subagents all are awaited.
func (t *subagentTool) request(arguments json.RawMessage) (a2e.Request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return nil, err
	}
	set := func(name, value string) error {
		text, err := json.Marshal(value)
		fields[name] = text
		return err
	}
	if err := set("type", t.about.Type); err != nil {
		return nil, err
	}
	var err error
	switch {
	case t.about.Type == a2e.TypeMessageReq && fields["from_subagent_id"] == nil:
		err = set("from_subagent_id", string(t.client.Agent()))
	case t.about.Type == a2e.TypeAwaitReq && fields["subagent_ids"] != nil && fields["mode"] == nil:
		err = set("mode", string(a2e.ModeAll))
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return a2e.Decode(data)
}

// ask makes a request, with large values in the answer put in their place.
func ask(ctx context.Context, c *client.Client, req a2e.Request) (a2e.Message, error) {
	switch m := req.(type) {
	case *a2e.AwaitReq:
		if limit := m.Timeout(); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		if m.Mode != "" {
			return orError(c.Gather(ctx, m.Mode, m.Quorum, m.SubagentIDs...))
		}
		return orError(c.Await(ctx, m.SubagentID))
	case *a2e.MergeReq:
		merged, err := c.Merge(ctx, m.Strategy, m.SubagentIDs...)
		return orError(&a2e.MergeResp{MergedResult: merged}, err)
	}
	return c.Do(ctx, req)
}

// orError is an answer, or none with an error.
func orError[T a2e.Message](msg T, err error) (a2e.Message, error) {
	if err != nil {
		return nil, err
	}
	return msg, nil
}

// bare takes the envelope off an answer: it is that of one try, and says nothing to a model.
func bare(msg a2e.Message) a2e.Message {
	switch m := msg.(type) {
	case *a2e.SpawnResp:
		m.Envelope = a2e.Envelope{}
	case *a2e.DelegateResp:
		m.Envelope = a2e.Envelope{}
	case *a2e.AwaitResp:
		m.Envelope = a2e.Envelope{}
	case *a2e.MessageResp:
		m.Envelope = a2e.Envelope{}
	case *a2e.ListResp:
		m.Envelope = a2e.Envelope{}
	case *a2e.Event:
		m.Envelope = a2e.Envelope{}
	case *a2e.MergeResp:
		m.Envelope = a2e.Envelope{}
	}
	return msg
}

// told is the text of a failed result: its code, the field that is to blame, and its message.
func told(content json.RawMessage) string {
	var failure struct {
		Code    actor.Kind `json:"code"`
		Message string     `json:"message"`
		Field   string     `json:"field"`
	}
	if json.Unmarshal(content, &failure) != nil || failure.Code == "" {
		return string(content)
	}
	text := failure.Message
	if failure.Field != "" && !strings.Contains(text, failure.Field) {
		text = failure.Field + ": " + text
	}
	return string(failure.Code) + ": " + text
}
