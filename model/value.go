package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Object gives v itself when it is a JSON object, else {"output": v}. An empty v counts as null.
func Object(v json.RawMessage) json.RawMessage {
	v = orNull(v)
	if v[0] == '{' {
		return v
	}
	out := make(json.RawMessage, 0, len(v)+len(`{"output":}`))
	out = append(out, `{"output":`...)
	out = append(out, v...)
	return append(out, '}')
}

// orNull trims v and makes an empty one null.
func orNull(v json.RawMessage) json.RawMessage {
	if v = bytes.TrimSpace(v); len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}

// isNull reports whether v is absent or null, which mean the same in optional metadata.
func isNull(v json.RawMessage) bool { return string(orNull(v)) == "null" }

// encode is json.Marshal without the HTML escapes, so that "<" stays "<".
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// textOf is v as a person would read it: the string itself when v is a JSON string, else the
// compact JSON. An absent v is the empty text.
func textOf(v json.RawMessage) string {
	if len(bytes.TrimSpace(v)) == 0 {
		return ""
	}
	if s, ok := stringOf(v); ok {
		return s
	}
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return string(v) // not JSON after all: then the bytes are the text
	}
	return b.String()
}

// stringOf reads a JSON string.
func stringOf(v json.RawMessage) (string, bool) {
	if v = orNull(v); v[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err == nil
}

// integerOf reads a whole JSON number from low to high. 3.0 and 3e0 are whole.
func integerOf(v json.RawMessage, low, high int64) (int64, error) {
	v = orNull(v)
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !json.Valid(v) || f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		return 0, fmt.Errorf("%s is not an integer from %d to %d", brief(v), low, high)
	}
	return int64(f), nil
}

// brief shortens a value for an error message.
func brief(v json.RawMessage) string {
	const most = 60
	if len(v) <= most {
		return string(v)
	}
	return string(bytes.ToValidUTF8(v[:most], nil)) + "…"
}

// newest is the content of the newest message or completion of this session.
func newest(r *Request) (json.RawMessage, bool) {
	for i := len(r.History) - 1; i >= 0; i-- {
		e := &r.History[i]
		if e.Session == r.Session && (e.Kind == EntryMessage || e.Kind == EntryCompletion) {
			return e.Content, true
		}
	}
	return nil, false
}

// told is what the session is about: the task's instruction; without a task, the text of the
// newest message or completion, since one of these opened the session.
func told(r *Request) string {
	if r.Task != nil {
		return r.Task.Instruction
	}
	content, _ := newest(r)
	return textOf(content)
}
