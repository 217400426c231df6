package a2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/troupehq/troupe/a2e"
)

// lines reads a golden file: one message a line. examples.ndjson holds the wire examples of the
// specification, more.ndjson has the messages and extensions that it has no example of.
func lines(tb testing.TB, file string) [][]byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

// read decodes a line of either kind.
func read(data []byte) (a2e.Message, error) {
	if r, err := a2e.Decode(data); err == nil {
		return r, nil
	}
	return a2e.DecodeAnswer(data)
}

func TestS0_WireExamples(t *testing.T) {
	t.Parallel()
	if n := len(lines(t, "examples.ndjson")); n != 8 {
		t.Errorf("the specification has 8 wire examples, the golden file %d", n)
	}
	seen := map[string]bool{}
	for _, file := range []string{"examples.ndjson", "more.ndjson"} {
		for _, line := range lines(t, file) {
			m, err := read(line)
			if err != nil {
				t.Errorf("%s: a golden line is refused: %v\n%s", file, err, line)
				continue
			}
			seen[m.Type()] = true
			got, err := a2e.Encode(m)
			if err != nil || !bytes.Equal(got, line) {
				t.Errorf("%s: a golden line does not survive decode and encode (%v)\nis    %s\nwants %s", file, err, got, line)
			}
			unmarshalled(t, m, line)
		}
	}
	if len(seen) != 17 {
		t.Errorf("the golden files show %d message types of 17: %v", len(seen), seen)
	}
}

// unmarshalled holds the json tags of the structs to what the codec reads and writes.
func unmarshalled(t *testing.T, m a2e.Message, line []byte) {
	t.Helper()
	loose := bytes.Replace(line, []byte(`"status":"READY",`), []byte(`"status":["READY"],`), 1)
	if m.Type() != a2e.TypeListReq {
		loose = line
	}
	other := reflect.New(reflect.TypeOf(m).Elem())
	if err := json.Unmarshal(loose, other.Interface()); err != nil {
		t.Errorf("%s: json.Unmarshal refuses a golden line: %v", m.Type(), err)
		return
	}
	got, err := json.Marshal(other.Interface())
	if err != nil {
		t.Errorf("%s: json.Marshal: %v", m.Type(), err)
		return
	}
	var is, wants any
	if json.Unmarshal(got, &is) != nil || json.Unmarshal(line, &wants) != nil || !reflect.DeepEqual(is, wants) {
		t.Errorf("%s: the json tags disagree with the codec\nis    %s\nwants %s", m.Type(), got, line)
	}
}

func TestEncode_OneLine(t *testing.T) {
	t.Parallel()
	m := &a2e.MessageReq{
		FromSubagentID: "a\nb", ToSubagentID: "c",
		Message: a2e.MessagePayload{Type: "x\r\u2028<", Content: json.RawMessage("\n{ \"a\" :\r\n [1,\t2] }\n")},
	}
	got, err := a2e.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"a\nb","to_subagent_id":"c","message":{"type":"x\r` + "\u2028" + `<","content":{"a":[1,2]}}}`
	if string(got) != want {
		t.Errorf("a message must stay one line and escape only what it must\nis    %s\nwants %s", got, want)
	}
	more, err := a2e.Append([]byte("data: "), m)
	if err != nil || string(more) != "data: "+want {
		t.Errorf("Append must leave what is in the buffer: %s (%v)", more, err)
	}
}

func TestEncode_TextAsEncodingJSON(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for c := rune(0); c < 0x250; c++ {
		all.WriteRune(c)
	}
	all.WriteString("\U0001F600\xff\"")
	line, err := a2e.Encode(&a2e.Event{SubagentID: "a", Event: all.String()})
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Event string }
	if err := json.Unmarshal(line, &back); err != nil || back.Event != strings.ToValidUTF8(all.String(), "\uFFFD") {
		t.Errorf("encoding/json reads another text than was written (%v): %q", err, back.Event)
	}
}

func TestEncode_RefusesBrokenValues(t *testing.T) {
	t.Parallel()
	for field, m := range map[string]a2e.Message{
		"result":        &a2e.AwaitResp{Result: json.RawMessage(`"text"`)},
		"usage":         &a2e.AwaitResp{Usage: json.RawMessage(`{`)},
		"merged_result": &a2e.MergeResp{MergedResult: json.RawMessage(`[]`)},
		"content":       &a2e.Event{Content: json.RawMessage(`null`)},
		"metadata":      &a2e.DelegateReq{Task: a2e.TaskDefinition{Metadata: map[string]json.RawMessage{"a": json.RawMessage("")}}},
	} {
		got, err := a2e.Encode(m)
		if e := asError(t, err); e == nil || e.Field != field {
			t.Errorf("%s: a broken value must not reach the wire: %s (%v)", field, got, err)
		}
	}
}
