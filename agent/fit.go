package agent

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/troupehq/troupe/actor"
)

// fit makes of packed data what Pack would have written for type t if its structs had always had the fields that
// they have now: to shorter arrays nil is added, from longer ones zeros are taken away. It gives nil when nothing
// had to change. An error of another Kind than NewerVersion says that data is not of that type at all.
//
// It costs several times what decoding does, and is needed only for what another version wrote.
func fit(data []byte, t reflect.Type) ([]byte, error) {
	var out bytes.Buffer
	f := fitting{in: msgpack.NewDecoder(bytes.NewReader(data)), out: msgpack.NewEncoder(&out)}
	err := f.value(t)
	if errors.Is(err, actor.NewerVersion) {
		return nil, err
	}
	if err != nil || !f.changed {
		return nil, nil // the decoder's own error says more
	}
	return out.Bytes(), nil
}

// A fitting copies packed data from in to out.
type fitting struct {
	in      *msgpack.Decoder
	out     *msgpack.Encoder
	changed bool
}

// value copies what stands for a value of type t.
func (f *fitting) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	code, err := f.in.PeekCode()
	if err != nil {
		return err
	}
	switch k := t.Kind(); {
	case k == reflect.Struct && isArray(code):
		return f.structure(t)
	case (k == reflect.Slice || k == reflect.Array) && isArray(code):
		return f.list(t.Elem())
	case k == reflect.Map && isMap(code):
		return f.table(t.Elem())
	}
	_, err = f.copy()
	return err
}

// structure copies a struct, and gives it as many fields as t has.
func (f *fitting) structure(t reflect.Type) error {
	n, err := f.in.DecodeArrayLen()
	if err != nil {
		return err
	}
	fields := packedFields(t)
	want := len(fields)
	if n == 0 {
		want = 0 // to the decoder, a zero struct
	}
	if err := f.out.EncodeArrayLen(want); err != nil {
		return err
	}
	f.changed = f.changed || n != want
	for i := range max(n, want) {
		switch {
		case i >= n:
			err = f.out.EncodeNil()
		case i >= want:
			err = f.surplus(t, i)
		default:
			err = f.value(fields[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// surplus skips a field that t does not have, if it says nothing.
func (f *fitting) surplus(t reflect.Type, i int) error {
	raw, err := f.in.DecodeRaw()
	if err == nil && !isZero(raw) {
		err = &actor.Error{Kind: actor.NewerVersion, Field: fmt.Sprintf("%s[%d]", t.Name(), i),
			Err: errors.New("a newer version of the program wrote this, and used a field that this version does not know")}
	}
	return err
}

func (f *fitting) list(elem reflect.Type) error {
	n, err := f.in.DecodeArrayLen()
	if err == nil {
		err = f.out.EncodeArrayLen(n)
	}
	for i := 0; i < n && err == nil; i++ {
		err = f.value(elem)
	}
	return err
}

func (f *fitting) table(elem reflect.Type) error {
	n, err := f.in.DecodeMapLen()
	if err == nil {
		err = f.out.EncodeMapLen(n)
	}
	for i := 0; i < n && err == nil; i++ {
		if _, err = f.copy(); err == nil {
			err = f.value(elem)
		}
	}
	return err
}

// copy copies a value as it is.
func (f *fitting) copy() (msgpack.RawMessage, error) {
	raw, err := f.in.DecodeRaw()
	if err == nil {
		err = f.out.Encode(raw)
	}
	return raw, err
}

// packedFields gives the types of the fields of t that are packed, in their order.
func packedFields(t reflect.Type) []reflect.Type {
	fields := make([]reflect.Type, 0, t.NumField())
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" {
			fields = append(fields, f.Type)
		}
	}
	return fields
}

func isArray(code byte) bool {
	return msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32
}

func isMap(code byte) bool {
	return msgpcode.IsFixedMap(code) || code == msgpcode.Map16 || code == msgpcode.Map32
}

// isZero reports whether packed data is nil, false, 0, or an empty text, list or map: behind the first byte, which
// says what it is, there are then only zeros.
func isZero(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	switch c := raw[0]; {
	case c == 0 || c == msgpcode.FixedStrLow || c == msgpcode.FixedArrayLow || c == msgpcode.FixedMapLow:
		return true
	case c < msgpcode.Nil || c >= msgpcode.NegFixedNumLow || c == msgpcode.True || msgpcode.IsExt(c):
		return false
	}
	return len(bytes.Trim(raw[1:], "\x00")) == 0
}
