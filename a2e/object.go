package a2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/troupehq/troupe/actor"
)

// A decoder keeps the first failure of a message's fields. Reading goes on behind it, so that the
// readers need no branches.
type decoder struct{ err *actor.Error }

func (d *decoder) fail(field string, kind actor.Kind, why string) {
	if d.err == nil {
		d.err = &actor.Error{Op: "a2e.Decode", Kind: kind, Field: field, Err: errors.New(why)}
	}
}

// Why a field is refused.
const (
	whyMissing = "is required"
	whyText    = "must be a string"
	whyHalf    = "must not have half a surrogate pair"
	whyEmpty   = "must not be empty"
	whyObject  = "must be an object"
	whyList    = "must be a list"
	whyBool    = "must be true or false"
	whyInteger = "must be an integer"
	whyNumber  = "must be a number"
)

func whyLong(n int) string { return fmt.Sprintf("must not be longer than %d bytes", n) }

// An object is a JSON object taken apart; the values are as they stand in the message. The methods
// that read a field record a failure under its path.
type object struct {
	d      *decoder
	path   string // what comes before a key in the path: "agent."
	fields []field
	few    [12]field // the first fields, to spare an allocation
}

type field struct{ key, value []byte }

// split takes raw apart as far as it goes.
func (o *object) split(raw []byte) {
	o.fields = o.few[:0]
	s := scanner{data: raw}
	if !s.take('{') {
		return
	}
	for {
		s.space()
		if s.peek() != '"' {
			return
		}
		key := raw[s.i:skipText(raw, s.i)]
		s.i += len(key)
		s.space()
		if !s.take(':') {
			return
		}
		s.space()
		value := raw[s.i:skip(raw, s.i)]
		s.i += len(value)
		o.fields = append(o.fields, field{key, value})
		s.space()
		if !s.take(',') {
			return
		}
	}
}

// get gives a field's value, the last one if there are several; nil if there is none.
func (o *object) get(key string) []byte {
	for i := len(o.fields) - 1; i >= 0; i-- {
		if is(o.fields[i].key, key) {
			return o.fields[i].value
		}
	}
	return nil
}

// is reports whether a JSON string says want.
func is(raw []byte, want string) bool {
	if len(raw) < 2 {
		return false
	}
	if string(raw[1:len(raw)-1]) == want {
		return true
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	got, ok := unquote(raw)
	return ok && got == want
}

// value gives a field's value, or nil if it is absent or null.
func (o *object) value(key string, required bool) []byte {
	raw := o.get(key)
	if raw == nil && required {
		o.fail(key, whyMissing)
	}
	if isNull(raw) {
		if required {
			o.fail(key, "must not be null")
		}
		return nil
	}
	return raw
}

func isNull(raw []byte) bool { return string(raw) == "null" }

func (o *object) fail(key, why string) {
	o.d.fail(o.path+key, actor.SchemaViolation, why)
}

// child takes the object in a field apart into c and reports whether there is one.
func (o *object) child(c *object, key string) (raw []byte, ok bool) {
	raw = o.value(key, true)
	if raw == nil {
		return nil, false
	}
	if raw[0] != '{' {
		o.fail(key, whyObject)
		return nil, false
	}
	c.d, c.path = o.d, o.path+key+"."
	c.split(raw)
	return raw, true
}

func (o *object) text(key string, required bool) string {
	raw := o.value(key, required)
	if raw == nil {
		return ""
	}
	s, why := text(raw)
	if why != "" {
		o.fail(key, why)
	}
	return s
}

// text reads a JSON string.
func text(raw []byte) (s, why string) {
	if raw[0] != '"' {
		return "", whyText
	}
	s, ok := unquote(raw)
	if !ok {
		return "", whyHalf
	}
	return s, ""
}

// name reads a required text that is not empty and not too long.
func (o *object) name(key string) string {
	raw := o.value(key, true)
	if raw == nil {
		return ""
	}
	s, why := bounded(raw, MaxNameBytes)
	if why != "" {
		o.fail(key, why)
	}
	return s
}

func bounded(raw []byte, maxBytes int) (s, why string) {
	s, why = text(raw)
	switch {
	case why != "":
	case s == "":
		why = whyEmpty
	case len(s) > maxBytes:
		why = whyLong(maxBytes)
	}
	return s, why
}

func (o *object) id(key string, required bool) actor.ID {
	raw := o.value(key, required)
	if raw == nil {
		return ""
	}
	s, why := bounded(raw, actor.MaxIDBytes)
	if why != "" {
		o.fail(key, why)
	}
	return actor.ID(s)
}

// label reads a text of the envelope, where empty means absent. The message may be broken.
func (o *object) label(key string, maxBytes int) (s, why string) {
	raw := o.get(key)
	if len(raw) == 0 || isNull(raw) {
		return "", ""
	}
	if s, why = text(raw); len(s) > maxBytes {
		s, why = "", whyLong(maxBytes)
	}
	return s, why
}

// timestamp reads the envelope's ts. It informs only, so what is not a number is absent.
func (o *object) timestamp() float64 {
	ts, err := strconv.ParseFloat(string(o.get("ts")), 64)
	if err != nil || math.IsInf(ts, 0) || math.IsNaN(ts) {
		return 0
	}
	return ts
}

// list gives the elements of a list. An absent one is nil, an empty one is not.
func (o *object) list(key string, required bool) [][]byte {
	raw := o.value(key, required)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		o.fail(key, whyList)
		return nil
	}
	return elements(raw)
}

// elements takes a list that is valid JSON apart.
func elements(raw []byte) [][]byte {
	all := [][]byte{}
	s := scanner{data: raw, i: 1}
	for s.space(); s.peek() != ']'; s.space() {
		v := raw[s.i:skip(raw, s.i)]
		all = append(all, v)
		s.i += len(v)
		s.space()
		s.take(',')
	}
	return all
}

// texts reads an optional list of strings; the default is the empty list.
func (o *object) texts(key string) []string {
	raw := o.list(key, false)
	all := make([]string, 0, len(raw))
	for i, r := range raw {
		s, why := text(r)
		if why != "" {
			o.fail(at(key, i), why)
			break
		}
		all = append(all, s)
	}
	return all
}

// ids reads a required list of ids that is not empty.
func (o *object) ids(key string) []actor.ID {
	raw := o.list(key, true)
	if raw != nil && len(raw) == 0 {
		o.fail(key, whyEmpty)
	}
	all := make([]actor.ID, 0, len(raw))
	for i, r := range raw {
		s, why := bounded(r, actor.MaxIDBytes)
		if why != "" {
			o.fail(at(key, i), why)
			break
		}
		all = append(all, actor.ID(s))
	}
	return all
}

func at(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// integer reads an optional integer from least to most. An integer has neither fraction nor exponent.
func (o *object) integer(key string, least, most, absent int) int {
	return int(o.count(key, int64(least), int64(most), int64(absent)))
}

func (o *object) count(key string, least, most, absent int64) int64 {
	raw := o.value(key, false)
	if raw == nil {
		return absent
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		o.fail(key, whyInteger)
	case err != nil || n < least || n > most:
		o.fail(key, fmt.Sprintf("must be from %d to %d", least, most))
	}
	return n
}

// positive reads an optional number above 0.
func (o *object) positive(key string, most float64) float64 {
	raw := o.value(key, false)
	if raw == nil {
		return 0
	}
	if !isNumber(raw) {
		o.fail(key, whyNumber)
		return 0
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v <= 0 || v > most {
		o.fail(key, fmt.Sprintf("must be above 0 and at most %.0f", most))
	}
	return v
}

func isNumber(raw []byte) bool { return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9' }

func (o *object) boolean(key string, absent bool) bool {
	raw := o.value(key, false)
	switch string(raw) {
	case "":
		return absent
	case "true", "false":
		return raw[0] == 't'
	}
	o.fail(key, whyBool)
	return absent
}

// dict reads an optional object of free-form values; the default is the empty one.
func (o *object) dict(key string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	raw := o.value(key, false)
	if raw == nil {
		return all
	}
	if raw[0] != '{' {
		o.fail(key, whyObject)
		return all
	}
	var c object
	c.split(raw)
	for _, f := range c.fields {
		k, ok := unquote(f.key)
		if !ok {
			o.fail(key, whyHalf)
		}
		all[k] = keep(f.value)
	}
	return all
}

// raw reads an optional free-form value, which has to be an object if it must; null is nil.
func (o *object) raw(key string, required, dict bool) json.RawMessage {
	raw := o.value(key, required)
	if raw == nil {
		return nil
	}
	if dict && raw[0] != '{' {
		o.fail(key, whyObject)
	}
	return keep(raw)
}

// keep copies a free-form value, without its line breaks.
func keep(raw []byte) json.RawMessage { return appendRaw(make([]byte, 0, len(raw)), raw) }

// choice reads one of an enum's values.
func choice[T interface {
	~string
	Valid() bool
}](o *object, key string, required bool, absent T) T {
	raw := o.value(key, required)
	if raw == nil {
		return absent
	}
	s, why := text(raw)
	if why == "" && !T(s).Valid() {
		why = fmt.Sprintf("has an unknown value %q", s)
	}
	if why != "" {
		o.fail(key, why)
	}
	return T(s)
}
