package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

// readValues reads {"values": {NAME: "…"}}. What is wrong is told with the HTTP status for it, and without a word of
// what was sent.
func readValues(w http.ResponseWriter, r *http.Request) (values map[string]string, status int, err error) {
	if err := sentAsJSON(r); err != nil {
		return nil, http.StatusUnsupportedMediaType, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, because(actor.TooLarge, "", "a body has at most %d bytes", maxBody)
	case err != nil:
		return nil, http.StatusRequestTimeout, because(actor.Timeout, "", "the body did not come to its end")
	}
	values, err = parseValues(data)
	return values, http.StatusBadRequest, err
}

// sentAsJSON checks what a body claims to be.
func sentAsJSON(r *http.Request) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return because(actor.InvalidMessage, "Content-Type", "it has to be application/json")
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
		return because(actor.InvalidMessage, "Content-Type", "JSON is in UTF-8")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return because(actor.InvalidMessage, "Content-Encoding", "a body is taken as it is only")
	}
	return nil
}

func parseValues(data []byte) (map[string]string, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, because(actor.ParseError, "", "the body is not JSON in UTF-8")
	}
	body, ok := members(data)
	if !ok {
		return nil, because(actor.ParseError, "", "the body is not a JSON object")
	}
	at := slices.IndexFunc(body, func(m member) bool { return m.name == "values" })
	switch {
	case at < 0:
		return nil, because(actor.SchemaViolation, "values", "is required")
	case len(body) > 1:
		return nil, because(actor.SchemaViolation, "", "the body has one member, values, and no other")
	}
	given, ok := members(body[at].value)
	if !ok {
		return nil, because(actor.SchemaViolation, "values", "must be an object")
	}
	values := make(map[string]string, len(given))
	for _, m := range given {
		if _, twice := values[m.name]; twice {
			return nil, because(actor.SchemaViolation, "values", "a name stands in it twice")
		}
		if values[m.name], ok = text(m.value); !ok {
			return nil, because(actor.SchemaViolation, "values", "each value must be a string of Unicode text")
		}
	}
	return values, nil
}

// A member is one of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members takes an object apart, all that stands in it, in its order. It is not ok if data, which is valid JSON, is
// none.
func members(data []byte) (all []member, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var m member
		m.name, _ = name.(string) // it is one
		if err := d.Decode(&m.value); err != nil {
			return nil, false
		}
		all = append(all, m)
	}
	return all, true
}

// text reads a string. Half of a surrogate pair would become another character than was meant, and is not ok.
func text(value json.RawMessage) (s string, ok bool) {
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", false
	}
	const replacement = string(unicode.ReplacementChar)
	meant := strings.Count(string(value), replacement) + strings.Count(strings.ToLower(string(value)), `\ufffd`)
	return s, strings.Count(s, replacement) <= meant
}
