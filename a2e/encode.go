package a2e

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/actor"
)

// rawDepth is how deep a free-form value may be nested; the rest of answerDepth is for what it stands
// in.
const rawDepth = answerDepth - 100

// Encode writes m as one line of JSON, without a line feed. Zero fields that have a default in the
// specification are written as that default. It fails, with RuntimeError and the Field, only if a
// free-form value is not valid JSON, or is not an object where the specification wants one.
func Encode(m Message) ([]byte, error) { return Append(make([]byte, 0, 256), m) }

// Append is Encode into a buffer: it appends the line to dst.
func Append(dst []byte, m Message) ([]byte, error) {
	w := writer{b: dst}
	w.message(m)
	if w.err != nil {
		return nil, w.err
	}
	return w.b, nil
}

// A writer appends JSON. It keeps the first failure.
type writer struct {
	b   []byte
	err error
}

func (w *writer) fail(field, why string) {
	if w.err == nil {
		d := decoder{}
		d.fail(field, actor.RuntimeError, why)
		d.err.Op = "a2e.Encode"
		w.err = d.err
	}
}

func (w *writer) message(m Message) {
	w.open()
	w.text("type", m.Type())
	e := m.Env()
	w.optional("id", e.ID)
	w.optional("req_id", e.ReqID)
	w.optional("version", e.Version)
	w.optional("a2e", e.A2E)
	if e.TS != 0 {
		w.float("ts", e.TS)
	}
	m.write(w)
	w.close()
}

func (w *writer) open()  { w.b = append(w.b, '{') }
func (w *writer) close() { w.b = append(w.b, '}') }

// key begins a field. No value ends in an opening brace, so the comma can be told from that.
func (w *writer) key(key string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), key...), '"', ':')
}

func (w *writer) text(key, s string) {
	w.key(key)
	w.b = appendText(w.b, s)
}

func (w *writer) optional(key, s string) {
	if s != "" {
		w.text(key, s)
	}
}

func (w *writer) integer(key string, n int64) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) unsigned(key string, n uint64) {
	w.key(key)
	w.b = strconv.AppendUint(w.b, n, 10)
}

// float writes a number as encoding/json does, in full where that is readable.
func (w *writer) float(key string, f float64) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		w.fail(key, "is not a number")
		return
	}
	w.key(key)
	format := byte('f')
	if abs := math.Abs(f); abs < 1e-6 || abs >= 1e21 {
		format = 'e'
	}
	w.b = strconv.AppendFloat(w.b, f, format, -1, 64)
}

func (w *writer) boolean(key string, v bool) {
	w.key(key)
	w.b = strconv.AppendBool(w.b, v)
}

// list writes the elements of a list with one.
func list[T any](w *writer, key string, all []T, one func(*writer, T)) {
	w.key(key)
	w.b = append(w.b, '[')
	for i, v := range all {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		one(w, v)
	}
	w.b = append(w.b, ']')
}

// element writes one text of a list.
func element[T ~string](w *writer, s T) { w.b = appendText(w.b, string(s)) }

// raw writes a free-form value; nil is written as absent says.
func (w *writer) raw(key string, raw json.RawMessage, absent string, dict bool) {
	w.key(key)
	w.value(key, raw, absent, dict)
}

func (w *writer) value(field string, raw json.RawMessage, absent string, dict bool) {
	if raw == nil {
		w.b = append(w.b, absent...)
		return
	}
	if err := check(raw, rawDepth); err != nil {
		w.fail(field, err.Error())
		return
	}
	raw = trim(raw)
	if dict && raw[0] != '{' && !(isNull(raw) && absent == "null") {
		w.fail(field, whyObject)
		return
	}
	w.b = appendRaw(w.b, raw)
}

func (w *writer) dict(key string, all map[string]json.RawMessage) {
	w.key(key)
	w.open()
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if w.b[len(w.b)-1] != '{' {
			w.b = append(w.b, ',')
		}
		w.b = append(appendText(w.b, k), ':')
		w.value(key, all[k], "null", false)
	}
	w.close()
}
