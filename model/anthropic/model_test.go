package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/anthropic"
	"github.com/troupehq/troupe/test/modeltest"
)

const (
	name = "anthropic/claude-haiku-4-5"
	key  = "sk-ant-canary-0123456789abcdef"
)

// What the API sends, event by event.
const (
	start = `event: message_start
data: {"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-haiku-4-5-20251001","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,"output_tokens":1,"service_tier":"standard"}}}

`
	ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func event(kind, data string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, data)
}

// text is a block of text in parts.
func text(index int, parts ...string) (events string) {
	events = event("content_block_start", fmt.Sprintf(`"index":%d,"content_block":{"type":"text","text":""}`, index))
	for _, part := range parts {
		events += event("content_block_delta", fmt.Sprintf(`"index":%d,"delta":{"type":"text_delta","text":%q}`, index, part))
	}
	return events + event("content_block_stop", fmt.Sprintf(`"index":%d`, index))
}

// use is a call whose arguments come in parts.
func use(index int, id, tool string, parts ...string) (events string) {
	events = event("content_block_start", fmt.Sprintf(`"index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}`, index, id, tool))
	for _, part := range append([]string{""}, parts...) {
		events += event("content_block_delta", fmt.Sprintf(`"index":%d,"delta":{"type":"input_json_delta","partial_json":%q}`, index, part))
	}
	return events + event("content_block_stop", fmt.Sprintf(`"index":%d`, index))
}

func end(reason string) string {
	return event("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":15}`, reason)) + stop
}

// whole is a short answer.
var whole = start + ping + text(0, "Hello", "!") + end("end_turn")

func at(t *testing.T, s *modeltest.Server, change ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	c := s.Config(key)
	for _, f := range change {
		f(&c)
	}
	m, err := anthropic.New(c)
	if err != nil {
		t.Fatalf("a model with a key and an address was refused: %v", err)
	}
	return m
}

func step(t *testing.T, m *anthropic.Model, r *model.Request) *model.Response {
	t.Helper()
	resp, err := m.Step(t.Context(), r)
	if err != nil {
		t.Fatalf("the step should have an outcome, but erred: %v", err)
	}
	return resp
}

func TestTextEndsTheSession(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Stream(start, ping, text(0, "Hel", "lo <&>"), end("end_turn")))
	resp := step(t, at(t, s), modeltest.Step(name, "Greet."))
	if !resp.Done || string(resp.Result) != `{"output":"Hello <&>"}` || resp.Text != "Hello <&>" || resp.Calls != nil {
		t.Errorf("a text without calls should end the session with it, got %+v, result %s", resp, resp.Result)
	}
	want := model.Usage{InputTokens: 2325, OutputTokens: 15, CacheReadTokens: 2000, CacheWriteTokens: 300}
	want.USD = (25*1 + 15*5 + 2000*0.1 + 300*1.25) / 1e6
	if *resp.Usage != want {
		t.Errorf("cached tokens are part of the input, and all of them cost\nwant %+v\ngot  %+v", want, *resp.Usage)
	}
	req := s.Requests()[0]
	if req.Path != "/v1/messages" || req.Header.Get("Authorization") != "Bearer "+key {
		t.Errorf("the call should go to /v1/messages with the key, went to %s with %q", req.Path, req.Header)
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Stream(whole))
	r := modeltest.Step(name, "Greet.")
	r.Task.SuccessCriteria = []string{"it is polite"}
	r.History[0].Content = json.RawMessage(`{"name":"job","instruction":"Greet.","success_criteria":["it is polite"]}`)
	r.Tools = []model.Tool{{Name: "look", Description: "Looks.", Schema: json.RawMessage(`{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{}}}`)}, {Name: "bare"}}
	r.Config.Metadata = map[string]json.RawMessage{"max_tokens": json.RawMessage("77")}
	step(t, at(t, s), r)
	got := string(s.Requests()[0].Body)
	for _, want := range []string{
		`"model":"claude-haiku-4-5"`, `"max_tokens":77`, `"stream":true`,
		`You are ada, a subagent. Your role: reader`,
		`"cache_control":{"type":"ephemeral"},"text":"You are ada`,
		`{"content":[{"text":"Greet.\n\nThe task is done when:\n- it is polite","type":"text"}],"role":"user"}`,
		`{"input_schema":{"properties":{"a":{},"b":{"type":"string"}},"required":["b"],"type":"object"},"name":"look","description":"Looks."}`,
		`{"input_schema":{"properties":{},"type":"object"},"name":"bare"}`,
	} {
		if !strings.Contains(got, want) && !strings.Contains(canonical(t, got), canonical(t, want)) {
			t.Errorf("the request should have\n%s\nbut is\n%s", want, got)
		}
	}
	if strings.Contains(got, key) || strings.Contains(got, "temperature") || strings.Contains(got, "thinking") {
		t.Errorf("the request has what it must not have: %s", got)
	}
}

// canonical sorts the keys of JSON; what is only a part of JSON stays as it is.
func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestProgressTellsTheTextSoFar(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Slow(start+text(0, "One. ", "Two. ", "Three.")+end("end_turn")))
	r := modeltest.Step(name, "Count.")
	var told []string
	r.Progress = func(text string) { told = append(told, text) }
	resp := step(t, at(t, s), r)
	if len(told) == 0 || told[0] != "One. " {
		t.Errorf("watchers should be told the text from the first part on, were told %q", told)
	}
	for _, one := range told {
		if !strings.HasPrefix(resp.Text, one) {
			t.Errorf("progress is the text so far, but %q does not begin %q", one, resp.Text)
		}
	}
}

func TestParallelCallsAndTheirResults(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t,
		modeltest.Stream(start, text(0, "Let me look."), use(1, "toolu_1", "look", `{"at": "th`, `e sea"}`), use(2, "toolu_2", "now"), end("tool_use")),
		modeltest.Stream(whole))
	m := at(t, s)
	first := modeltest.Step(name, "Look.")
	resp := step(t, m, first)
	if resp.Done || resp.Text != "Let me look." || len(resp.Calls) != 2 ||
		string(resp.Calls[0].Arguments) != `{"at":"the sea"}` || string(resp.Calls[1].Arguments) != `{}` || resp.Calls[1].ID != "toolu_2" {
		t.Fatalf("both calls should come with whole arguments, got %+v", resp)
	}
	second := modeltest.Next(first, resp, `"blue"`, `{"h":12}`)
	second.History[len(second.History)-1].IsError = true
	step(t, m, second)
	requests := s.Requests()
	want := `,{"content":[{"text":"Let me look.","type":"text"},{"id":"toolu_1","input":{"at":"the sea"},"name":"look","type":"tool_use"},` +
		`{"id":"toolu_2","input":{},"name":"now","type":"tool_use"}],"role":"assistant"},` +
		`{"content":[{"tool_use_id":"toolu_1","is_error":false,"content":[{"text":"blue","type":"text"}],"type":"tool_result"},` +
		`{"tool_use_id":"toolu_2","is_error":true,"content":[{"text":"{\"h\":12}","type":"text"}],"type":"tool_result"}],"role":"user"}]`
	if got := messages(t, requests[1].Body); !strings.HasSuffix(got, want) {
		t.Errorf("the results should follow their calls at once, in one message\nwant …%s\ngot  %s", want, got)
	}
	wantPrefix(t, requests[0].Body, requests[1].Body)
}

// messages is the request's list of messages as it was sent.
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

// wantPrefix checks that the messages of a later request begin with those of an earlier one.
func wantPrefix(t *testing.T, before, after []byte) {
	t.Helper()
	a, b := strings.TrimSuffix(messages(t, before), "]"), messages(t, after)
	if !strings.HasPrefix(b, a+",") {
		t.Errorf("a later request must begin with the same bytes as the one before\nbefore %s\nafter  %s", a, b)
	}
}

func TestManyCallsMarkTheMessageBefore(t *testing.T) {
	t.Parallel()
	var calls string
	var results []string
	for i := range 19 {
		calls += use(i, fmt.Sprintf("toolu_%d", i), "look")
		results = append(results, `"seen"`)
	}
	s := modeltest.Start(t, modeltest.Stream(start, calls, end("tool_use")), modeltest.Stream(whole))
	m := at(t, s)
	first := modeltest.Step(name, "Look.")
	step(t, m, modeltest.Next(first, step(t, m, first), results...))
	got := messages(t, s.Requests()[1].Body)
	if head, _, _ := strings.Cut(got, `"role":"assistant"`); !strings.Contains(head, `"cache_control":{"type":"ephemeral"}`) {
		t.Errorf("the message before 38 blocks should be marked, or its cache is not found: %s", got)
	}
}

func TestMalformedArgumentsComeThrough(t *testing.T) {
	t.Parallel()
	for wrote, want := range map[string]string{
		`{"at": `: `{"$invalid":"{\"at\": "}`, `[1]`: `{"$invalid":"[1]"}`, `null`: `{}`, `{"a":1} x`: `{"$invalid":"{\"a\":1} x"}`,
	} {
		s := modeltest.Start(t, modeltest.Stream(start, use(0, "toolu_1", "look", wrote), end("tool_use")))
		resp := step(t, at(t, s), modeltest.Step(name, "Look."))
		if len(resp.Calls) != 1 || string(resp.Calls[0].Arguments) != want {
			t.Errorf("%q as arguments should become %s, got %+v", wrote, want, resp)
		}
	}
}

func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"answer": 42}`:                 `{"answer":42}`,
		"```json\n{\"answer\": 42}\n```": `{"answer":42}`,
		"It is 42.":                      "",
	} {
		s := modeltest.Start(t, modeltest.Stream(start, text(0, answer), end("end_turn")))
		r := modeltest.Step(name, "Ask.")
		r.Schema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"integer","minimum":0}},"required":["answer"]}`)
		resp := step(t, at(t, s), r)
		if resp.Done != (want != "") || string(resp.Result) != want || (resp.Fail == "") != resp.Done {
			t.Errorf("%q: want the object %q as the result, got %+v", answer, want, resp)
		}
		body := string(s.Requests()[0].Body)
		if !strings.Contains(body, `"output_config":{"format":{"schema":{"additionalProperties":false`) {
			t.Errorf("the schema should be asked for, with closed objects: %s", body)
		}
	}
}

func TestStopsThatAreNoSuccess(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"max_tokens":                    "cut off at 32000 tokens",
		"model_context_window_exceeded": "as long as the model's context",
		"refusal":                       "refused",
		"pause_turn":                    `"pause_turn"`,
		"novelty":                       `"novelty"`,
	} {
		s := modeltest.Start(t, modeltest.Stream(start, text(0, "Half a"), end(reason)))
		resp := step(t, at(t, s), modeltest.Step(name, "Write."))
		if resp.Done || !strings.Contains(resp.Fail, want) || resp.Text != "Half a" || resp.Result != nil {
			t.Errorf("%s must be told as a failure with %q, and keep the text: %+v", reason, want, resp)
		}
	}
}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	overloaded := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for what, reply := range map[string]modeltest.Reply{
		"429":                 modeltest.Refuse(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "1"),
		"529":                 modeltest.Refuse(529, overloaded),
		"500 of a proxy":      modeltest.Refuse(500, "<html>"),
		"a dropped stream":    modeltest.Break(start, text(0, "Hel")),
		"a stream that ends":  modeltest.Stream(start, text(0, "Hel")),
		"an error in between": modeltest.Stream(start, text(0, "Hel"), "event: error\ndata: "+overloaded+"\n\n"),
		"an empty stream":     modeltest.Stream(""),
		"rubbish":             modeltest.Stream(start, "event: content_block_delta\ndata: {\n\n"),
	} {
		s := modeltest.Start(t, reply, modeltest.Stream(whole))
		resp := step(t, at(t, s), modeltest.Step(name, "Greet."))
		if !resp.Done || resp.Text != "Hello!" {
			t.Errorf("%s: the next try's answer counts alone, got %+v", what, resp)
		}
		if r := s.Requests(); len(r) != 2 || string(r[0].Body) != string(r[1].Body) {
			t.Errorf("%s: another try is the same request, got %d of them", what, len(r))
		}
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	refusal := func(status int, typ, message string) modeltest.Reply {
		return modeltest.Refuse(status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, typ, message))
	}
	long := "prompt is too long: 201234 tokens > 200000 maximum"
	broken := refusal(500, "api_error", "Internal server error")
	for _, c := range []struct {
		replies []modeltest.Reply
		kind    actor.Kind
		words   string
	}{
		{[]modeltest.Reply{broken, broken, broken}, actor.Unavailable, "500 Internal Server Error: Internal server error (tried 3 times)"},
		{[]modeltest.Reply{refusal(401, "authentication_error", "invalid x-api-key "+key)}, actor.Unauthorized, "ANTHROPIC_API_KEY"},
		{[]modeltest.Reply{refusal(403, "permission_error", "no")}, actor.Unauthorized, "403"},
		{[]modeltest.Reply{refusal(404, "not_found_error", "model: claude-haiku-4-5")}, actor.NotFound, "model: claude-haiku-4-5"},
		{[]modeltest.Reply{refusal(400, "invalid_request_error", long)}, actor.TooLarge, long},
		{[]modeltest.Reply{refusal(413, "request_too_large", "Request exceeds the maximum size")}, actor.TooLarge, "413"},
		{[]modeltest.Reply{refusal(400, "invalid_request_error", "tools.0: no")}, actor.SchemaViolation, "tools.0: no"},
		{[]modeltest.Reply{refusal(400, "invalid_request_error", "Your credit balance is too low")}, actor.Unauthorized, "credit"},
		{[]modeltest.Reply{modeltest.Refuse(429, `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`)}, actor.Unauthorized, "429"},
		{[]modeltest.Reply{modeltest.Refuse(500, `{}`, "X-Should-Retry", "false")}, actor.Unavailable, "500"},
		{[]modeltest.Reply{modeltest.Refuse(200, `{"hello":"world"}`)}, actor.RuntimeError, "base URL"},
		{[]modeltest.Reply{modeltest.Refuse(302, ``, "Location", "/elsewhere")}, actor.RuntimeError, "302"},
	} {
		s := modeltest.Start(t, c.replies...)
		_, err := at(t, s).Step(t.Context(), modeltest.Step(name, "Greet."))
		if actor.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.words) {
			t.Errorf("want the kind %s and %q, got %v", c.kind, c.words, err)
		}
		if n := len(s.Requests()); n != len(c.replies) {
			t.Errorf("%v: want %d tries, got %d", err, len(c.replies), n)
		}
	}
}

func TestNoKeySaysWhatToSet(t *testing.T) {
	t.Parallel()
	m, err := anthropic.New(anthropic.Config{})
	if err != nil {
		t.Fatalf("a missing key is told when it is needed, not before: %v", err)
	}
	_, err = m.Step(t.Context(), modeltest.Step(name, "Greet."))
	if actor.KindOf(err) != actor.Unauthorized || !strings.Contains(err.Error(), "set ANTHROPIC_API_KEY") {
		t.Errorf("without a key a step should say what to set, got %v", err)
	}
	for _, bad := range []anthropic.Config{{Key: "a b"}, {Key: "a\x00b"}, {BaseURL: "nonsense"}, {BaseURL: "http://me:secret@host"}, {Tries: -1}} {
		if _, err := anthropic.New(bad); actor.KindOf(err) != actor.SchemaViolation || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v is no configuration, and the error tells no secret: %v", bad, err)
		}
	}
}

// A server that sends the key back wherever it can must not get it told.
func TestTheKeyIsNeverTold(t *testing.T) {
	t.Parallel()
	echo := fmt.Sprintf(`{"type":"error","error":{"type":"api_error","message":"you sent Bearer %s"}}`, key)
	for what, replies := range map[string][]modeltest.Reply{
		"refused":   {modeltest.Refuse(400, echo)},
		"no JSON":   {modeltest.Refuse(403, "<p>"+key+"</p>", "Content-Type", "text/html")},
		"no stream": {modeltest.Refuse(200, key)},
		"broken":    {modeltest.Stream(start, "event: error\ndata: "+echo+"\n\n"), modeltest.Refuse(500, echo), modeltest.Refuse(500, echo)},
	} {
		s := modeltest.Start(t, replies...)
		_, err := at(t, s).Step(t.Context(), modeltest.Step(name, "Greet."))
		if err == nil {
			t.Fatalf("%s: the step should err", what)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, key) || strings.Contains(text, "canary") {
				t.Errorf("%s: the key is in the error: %s", what, text)
			}
		}
	}
	s := modeltest.Start(t, modeltest.Stream(start, text(0, "your key is "+key), use(1, "toolu_1", "look", `{"k":"`+key+`"}`), end("tool_use")))
	r := modeltest.Step(name, "Greet.")
	r.Progress = func(text string) {
		if strings.Contains(text, key) {
			t.Errorf("the key is in the progress: %s", text)
		}
	}
	if resp := step(t, at(t, s), r); strings.Contains(resp.Text+string(resp.Calls[0].Arguments), key) {
		t.Errorf("the key is in what goes into the history: %+v", resp)
	}
}

func TestTheContextEndsAStepAtOnce(t *testing.T) {
	t.Parallel()
	for what, parts := range map[string][]string{"before the answer": nil, "amid the answer": {start, text(0, "Hel")}} {
		told := make(chan struct{}, 1)
		s := modeltest.Start(t, modeltest.Hang(told, parts...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := at(t, s).Step(ctx, modeltest.Step(name, "Greet."))
			done <- err
		}()
		<-told
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || actor.KindOf(err) != actor.RuntimeError {
			t.Errorf("%s: a cancelled step should say so, got %v", what, err)
		}
	}
}

func TestADeadlineIsATimeout(t *testing.T) {
	t.Parallel()
	s := modeltest.Start(t, modeltest.Hang(nil, start))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := at(t, s).Step(ctx, modeltest.Step(name, "Greet."))
	if !errors.Is(err, context.DeadlineExceeded) || actor.KindOf(err) != actor.Timeout {
		t.Errorf("a step past its deadline should be a timeout, got %v", err)
	}
}

func TestSilenceIsTriedAgain(t *testing.T) {
	t.Parallel()
	brief := func(c *anthropic.Config) { c.Idle, c.First = 250*time.Millisecond, 250*time.Millisecond }
	s := modeltest.Start(t, modeltest.Hang(nil), modeltest.Hang(nil, start, text(0, "Hel")), modeltest.Stream(whole))
	if resp := step(t, at(t, s, brief), modeltest.Step(name, "Greet.")); resp.Text != "Hello!" {
		t.Errorf("the answer after two silent ones counts, got %+v", resp)
	}
	s = modeltest.Start(t, modeltest.Hang(nil), modeltest.Hang(nil, start), modeltest.Hang(nil, start))
	_, err := at(t, s, brief).Step(t.Context(), modeltest.Step(name, "Greet."))
	if actor.KindOf(err) != actor.Timeout || !strings.Contains(err.Error(), "silent for 250ms") {
		t.Errorf("three silent answers are a timeout that says how long, got %v", err)
	}
}
