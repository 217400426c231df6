package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/model"
)

// A Stop says why an answer ends.
type Stop int

const (
	StopEnd     Stop = iota // it is whole
	StopLength              // it was as long as it may be
	StopContext             // the conversation was as long as it may be
	StopRefused             // the model, or a filter, refused it
	StopOther               // in the provider's words
)

// An Answer is what a provider gave, as it gave it.
type Answer struct {
	Text  string
	Calls []Call
	Stop  Stop
	Why   string      // what the provider says of a Stop
	Usage model.Usage // without USD
}

// A Call is a tool call with whatever the model wrote for its arguments.
type Call struct {
	ID        string
	Name      string
	Arguments string
}

// response is what an answer means for the session. One without calls ends it.
func (c *Client) response(r *model.Request, talk *Conversation, a *Answer, spent *model.Usage) *model.Response {
	resp := &model.Response{Text: c.secrets.hide(a.Text), Usage: spent}
	if resp.Fail = stopped(a, talk.MaxTokens); resp.Fail != "" {
		resp.Fail = c.secrets.hide(resp.Fail)
		return resp
	}
	if len(a.Calls) > 0 {
		resp.Calls = c.calls(r, a.Calls)
		return resp
	}
	if talk.Schema == nil {
		resp.Done, resp.Result = true, model.Object(encode(resp.Text))
		return resp
	}
	result, ok := objectOf(resp.Text)
	if !ok {
		resp.Fail = "the result has to be a JSON object, but the model answered with something else"
		return resp
	}
	resp.Done, resp.Result = true, result
	return resp
}

// stopped words the end of an answer that is not whole; "" if it is.
func stopped(a *Answer, limit int64) string {
	switch a.Stop {
	case StopEnd:
		return ""
	case StopLength:
		if limit > 0 {
			return fmt.Sprintf("the model's answer was cut off at %d tokens, the most that it may have (max_tokens)", limit)
		}
		return "the model's answer was cut off: it is as long as the model's answers may be"
	case StopContext:
		return "the model's answer was cut off: the conversation is as long as the model's context"
	case StopRefused:
		if a.Why != "" {
			return "the model refused to answer: " + clip(a.Why, maxMessage)
		}
		return "the model refused to answer"
	}
	return fmt.Sprintf("the model stopped for a reason that is not known here: %q", a.Why)
}

// calls gives the calls of an answer. Ids are unique within the session, also when the model's are not.
func (c *Client) calls(r *model.Request, list []Call) []model.Call {
	used := map[string]bool{}
	for i := range r.History {
		if e := &r.History[i]; e.Kind == model.EntryCall && e.Session == r.Session {
			used[e.Call] = true
		}
	}
	calls := make([]model.Call, len(list))
	for i, call := range list {
		id := call.ID
		for n := i; !named(id) || used[id]; n++ {
			id = fmt.Sprintf("call_%d_%d", r.Step, n)
		}
		used[id] = true
		calls[i] = model.Call{ID: id, Name: call.Name, Arguments: Arguments(c.secrets.hide(call.Arguments))}
	}
	return calls
}

// Arguments makes the arguments of a call of what the model wrote: an object as it is, nothing and null as the
// empty object, anything else under [model.InvalidArguments].
func Arguments(text string) json.RawMessage {
	raw := []byte(strings.TrimSpace(text))
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	var b bytes.Buffer
	if raw[0] == '{' && json.Compact(&b, raw) == nil {
		return b.Bytes()
	}
	return encode(map[string]string{model.InvalidArguments: strings.ToValidUTF8(text, "\uFFFD")})
}

// objectOf reads an answer that is a JSON object, with or without the fence of a code block around it.
func objectOf(text string) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		inner = strings.TrimSuffix(strings.TrimPrefix(inner, "json"), "```")
		text = strings.TrimSpace(inner)
	}
	var b bytes.Buffer
	if !strings.HasPrefix(text, "{") || json.Compact(&b, []byte(text)) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

// The pace of progress: at most ten times a second, and slower for long texts, each of which is told whole.
const (
	progressEvery = 100 * time.Millisecond
	progressBytes = 32 << 10
)

// progress gives what tells the text so far to whoever watches.
func (c *Client) progress(r *model.Request) func(string) {
	var last time.Time
	return func(text string) {
		if blank(text) || time.Since(last) < progressEvery*time.Duration(1+len(text)/progressBytes) {
			return
		}
		last = time.Now()
		r.Progress(c.secrets.hide(text))
	}
}
