package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/openai"
	"github.com/troupehq/troupe/test/modeltest"
)

const (
	name = "openai/gpt-4.1-mini"
	key  = "sk-proj-canary-0123456789abcdef"
	done = "data: [DONE]\n\n"
)

// chunk is what the API sends for a delta.
func chunk(delta, reason string) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4.1-mini-2025-04-14","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null}`+"\n\n", delta, reason)
}

const usage = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4.1-mini-2025-04-14","choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":10,"total_tokens":1210,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":4}}}` + "\n\n"

func text(parts ...string) string {
	out := chunk(`{"role":"assistant","content":"","refusal":null}`, "null")
	for _, part := range parts {
		out += chunk(fmt.Sprintf(`{"content":%q}`, part), "null")
	}
	return out
}

func end(reason string) string { return chunk("{}", `"`+reason+`"`) + usage + done }

func call(index int, id, function, arguments string) string {
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, index, id, function), "null") +
		chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%q}}]}`, index, arguments), "null")
}

var whole = text("Hello", "!") + end("stop")

func at(t *testing.T, s *modeltest.Server) *openai.Model {
	t.Helper()
	c := s.Config(key)
	c.BaseURL += "/v1"
	m, err := openai.New(c)
	if err != nil {
		t.Fatalf("a model with a key and an address was refused: %v", err)
	}
	return m
}

func step(t *testing.T, m *openai.Model, r *model.Request) *model.Response {
	t.Helper()
	resp, err := m.Step(t.Context(), r)
	if err != nil {
		t.Fatalf("the step should have an outcome, but erred: %v", err)
	}
	return resp
}

func TestTextEndsTheSession(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Slow(text("Hel", "lo <&>")+end("stop")))
	resp := step(t, at(t, s), modeltest.Step(name, "Greet."))
	if !resp.Done || string(resp.Result) != `{"output":"Hello <&>"}` || resp.Text != "Hello <&>" {
		t.Errorf("a text without calls should end the session with it, got %+v, result %s", resp, resp.Result)
	}
	want := model.Usage{InputTokens: 1200, OutputTokens: 10, CacheReadTokens: 1024, USD: (176*0.4 + 1024*0.1 + 10*1.6) / 1e6}
	if *resp.Usage != want {
		t.Errorf("the tokens should be those of the last chunk\nwant %+v\ngot  %+v", want, *resp.Usage)
	}
	req := s.Requests()[0]
	if req.Path != "/v1/chat/completions" || req.Header.Get("Authorization") != "Bearer "+key {
		t.Errorf("the call should go to /v1/chat/completions with the key, went to %s with %q", req.Path, req.Header)
	}
	want2 := `{"messages":[{"content":"You are ada, a subagent. Your role: reader\n\nWork until`
	if body := string(req.Body); !strings.HasPrefix(body, want2) || !strings.Contains(body, `"include_usage":true`) || strings.Contains(body, "prompt_cache_key") {
		t.Errorf("the request should begin with the prompt, ask for the usage, and have nothing that only OpenAI knows: %s", body)
	}
}

func TestParallelCallsAndTheirResults(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t,
		modeltest.Stream(text("Let me look."), call(0, "call_a", "look", `{"at": "the sea"}`), call(1, "call_b", "now", ""), end("tool_calls")),
		modeltest.Stream(whole))
	m := at(t, s)
	first := modeltest.Step(name, "Look.")
	resp := step(t, m, first)
	if resp.Done || len(resp.Calls) != 2 || string(resp.Calls[0].Arguments) != `{"at":"the sea"}` || string(resp.Calls[1].Arguments) != `{}` {
		t.Fatalf("both calls should come with whole arguments, got %+v", resp)
	}
	second := modeltest.Next(first, resp, `"blue"`, `{"h":12}`)
	second.History[len(second.History)-1].IsError = true
	second.History = append(second.History, model.Entry{Kind: model.EntryMessage, Role: model.RoleUser, Session: 1, Step: 2, From: "boss", Type: "note", Content: json.RawMessage(`"Hurry."`)})
	step(t, m, second)
	requests := s.Requests()
	want := `,{"content":"Let me look.","tool_calls":[{"id":"call_a","function":{"arguments":"{\"at\":\"the sea\"}","name":"look"},"type":"function"},` +
		`{"id":"call_b","function":{"arguments":"{}","name":"now"},"type":"function"}],"role":"assistant"},` +
		`{"content":"blue","tool_call_id":"call_a","role":"tool"},{"content":"Error: {\"h\":12}","tool_call_id":"call_b","role":"tool"},` +
		`{"content":"Message from boss (note):\n\nHurry.","role":"user"}]`
	before, after := messages(t, requests[0].Body), messages(t, requests[1].Body)
	if !strings.HasSuffix(after, want) {
		t.Errorf("each call should have its result right after, then the message\nwant …%s\ngot  %s", want, after)
	}
	if !strings.HasPrefix(after, strings.TrimSuffix(before, "]")+",") {
		t.Errorf("a later request must begin with the same bytes as the one before\nbefore %s\nafter  %s", before, after)
	}
}

func messages(t *testing.T, body []byte) string {
	t.Helper()
	var r struct {
		Messages json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("the request is no JSON: %v: %s", err, body)
	}
	return string(r.Messages)
}

// Other servers number calls, name them and end answers in their own ways.
func TestCallsOfOtherServers(t *testing.T) {
	t.Parallel()
	for what, stream := range map[string]string{
		"every index is 0": call(0, "a", "look", `{"n":1}`) + call(0, "b", "look", `{"n":2}`) + end("stop"),
		"no ids":           call(0, "", "look", `{"n":1}`) + call(1, "", "look", `{"n":2}`) + end("tool_calls"),
		"the same ids":     call(0, "x", "look", `{"n":1}`) + call(1, "x", "look", `{"n":2}`) + end("tool_calls"),
		"ids with signs":   call(0, "functions.look:0", "look", `{"n":1}`) + call(1, "functions.look:1", "look", `{"n":2}`) + end("tool_calls"),
	} {
		s := modeltest.Start(t, modeltest.Stream(text(), stream))
		calls := step(t, at(t, s), modeltest.Step(name, "Look.")).Calls
		if len(calls) != 2 || calls[0].ID == calls[1].ID || calls[0].ID == "" ||
			string(calls[0].Arguments) != `{"n":1}` || string(calls[1].Arguments) != `{"n":2}` {
			t.Errorf("%s: want two calls with ids of their own, got %+v", what, calls)
		}
	}
}

func TestMalformedArgumentsComeThrough(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Stream(text(), call(0, "a", "look", `{"at": `), end("tool_calls")), modeltest.Stream(whole))
	m, first := at(t, s), modeltest.Step(name, "Look.")
	resp := step(t, m, first)
	if len(resp.Calls) != 1 || string(resp.Calls[0].Arguments) != `{"$invalid":"{\"at\": "}` {
		t.Fatalf("what is no object should come through as text, got %+v", resp)
	}
	if wrote, ok := model.Invalid(resp.Calls[0].Arguments); !ok || wrote != `{"at": ` {
		t.Errorf("the text should be found again, got %q, %v", wrote, ok)
	}
	step(t, m, modeltest.Next(first, resp, `"these are no arguments"`))
	if got := messages(t, s.Requests()[1].Body); !strings.Contains(got, `"arguments":"{\"$invalid\":`) {
		t.Errorf("the next request should have arguments that are an object: %s", got)
	}
}

func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	for schema, strict := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`:                         "true",
		`{"type":"object","properties":{"a":{"type":"integer"}}}`:                                                                       "false",
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`: "false",
	} {
		s := modeltest.Start(t, modeltest.Stream(text(`{"a": 1}`), end("stop")))
		r := modeltest.Step(name, "Ask.")
		r.Schema = json.RawMessage(schema)
		resp := step(t, at(t, s), r)
		if !resp.Done || string(resp.Result) != `{"a":1}` {
			t.Errorf("the object should be the result, got %+v", resp)
		}
		body := string(s.Requests()[0].Body)
		if !strings.Contains(body, `"response_format":{"json_schema":`) || !strings.Contains(body, `"strict":`+strict) {
			t.Errorf("the schema should be asked for, strict %s: %s", strict, body)
		}
	}
}

func TestStopsThatAreNoSuccess(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]string{
		text("Half a") + end("length"):                                         "cut off",
		text("Half a") + end("content_filter"):                                 "a filter",
		text("Half a") + end("novelty"):                                        `"novelty"`,
		text("Half a") + chunk(`{"refusal":"I can't."}`, "null") + end("stop"): "refused to answer: I can't.",
		text("Half a") + call(0, "a", "look", `{"at"`) + end("length"):         "cut off",
	} {
		s := modeltest.Start(t, modeltest.Stream(stream))
		resp := step(t, at(t, s), modeltest.Step(name, "Write."))
		if resp.Done || !strings.Contains(resp.Fail, want) || resp.Text != "Half a" || resp.Calls != nil {
			t.Errorf("it must be told as a failure with %q, and keep the text: %+v", want, resp)
		}
	}
}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	for what, reply := range map[string]modeltest.Reply{
		"429":                   modeltest.Refuse(429, `{"error":{"message":"slow","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, "Retry-After-Ms", "5"),
		"503":                   modeltest.Refuse(503, `upstream`),
		"a dropped stream":      modeltest.Break(text("Hel")),
		"a stream that ends":    modeltest.Stream(text("Hel")),
		"DONE without a reason": modeltest.Stream(text("Hel") + done),
		"an error in between":   modeltest.Stream(text("Hel"), `data: {"error":{"message":"The server had an error","type":"server_error","code":null}}`+"\n\n"),
		"a status in between":   modeltest.Stream(text("Hel"), `data: {"error":{"message":"bad gateway","code":502}}`+"\n\n"),
	} {
		s := modeltest.Start(t, reply, modeltest.Stream(whole))
		resp := step(t, at(t, s), modeltest.Step(name, "Greet."))
		if !resp.Done || resp.Text != "Hello!" || len(s.Requests()) != 2 {
			t.Errorf("%s: the next try's answer counts alone, got %+v after %d requests", what, resp, len(s.Requests()))
		}
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	refusal := func(status int, typ, code, message string) modeltest.Reply {
		return modeltest.Refuse(status, fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, typ, code))
	}
	broken := modeltest.Refuse(500, "")
	for _, c := range []struct {
		replies []modeltest.Reply
		kind    actor.Kind
		words   string
	}{
		{[]modeltest.Reply{broken, broken, broken}, actor.Unavailable, "500 Internal Server Error (tried 3 times)"},
		{[]modeltest.Reply{refusal(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: "+key)}, actor.Unauthorized, "OPENAI_API_KEY"},
		{[]modeltest.Reply{refusal(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota")}, actor.Unauthorized, "quota"},
		{[]modeltest.Reply{refusal(404, "invalid_request_error", "model_not_found", "The model does not exist")}, actor.NotFound, "does not exist"},
		{[]modeltest.Reply{refusal(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens")}, actor.TooLarge, "128000"},
		{[]modeltest.Reply{refusal(400, "invalid_request_error", "", "Invalid schema")}, actor.SchemaViolation, "Invalid schema"},
		{[]modeltest.Reply{modeltest.Refuse(404, `{"error":"model \"qwen3\" not found, try pulling it first"}`)}, actor.NotFound, "try pulling it"},
		{[]modeltest.Reply{modeltest.Refuse(422, `{"detail":"bad"}`)}, actor.SchemaViolation, "bad"},
		{[]modeltest.Reply{modeltest.Refuse(200, `{"choices":[]}`)}, actor.RuntimeError, "event stream"},
	} {
		s := modeltest.Start(t, c.replies...)
		_, err := at(t, s).Step(t.Context(), modeltest.Step(name, "Greet."))
		if actor.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.words) || strings.Contains(fmt.Sprint(err), key) {
			t.Errorf("want the kind %s, %q and no key, got %v", c.kind, c.words, err)
		}
		if n := len(s.Requests()); n != len(c.replies) {
			t.Errorf("%v: want %d tries, got %d", err, len(c.replies), n)
		}
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	for _, c := range []openai.Config{{}, {BaseURL: "https://api.openai.com/v1/"}} {
		m, err := openai.New(c)
		if err != nil {
			t.Fatalf("a missing key is told when it is needed, not before: %v", err)
		}
		_, err = m.Step(t.Context(), modeltest.Step(name, "Greet."))
		if actor.KindOf(err) != actor.Unauthorized || !strings.Contains(err.Error(), "set OPENAI_API_KEY") {
			t.Errorf("without a key a step should say what to set, got %v", err)
		}
	}
	s := modeltest.Start(t, modeltest.Stream(whole))
	m, err := openai.New(s.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	step(t, m, modeltest.Step(name, "Greet."))
	if got := s.Requests()[0].Header.Values("Authorization"); got != nil {
		t.Errorf("a server of one's own may need no key, and gets none: %q", got)
	}
}

// A roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOpenAIItself(t *testing.T) {
	t.Parallel()
	var url, body string
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		data, err := io.ReadAll(r.Body)
		url, body = r.URL.String(), string(data)
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(whole)), Request: r,
		}, err
	})
	m, err := openai.New(openai.Config{Key: key, MaxTokens: 99, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	step(t, m, modeltest.Step(name, "Greet."))
	if url != "https://api.openai.com/v1/chat/completions" {
		t.Errorf("without a base URL the call goes to OpenAI, went to %s", url)
	}
	if !strings.Contains(body, `"prompt_cache_key":"sub_00000001"`) || !strings.Contains(body, `"max_completion_tokens":99`) || strings.Contains(body, `"max_tokens"`) {
		t.Errorf("OpenAI gets the cache's key and its own name for the limit: %s", body)
	}
}

func TestTheContextEndsAStepAtOnce(t *testing.T) {
	t.Parallel()
	told := make(chan struct{}, 1)
	s := modeltest.Start(t, modeltest.Hang(told, text("Hel")))
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	go func() {
		_, err := at(t, s).Step(ctx, modeltest.Step(name, "Greet."))
		finished <- err
	}()
	<-told
	cancel()
	if err := <-finished; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled step should say so, got %v", err)
	}
}
