package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupehq/troupe/model"
)

// FuzzScript plays any JSON as a script: nothing panics but the verb, a script that ValidateScript
// refuses fails, and a result or the arguments of a call are always a JSON object.
func FuzzScript(f *testing.F) {
	for _, s := range []string{`[{"say":"x"}]`, `[{"result":{"a":"$last.a.0","$last":"$$x"}}]`, `[{"call":"t","arguments":{"x":"$inbox"}}]`,
		`[{"calls":[{"call":"$last.t"},{"call":"y","arguments":"$last"}]}]`, `[{"sleep_ms":"$results.0.n"}]`, `[{"fail":"$instruction"}]`,
		`[{"panic":"x"}]`, `[{"progress":"$task"}]`, `{}`, `[`, `[{}]`, `[{"result":"\u0024last"}]`, "[{\"result\":\"\xff$\"}]"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, list string, at int) {
		if !json.Valid([]byte(list)) || at < 1 {
			return
		}
		r := request("do it", "script", list)
		r.Step = at
		r.History = []model.Entry{message(2, at, "boss", `{"k":[1]}`), result(2, 1, `{"a":["x"],"t":"tool","n":5}`)}
		defer func() {
			if got := recover(); got != nil && !strings.Contains(list, "anic") && !strings.Contains(list, `\u`) {
				t.Errorf("only the verb may panic: %v", got)
			}
		}()
		refused := model.ValidateScript(json.RawMessage(list))
		resp := step(t, lookup(t, "builtin/script"), r)
		if strings.TrimSpace(list) != "null" && refused != nil && resp.Fail == "" {
			t.Errorf("a script that is not valid (%v) should fail, got %+v", refused, resp)
		}
		var objects []json.RawMessage
		if resp.Done {
			objects = append(objects, resp.Result)
		}
		for _, c := range resp.Calls {
			objects = append(objects, c.Arguments)
		}
		for _, v := range objects {
			if !json.Valid(v) || v[0] != '{' {
				t.Errorf("should be a JSON object: %q", v)
			}
		}
	})
}
