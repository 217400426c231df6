package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

func TestScriptPlaysOneStepAStep(t *testing.T) {
	t.Parallel()
	const list = `[
		{"say":"hello"}, {"progress":"half way"}, {"sleep_ms":1500}, {"sleep_ms":86400000},
		{"call":"search","arguments":{"q":"x"}}, {"call":"list"},
		{"calls":[{"call":"a","arguments":{"n":1}},{"call":"b"}]},
		{"fail":"no luck"}, {"fail":""}, {"result":[1, 2]}, {"result":{"a":1}}, {"say":"bye"}]`
	obj := func(s string) json.RawMessage { return json.RawMessage(s) }
	want := []model.Response{
		{Text: "hello"}, {}, {Sleep: 1500 * time.Millisecond}, {Sleep: 24 * time.Hour},
		{Calls: []model.Call{{ID: "c5", Name: "search", Arguments: obj(`{"q":"x"}`)}}},
		{Calls: []model.Call{{ID: "c6", Name: "list", Arguments: obj(`{}`)}}},
		{Calls: []model.Call{{ID: "c7_1", Name: "a", Arguments: obj(`{"n":1}`)}, {ID: "c7_2", Name: "b", Arguments: obj(`{}`)}}},
		{Fail: "no luck"}, {Fail: "task.metadata.script[8]: failed without a reason"},
		{Done: true, Result: obj(`{"output":[1, 2]}`)}, {Done: true, Result: obj(`{"a":1}`)},
		{Text: "bye", Done: true, Result: obj(`{"output":"bye"}`)},
	}
	r := request("x", "script", list)
	var progress []string
	r.Progress = func(text string) { progress = append(progress, text) }
	for i := range want {
		r.Step = i + 1
		if got := step(t, lookup(t, "builtin/script"), r); !reflect.DeepEqual(*got, want[i]) {
			t.Errorf("step %d of the script came out differently\nwant %+v\ngot  %+v", r.Step, want[i], *got)
		}
	}
	if !reflect.DeepEqual(progress, []string{"half way"}) {
		t.Errorf("watchers should have been told once, by the progress step: %q", progress)
	}
}

func TestScriptPastTheEndGivesTheLastToolResultOfThisSession(t *testing.T) {
	t.Parallel()
	m := lookup(t, "builtin/script")
	r := request("x", "script", `[{"call":"tool"}]`)
	r.Step = 2
	r.History = []model.Entry{result(1, 1, `"of an earlier session"`)}
	wantResult(t, step(t, m, r), `{"output":null}`)
	r.History = append(r.History, result(2, 1, `"old"`), result(2, 1, `{"n":1}`))
	wantResult(t, step(t, m, r), `{"n":1}`)
	r.Step = 1000
	wantResult(t, step(t, m, r), `{"n":1}`)
	wantResult(t, step(t, m, request("x", "script", `[]`)), `{"output":null}`)
}

func TestScriptOfTheTaskComesBeforeThatOfTheSubagent(t *testing.T) {
	t.Parallel()
	m := lookup(t, "builtin/script")
	r := request("told", "script", `[{"result":"task"}]`)
	r.Config.Metadata = meta("script", `[{"result":"agent"}]`)
	wantResult(t, step(t, m, r), `{"output":"task"}`)
	r.Task.Metadata["script"] = json.RawMessage("null")
	wantResult(t, step(t, m, r), `{"output":"agent"}`)
	r.Task = nil
	wantResult(t, step(t, m, r), `{"output":"agent"}`)

	r = request("told")
	wantResult(t, step(t, m, r), `{"output":"told"}`)
	r.History = []model.Entry{message(1, 1, "boss", `"stale"`)}
	wantResult(t, step(t, m, r), `{"output":"told"}`)
	r.History = append(r.History, message(2, 1, "boss", `"news"`))
	wantResult(t, step(t, m, r), `{"output":"news"}`)
}

func TestScriptPanicsWithTheText(t *testing.T) {
	t.Parallel()
	m := lookup(t, "builtin/script")
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("the step should have panicked with the script's text, got %v", got)
		}
	}()
	resp := step(t, m, request("x", "script", `[{"panic":"boom"}]`))
	t.Errorf("the step should have panicked, got %+v", resp)
}

func TestSubstitution(t *testing.T) {
	t.Parallel()
	r := request("do <it>")
	r.Step = 3
	r.Task.SuccessCriteria = []string{"soon"}
	r.Task.Metadata["n"] = json.RawMessage("7")
	r.History = []model.Entry{
		message(1, 3, "early", `"of an earlier session"`), result(1, 1, `"of an earlier session"`),
		message(2, 2, "early", `"shown before"`),
		result(2, 1, `{"a":{"b":[10,{"c":"deep"}]},"big":12345678901234567890,"":1}`), result(2, 2, `["x", 1.50, null]`),
		message(2, 3, "ada", `{"k": 1}`),
		{Kind: model.EntryCompletion, Session: 2, Step: 3, From: "sub_2", Type: "completion"},
		message(2, 4, "late", `"not yet"`),
	}
	for in, want := range map[string]string{
		`"$last"`:                    `["x", 1.50, null]`,
		`"$last.1"`:                  `1.50`,
		`"$last.2"`:                  `null`,
		`"$last.3"`:                  `null`,
		`"$last.-1"`:                 `null`,
		`"$last.01"`:                 `null`,
		`"$last.x"`:                  `null`,
		`"$last.0.x"`:                `null`,
		`"$last."`:                   `null`,
		`"$results.0.a.b.1.c"`:       `"deep"`,
		`"$results.0.big"`:           `12345678901234567890`,
		`"$results.0."`:              `1`,
		`"$results.2"`:               `null`,
		`"$results.x"`:               `null`,
		`"$results"`:                 `[{"a":{"b":[10,{"c":"deep"}]},"big":12345678901234567890,"":1},["x",1.50,null]]`,
		`"$inbox"`:                   `[{"from":"ada","type":"note","content":{"k":1}},{"from":"sub_2","type":"completion","content":null}]`,
		`"$inbox.0.content.k"`:       `1`,
		`"$inbox.1.from"`:            `"sub_2"`,
		`"$inbox.2"`:                 `null`,
		`"$instruction"`:             `"do <it>"`,
		`"$instruction.0"`:           `null`,
		`"$task.name"`:               `"job"`,
		`"$task.metadata.n"`:         `7`,
		`"$task.success_criteria.0"`: `"soon"`,
		`"$$last"`:                   `"$last"`,
		`"$$$<"`:                     `"$$<"`,
		`"\u0024last.1"`:             `1.50`,
		`"$"`:                        `"$"`,
		`"$5.00"`:                    `"$5.00"`,
		`"$lastly"`:                  `"$lastly"`,
		`"the $last"`:                `"the $last"`,
		`" $last"`:                   `" $last"`,
		`{"z": ["$last.1", {"a":"$last.0"}], "$last":"$last.0", "b":1e5}`: `{"z": [1.50, {"a":"x"}], "$last":"x", "b":1e5}`,
		`["$last.0","$last.0",[],{},"$last.0"]`:                           `["x","x",[],{},"x"]`,
	} {
		r.Task.Metadata["script"] = nil
		r.Config.Metadata = meta("script", `[{"say":""},{"say":""},{"result":{"v":`+in+`}}]`)
		wantResult(t, step(t, lookup(t, "builtin/script"), r), `{"v":`+want+`}`)
	}
}

func TestSubstitutedValuesAreNotSearchedAgain(t *testing.T) {
	t.Parallel()
	r := request("x", "script", `[{"result":"$last"}]`)
	r.History = []model.Entry{result(2, 1, `{"a":"$instruction"}`)}
	wantResult(t, step(t, lookup(t, "builtin/script"), r), `{"a":"$instruction"}`)
	r.Task = nil
	r.Config.Metadata = meta("script", `[{"result":["$task","$task.name","$instruction","$inbox"]}]`)
	wantResult(t, step(t, lookup(t, "builtin/script"), r), `{"output":[null,null,null,[]]}`)
}

func TestReferencesWorkInEveryVerb(t *testing.T) {
	t.Parallel()
	m := lookup(t, "builtin/script")
	r := request("x")
	r.History = []model.Entry{result(2, 1, `{"tool":"search","args":{"q":1},"ms":20,"text":"hi","n":[1, 2]}`)}
	play := func(list string) *model.Response {
		r.Task.Metadata["script"] = json.RawMessage(list)
		return step(t, m, r)
	}
	if got := play(`[{"call":"$last.tool","arguments":"$last.args"}]`); len(got.Calls) != 1 || got.Calls[0].Name != "search" || string(got.Calls[0].Arguments) != `{"q":1}` {
		t.Errorf("name and arguments should come from the last result: %+v", got)
	}
	if got := play(`[{"sleep_ms":"$last.ms"}]`); got.Sleep != 20*time.Millisecond {
		t.Errorf("the sleep should come from the last result: %+v", got)
	}
	if got := play(`[{"say":"$last.n"},{"say":""}]`); got.Text != "[1,2]" {
		t.Errorf("a text that is no string should be told as JSON: %+v", got)
	}
	if got := play(`[{"fail":"$last.text"}]`); got.Fail != "hi" {
		t.Errorf("the failure should come from the last result: %+v", got)
	}
	for list, want := range map[string]string{
		`[{"sleep_ms":"$last.text"}]`:                         `task.metadata.script[0].sleep_ms: "hi" is not an integer from 0 to 86400000`,
		`[{"call":"$last.ms"}]`:                               `task.metadata.script[0].call: 20 is not the name of a tool`,
		`[{"call":"t","arguments":"$last.n"}]`:                `task.metadata.script[0].arguments: [1, 2] is not an object`,
		`[{"calls":[{"call":"t"},{"call":"$last.missing"}]}]`: `task.metadata.script[0].calls[1].call: null is not the name of a tool`,
	} {
		if got := play(list); got.Fail != want {
			t.Errorf("%s should fail with\n  %s\ngot\n  %+v", list, want, got)
		}
	}
}

func TestStepMayNotGrowWithoutBound(t *testing.T) {
	t.Parallel()
	r := request("x", "script", `[{"result":[`+strings.Repeat(`"$last",`, 99)+`"$last"]}]`)
	r.History = []model.Entry{result(2, 1, `"`+strings.Repeat("x", 100_000)+`"`)}
	if got := step(t, lookup(t, "builtin/script"), r); !strings.Contains(got.Fail, "script[0].result: grows over") {
		t.Errorf("10 MB out of one step should fail and say so, got %d bytes and %q", len(got.Result), got.Fail)
	}
}

func TestInvalidScriptsFailNamingTheIndex(t *testing.T) {
	t.Parallel()
	for list, field := range map[string]string{
		`{}`: "", `"x"`: "", `1`: "", `true`: "",
		`[1]`: "[0]", `[null]`: "[0]", `[[]]`: "[0]", `[{}]`: "[0]", `[{"say":"x"},{"sing":"x"}]`: "[1]",
		`[{"say":"x","fail":"y"}]`: "[0]", `[{"result":1,"result2":1}]`: "[0]", `[{"call":"x","calls":[]}]`: "[0]",
		`[{"Say":"x"}]`: "[0]", `[{"arguments":{}}]`: "[0]",
		`[{"say":1}]`: "[0].say", `[{"say":null}]`: "[0].say", `[{"fail":[]}]`: "[0].fail", `[{"progress":{}}]`: "[0].progress", `[{"panic":1}]`: "[0].panic",
		`[{"sleep_ms":-1}]`: "[0].sleep_ms", `[{"sleep_ms":86400001}]`: "[0].sleep_ms", `[{"sleep_ms":1.5}]`: "[0].sleep_ms",
		`[{"sleep_ms":"10"}]`: "[0].sleep_ms", `[{"sleep_ms":null}]`: "[0].sleep_ms", `[{"sleep_ms":1e999}]`: "[0].sleep_ms",
		`[{"call":""}]`: "[0].call", `[{"call":1}]`: "[0].call", `[{"call":"x","arguments":[]}]`: "[0].arguments",
		`[{"call":"x","arguments":"$$last"}]`: "[0].arguments", `[{"say":"x","arguments":{}}]`: "[0].arguments",
		`[{"calls":[]}]`: "[0].calls", `[{"calls":{}}]`: "[0].calls", `[{"calls":null}]`: "[0].calls",
		`[{"calls":[1]}]`: "[0].calls[0]", `[{"calls":[{"call":"x"},{"call":"y","x":1}]}]`: "[0].calls[1]", `[{"calls":[{}]}]`: "[0].calls[0].call",
	} {
		err := model.ValidateScript(json.RawMessage(list))
		var e *actor.Error
		if !errors.As(err, &e) || e.Kind != actor.SchemaViolation || e.Field != "script"+field {
			t.Errorf("%s should be a schema_violation of script%s, got %v", list, field, err)
			continue
		}
		r := request("x", "script", list)
		want := fmt.Sprintf("task.metadata.script%s: %v", field, e.Err)
		if got := step(t, lookup(t, "builtin/script"), r); got.Fail != want || got.Done {
			t.Errorf("%s should fail with\n  %s\ngot\n  %+v", list, want, got)
		}
		r.Task, r.Config = nil, a2e.SubagentConfig{Metadata: meta("script", list)}
		if got := step(t, lookup(t, "builtin/script"), r); !strings.HasPrefix(got.Fail, "agent.metadata.script"+field+": ") {
			t.Errorf("%s of the subagent should be told apart from the task's, got %q", list, got.Fail)
		}
	}
}

func TestValidScripts(t *testing.T) {
	t.Parallel()
	for _, list := range []string{`[]`, ` [ {"sleep_ms":0} ] `, `[{"sleep_ms":3e0}]`, `[{"sleep_ms":"$last.ms"}]`, `[{"result":null}]`,
		`[{"call":"x","arguments":null}]`, `[{"call":"$last.x","arguments":"$task"}]`, `[{"say":""}]`} {
		if err := model.ValidateScript(json.RawMessage(list)); err != nil {
			t.Errorf("%s is a script, but was refused: %v", list, err)
		}
	}
	for _, list := range []string{``, `null`, `[`} {
		if err := model.ValidateScript(json.RawMessage(list)); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%q is no script, but was not refused as schema_violation: %v", list, err)
		}
	}
}

func TestStepsCountFromOne(t *testing.T) {
	t.Parallel()
	r := request("x", "script", `[{"say":"x"}]`)
	r.Step = 0
	if resp, err := lookup(t, "builtin/script").Step(t.Context(), r); !errors.Is(err, actor.SchemaViolation) {
		t.Errorf("step 0 is a mistake of the caller's and should be an error, got %+v and %v", resp, err)
	}
}
