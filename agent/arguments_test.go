package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

const trip = `{"type":"object","required":["city","who"],"properties":{
	"city":{"type":"string","minLength":1},
	"who":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"age":{"type":"integer","maximum":150}}},
	"days":{"type":"array","items":{"type":"integer"}},
	"by":{"anyOf":[{"type":"object","required":["train"]},{"const":"foot"}]}},"additionalProperties":false}`

func TestValidateArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, schema, args string
		kind               actor.Kind
		missing            string
		says               string
	}{
		{"all right", trip, `{"city":"Bonn","who":{"name":"Ada","age":36},"days":[1,2],"by":{"train":1}}`, "", "", ""},
		{"no schema", "", `{"a":[1,{"b":null}]}`, "", "", ""},
		{"no schema and nothing", "null", "", "", "", ""},
		{"numbers stay exact", `{"type":"object","properties":{"n":{"const":12345678901234567890}}}`, `{"n":12345678901234567890}`, "", "", ""},
		{"nearly that number", `{"type":"object","properties":{"n":{"const":12345678901234567890}}}`, `{"n":12345678901234567891}`, actor.SubagentArgumentsInvalid, "", "arguments.n"},
		{"nothing", trip, "", actor.SubagentArgumentsRequired, "city,who", "missing city, who"},
		{"null", trip, " null ", actor.SubagentArgumentsRequired, "city,who", ""},
		{"one is missing", trip, `{"city":"Bonn"}`, actor.SubagentArgumentsRequired, "who", ""},
		{"one inside is missing", trip, `{"city":"Bonn","who":{}}`, actor.SubagentArgumentsRequired, "who.name", ""},
		{"missing comes before wrong", trip, `{"city":7}`, actor.SubagentArgumentsRequired, "who", ""},
		{"missing from one alternative only", trip, `{"city":"Bonn","who":{"name":"Ada"},"by":{"car":1}}`, actor.SubagentArgumentsInvalid, "", "arguments.by"},
		{"a wrong type", trip, `{"city":7,"who":{"name":"Ada"}}`, actor.SubagentArgumentsInvalid, "", "arguments.city: got number, want string"},
		{"a wrong item", trip, `{"city":"Bonn","who":{"name":"Ada"},"days":[1,"two"]}`, actor.SubagentArgumentsInvalid, "", "arguments.days[1]"},
		{"too much", trip, `{"city":"Bonn","who":{"name":"Ada"},"extra":1}`, actor.SubagentArgumentsInvalid, "", "extra"},
		{"no object", trip, `[1]`, actor.SubagentArgumentsInvalid, "", "not an object"},
		{"no JSON", trip, `{"a":`, actor.SubagentArgumentsInvalid, "", "arguments"},
		{"two values", trip, `{} {}`, actor.SubagentArgumentsInvalid, "", "arguments"},
		{"a number that would cost seconds", trip, `{"city":"Bonn","who":{"name":"Ada","age":1e999999999}}`, actor.SubagentArgumentsInvalid, "", "arguments.who.age: the number is too large"},
		{"a bad schema", `{"type":"object","properties":{"n":{"minimum":1e999999999}}}`, `{}`, actor.SchemaViolation, "", "properties.n.minimum"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			err := agent.ValidateArguments(json.RawMessage(c.schema), json.RawMessage(c.args))
			if actor.KindOf(err) != c.kind {
				t.Fatalf("%v, want the kind %q", err, c.kind)
			}
			var missing *agent.MissingError
			if errors.As(err, &missing) != (c.missing != "") || missing != nil && strings.Join(missing.Missing, ",") != c.missing {
				t.Errorf("%v, want %q to be missing", err, c.missing)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %q, want %q in it", err, c.says)
			}
		})
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	args := map[string]json.RawMessage{
		"city": json.RawMessage(`"Bonn \"on Rhine\""`), "n": json.RawMessage(`12345678901234567890`), "list": json.RawMessage("[1, \n2]"),
		"none": json.RawMessage(`null`), "trick": json.RawMessage(`"{{city}}"`), "two words": json.RawMessage(`"2"`), "raw": json.RawMessage(`nonsense`),
	}
	for text, want := range map[string]string{
		"":                        "",
		"no braces":               "no braces",
		"{{city}}":                `Bonn "on Rhine"`,
		"a {{ city }} b {{n}}":    `a Bonn "on Rhine" b 12345678901234567890`,
		"{{list}}{{none}}{{raw}}": "[1,2]nullnonsense",
		"{{two words}}":           "2",
		"{{unknown}} {{n}}":       "{{unknown}} 12345678901234567890",
		"{{trick}}":               "{{city}}",
		"{{{n}}}":                 "{12345678901234567890}",
		"{{ {{n}} }}":             "{{ 12345678901234567890 }}",
		"{{n":                     "{{n",
		"n}} {{n}} {{":            "n}} 12345678901234567890 {{",
		"{{}}":                    "{{}}",
		"{ {n}}":                  "{ {n}}",
	} {
		if got := agent.Render(text, args); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzRender holds what every text keeps to: without arguments it stays, no name that is left could have been
// filled in, and what an argument brings in stays as it is.
func FuzzRender(f *testing.F) {
	for _, text := range []string{"{{x}}", "{{{x}}}", "a{{ x }}b{{y}}", "{{x", "}}{{x}}{{", "{{ {{x}} }}"} {
		f.Add(text, "v")
		f.Add(text, "{{x}}")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if got := agent.Render(text, nil); got != text {
			t.Fatalf("without arguments %q became %q", text, got)
		}
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var exact string
		if err := json.Unmarshal(raw, &exact); err != nil {
			t.Fatal(err)
		}
		args := map[string]json.RawMessage{"x": raw}
		if got := agent.Render("{{x}}", args); got != exact {
			t.Fatalf("the value %q came as %q", exact, got)
		}
		if strings.Contains(agent.Render(text, map[string]json.RawMessage{"x": json.RawMessage(`"."`)}), "{{x}}") {
			t.Fatalf("%q was not filled in wholly", text)
		}
	})
}
