package work_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/work"
)

func TestServices(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]work.Service{
		"tool/render":    {Kind: "tool", Name: "render"},
		"model/acme/llm": {Kind: "model", Name: "acme/llm"},
	} {
		got, err := work.ParseService(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "tool", "tool/", "merge/x", "render", "tool/" + strings.Repeat("x", 129), "tool/\xff"} {
		if s, err := work.ParseService(text); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%q is taken for the service %v, %v", text, s, err)
		}
	}
	if s, ok := work.ModelService("worker/acme/llm"); !ok || s.String() != "model/acme/llm" {
		t.Errorf("worker/acme/llm is %v, %v", s, ok)
	}
	for _, name := range []string{"worker/", "openai/x", "worker"} {
		if s, ok := work.ModelService(name); ok {
			t.Errorf("the model %q is taken for the service %v", name, s)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	thread, n, err := work.ParseID(work.ID("sub_1f0c22aa", 12))
	if err != nil || thread != "sub_1f0c22aa" || n != 12 {
		t.Errorf("%s %d %v", thread, n, err)
	}
	for _, id := range []string{"", "sub_1", ".1", "sub_1.", "sub_1.0", "sub_1.01", "sub_1.-1", "sub_1.x", "sub_1.18446744073709551616"} {
		if thread, n, err := work.ParseID(id); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%q is taken for job %d of %s, %v", id, n, thread, err)
		}
	}
}

// Answers come from anybody: what is wrong with one is said by its field, and its id is told if it can be read.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, id, field string }{
		{`{"v":1,"id":"sub_1.2"}`, "sub_1.2", "result"},
		{`{"v":1,"id":"sub_1.2","result":1,"error":{"message":"x"}}`, "sub_1.2", "result"},
		{`{"v":2,"id":"sub_1.2","result":1}`, "sub_1.2", "v"},
		{`{"id":"sub_1.2","result":1}`, "sub_1.2", "v"},
		{`{"v":1,"id":"sub_1.2","error":{}}`, "sub_1.2", "error.message"},
		{`{"v":1,"id":"sub_1.2","error":"no"}`, "sub_1.2", ""},
		{`{"v":1,"id":"sub_1.2","response":{"calls":[{"name":"x"}]}}`, "sub_1.2", "response.calls"},
		{`{"v":1,"id":"sub_1.2","response":{"calls":[{"id":"1","name":"x","arguments":[1]}]}}`, "sub_1.2", "response.calls"},
		{`{"v":1,"id":"sub_1.2","response":{"sleep_ms":-1}}`, "sub_1.2", "response.sleep_ms"},
		{`{"v":1,"id":"sub_1.2","response":{"usage":{"input_tokens":-1}}}`, "sub_1.2", "response.usage"},
		{`{"v":1,"id":7,"result":1}`, "", ""},
		{`{"v":1,"id":"x","result":1}`, "", "id"},
		{`{"v":1,"result":1}`, "", "id"},
		{`[]`, "", ""},
		{`{`, "", ""},
		{``, "", ""},
		{"{\"v\":1,\"id\":\"sub_1.2\",\"result\":\"\xff\"}", "", ""},
	} {
		a, err := work.DecodeAnswer([]byte(c.text))
		var e *actor.Error
		if !errors.As(err, &e) || e.Field != c.field || c.field != "" && e.Kind != actor.SchemaViolation || c.field == "" && e.Kind != actor.ParseError {
			t.Errorf("%s: %v, want an error of %q", c.text, err, c.field)
		}
		if a == nil || a.ID != c.id {
			t.Errorf("%s: the id is read as %v, want %q", c.text, a, c.id)
		}
	}
	for _, text := range []string{
		`{"v":1,"id":"sub_1.2","result":null}`,
		`{"v":1,"id":"sub_1.2","result":{"a":1},"new":2}`,
		`{"v":1,"id":"sub_1.2","response":{}}`,
		`{"v":1,"id":"sub_1.2","error":{"message":"x","retryable":true}}`,
	} {
		if _, err := work.DecodeAnswer([]byte(text)); err != nil {
			t.Errorf("%s is refused: %v", text, err)
		}
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"sub_1.2","result":{"a":1}}`))
	f.Add([]byte(`{"v":1,"id":"sub_1.2","response":{"text":"x","calls":[{"id":"1","name":"t","arguments":{}}],"usage":{"input_tokens":1,"output_tokens":2}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := work.DecodeAnswer(data)
		if a == nil {
			t.Fatal("no answer at all")
		}
		if err == nil && a.Result != nil && !json.Valid(a.Result) {
			t.Errorf("a result that is not JSON came through: %q", a.Result)
		}
	})
}
