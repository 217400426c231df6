package a2e_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

func seed(f *testing.F) {
	for _, file := range []string{"examples.ndjson", "more.ndjson"} {
		for _, line := range lines(f, file) {
			f.Add(line)
			f.Add(line[:len(line)/2])
		}
	}
	for _, s := range shapes {
		for field, values := range s.fields {
			for _, v := range values {
				f.Add([]byte(s.before + `"` + field + `":` + v + s.after))
			}
		}
	}
	f.Add([]byte("{\"type\":\"SUBAGENT_MESSAGE_REQ\",\"from_subagent_id\":\"a\",\"to_subagent_id\":\"b\",\"message\":{\"type\":\"t\",\"content\":[\r\n1]}}"))
}

// A request that was read, written and read again is the same request; nothing panics; what is refused
// is refused by an *actor.Error of the Kinds that the package comment promises.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		env := a2e.DecodeEnvelope(data)
		m, err := a2e.Decode(data)
		if err != nil {
			switch asError(t, err).Kind {
			case actor.ParseError, actor.InvalidMessage, actor.SchemaViolation, actor.TooLarge:
			default:
				t.Fatalf("refused with a Kind that is not promised: %v", err)
			}
			return
		}
		if m.Env().ID != env.ID || m.Env().Version != env.Version {
			t.Fatalf("DecodeEnvelope and Decode disagree: %+v and %+v", env, m.Env())
		}
		again(t, m, func(line []byte) (a2e.Message, error) { return a2e.Decode(line) })
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := a2e.DecodeAnswer(data)
		if err != nil {
			asError(t, err)
			return
		}
		again(t, m, a2e.DecodeAnswer)
	})
}

func again(t *testing.T, m a2e.Message, decode func([]byte) (a2e.Message, error)) {
	t.Helper()
	line, err := a2e.Encode(m)
	if err != nil {
		t.Fatalf("a message that was read can't be written: %v", err)
	}
	if strings.ContainsAny(string(line), "\r\n") {
		t.Fatalf("a message must be one line: %q", line)
	}
	other, err := decode(line)
	if err != nil {
		t.Fatalf("a message that was written can't be read: %v\n%s", err, line)
	}
	if !reflect.DeepEqual(m, other) {
		t.Fatalf("written and read again it is another message\nwas %+v\nis  %+v\n%s", m, other, line)
	}
}
