package agent

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// What Pack writes is an array for each struct, its fields in their order, without their names. It stays readable
// because structs only grow at their end:
//
//   - A new field is the last of its struct. No field is removed, moved, or given another type; one that is no
//     longer used stays where it is.
//   - The zero value of a new field means what the program did before there was one.
//   - A new field is a pointer to a struct, a slice, a map, a text, a number or a bool, and one that is empty means
//     the same as one that is not there: then what is not used is zero in the bytes, too.
//
// So a newer program reads what an older one wrote. An older one reads what a newer one wrote as long as none of the
// fields that it does not know is used, and otherwise refuses it rather than lose a part. A change that does not fit
// these rules needs another actor.RecordVersion. The test of the shapes holds the structs to their order.

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Pack encodes a body. It panics on a type that can't be encoded, which is a mistake of the program.
func Pack(v any) []byte {
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(b)
	e.UseArrayEncodedStructs(true) // records are many and names are half of them
	e.UseCompactInts(true)         // a fifth less
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("agent: pack %T: %v", v, err))
	}
	return bytes.Clone(b.Bytes())
}

// Unpack decodes what Pack wrote, here or in an older program. NewerVersion means that a newer program wrote it and
// used a field that this one does not know. What v points to is then undefined.
func Unpack(data []byte, v any) error {
	err := sound(data)
	if err == nil {
		err = msgpack.Unmarshal(data, v)
	}
	if err == nil {
		return nil
	}
	target := reflect.ValueOf(v).Elem()
	fitted, fitErr := fit(data, target.Type())
	switch {
	case fitErr != nil:
		err = fitErr
	case fitted != nil:
		target.SetZero()
		err = msgpack.Unmarshal(fitted, v)
	}
	if err != nil {
		return fmt.Errorf("unpack %T: %w", v, err)
	}
	return nil
}

// sound refuses data that claims to hold a longer list or map than it does. The decoder (v5.4.1) would make room for
// all of it before it looks: five bytes could so end the process. Only lists of 65,536 items and more, and some texts,
// are looked through.
func sound(data []byte) error {
	if bytes.IndexByte(data, msgpcode.Array32) < 0 && bytes.IndexByte(data, msgpcode.Map32) < 0 {
		return nil
	}
	return msgpack.NewDecoder(bytes.NewReader(data)).Skip()
}
