package worker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

// The published schema is that of the messages that are really sent, and refuses what the runtime refuses.
func TestSchema(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCompiler()
	at := func(name string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("../docs/work.schema.json#/$defs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	fits := func(s *jsonschema.Schema, text string) error {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return s.Validate(v)
	}
	job, answer := at("job"), at("answer")
	s := start(t, host.Config{})
	s.calls("render", `{"text":"x"}`)
	s.calls("hasty", `{}`)
	id := s.spawn(`"model":"worker/local","timeout_seconds":600`)
	s.delegate(id, `{}`)
	for _, service := range []string{"tool/render", "tool/hasty", "model/local"} {
		taken, _ := s.take(s.taker(service, 5))
		if err := fits(job, string(taken.Data)); err != nil {
			t.Errorf("a job that was queued is not one by the schema: %v\n%s", err, taken.Data)
		}
		if service != "tool/render" && !bytes.Contains(taken.Data, []byte(`"deadline":"`)) {
			t.Errorf("the job has no deadline: %s", taken.Data)
		}
		if err := taken.Done(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{`"result":null`, `"error":{"message":"x"}`, `"response":{"text":"x","calls":[{"id":"1","name":"t","arguments":{}}],"usage":{"usd":0.1}}`} {
		if err := fits(answer, fmt.Sprintf(`{"v":1,"id":"sub_1.2",%s}`, text)); err != nil {
			t.Errorf("%s is no answer by the schema: %v", text, err)
		}
	}
	for _, text := range []string{`"x":1`, `"result":1,"error":{"message":"x"}`, `"error":{}`, `"response":{"calls":[{"name":"x"}]}`, `"response":{"sleep_ms":-1}`} {
		if fits(answer, fmt.Sprintf(`{"v":1,"id":"sub_1.2",%s}`, text)) == nil {
			t.Errorf("%s is an answer by the schema", text)
		}
	}
}
