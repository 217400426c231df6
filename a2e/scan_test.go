package a2e

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The scanner must agree with encoding/json on what JSON is, and on what a string says.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+7,true,false,null,"\u00e9\ud83d\ude00\n"]}`, `[[],{}]`, ` 1 `, `-`, `01`, `1e`, `"\ud800"`, `"\`, `nul`, "\"\x7f\"", "\"\x00\"", `{"a":1,}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := check(data, answerDepth) == nil, json.Valid(data) && utf8.Valid(data)
		if ours != theirs {
			t.Fatalf("valid by the scanner: %v, by encoding/json: %v: %q", ours, theirs, data)
		}
		unquote(data)
		if data = trim(data); !ours || data[0] != '"' {
			return
		}
		var want string
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		got, ok := unquote(data)
		if ok && got != want || !ok && !strings.ContainsRune(want, utf8.RuneError) {
			t.Fatalf("the string says %q (%v), not %q", want, ok, got)
		}
		if back := appendText(nil, got); ok && check(back, 1) != nil {
			t.Fatalf("written as invalid JSON: %s", back)
		}
	})
}
