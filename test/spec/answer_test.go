package spec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// An answer is a JSON value as it came, and what a test asks about it.
type answer struct {
	t   *testing.T
	raw string
}

func parse(t *testing.T, raw string) answer {
	t.Helper()
	if !json.Valid([]byte(raw)) {
		t.Fatalf("not JSON: %.500s", raw)
	}
	return answer{t, raw}
}

// find follows a path of keys and list indices, with dots between.
func (a answer) find(path string) (raw string, ok bool) {
	raw = a.raw
	for _, name := range strings.Split(path, ".") {
		var keys map[string]json.RawMessage
		var list []json.RawMessage
		i, err := strconv.Atoi(name)
		switch {
		case json.Unmarshal([]byte(raw), &keys) == nil && keys[name] != nil:
			raw = string(keys[name])
		case err == nil && json.Unmarshal([]byte(raw), &list) == nil && i < len(list):
			raw = string(list[i])
		default:
			return "", false
		}
	}
	return raw, true
}

func (a answer) has(path string) bool {
	_, ok := a.find(path)
	return ok
}

// at gives what stands at a path.
func (a answer) at(path string) answer {
	a.t.Helper()
	raw, ok := a.find(path)
	if !ok {
		a.t.Fatalf("there is no %s in %.2000s", path, a.raw)
	}
	return answer{a.t, raw}
}

// text gives the string at a path, or the JSON of what is no string.
func (a answer) text(path string) string {
	a.t.Helper()
	raw := a.at(path).raw
	var s string
	if json.Unmarshal([]byte(raw), &s) != nil {
		return raw
	}
	return s
}

func (a answer) number(path string) int {
	a.t.Helper()
	n, err := strconv.Atoi(a.text(path))
	if err != nil {
		a.t.Fatalf("%s is no integer in %.2000s", path, a.raw)
	}
	return n
}

func (a answer) list(path string) []answer {
	a.t.Helper()
	raw := a.raw
	if path != "" {
		raw = a.at(path).raw
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		a.t.Fatalf("%s is no list in %.2000s", path, a.raw)
	}
	all := make([]answer, len(list))
	for i := range list {
		all[i] = answer{a.t, string(list[i])}
	}
	return all
}

// is checks that a path holds a value, whatever the order of its keys.
func (a answer) is(path, want string) {
	a.t.Helper()
	got, ok := a.find(path)
	if !ok {
		a.t.Errorf("there is no %s, want %s, in\n%.2000s", path, want, a.raw)
		return
	}
	if canonical(a.t, got) != canonical(a.t, want) {
		a.t.Errorf("%s is %.1000s, want %.1000s, in\n%.2000s", path, got, want, a.raw)
	}
}

// missing checks that nothing stands at a path.
func (a answer) missing(path string) {
	a.t.Helper()
	if got, ok := a.find(path); ok {
		a.t.Errorf("there is a %s, %.1000s, where nothing should be, in\n%.2000s", path, got, a.raw)
	}
}

// equals checks the whole text, byte for byte.
func (a answer) equals(want string) {
	a.t.Helper()
	if a.raw != want {
		a.t.Errorf("got  %.2000s\nwant %.2000s", a.raw, want)
	}
}

// same checks the whole value, whatever the order of its keys and the escapes of its texts.
func (a answer) same(want string) {
	a.t.Helper()
	if canonical(a.t, a.raw) != canonical(a.t, want) {
		a.t.Errorf("got  %.2000s\nwant %.2000s", a.raw, want)
	}
}

func canonical(t *testing.T, raw string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %.500s", raw)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// quote is s as a JSON string.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
