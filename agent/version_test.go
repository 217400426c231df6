package agent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
)

// reshaped gives t as another version of the program would have it, with all structs in it: without their last fields,
// but for the first, or with another field at the outermost struct's end.
func reshaped(t reflect.Type, missing int, added reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer:
		return reflect.PointerTo(reshaped(t.Elem(), missing, nil))
	case reflect.Slice:
		return reflect.SliceOf(reshaped(t.Elem(), missing, nil))
	case reflect.Map:
		return reflect.MapOf(t.Key(), reshaped(t.Elem(), missing, nil))
	case reflect.Struct:
		var fields []reflect.StructField
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" {
				fields = append(fields, reflect.StructField{Name: f.Name, Type: reshaped(f.Type, missing, nil)})
			}
		}
		if len(fields) > 0 {
			fields = fields[:max(1, len(fields)-missing)]
		}
		if added != nil {
			fields = append(fields, reflect.StructField{Name: "Added", Type: added})
		}
		return reflect.StructOf(fields)
	}
	return t
}

// fill sets v to anything.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	v.SetZero()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":[1,null]}`))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64() >> r.IntN(64) >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64) >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.String:
		v.SetString(fmt.Sprintf("%.*s", r.IntN(8), "text ☃"))
	case reflect.Pointer:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		n := r.IntN(4)
		if depth <= 0 || n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), depth-1)
		}
	case reflect.Map:
		if depth <= 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(r, key, depth-1) // one, for maps are packed in any order
		fill(r, elem, depth-1)
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" {
				fill(r, v.Field(i), depth-1)
			}
		}
	}
}

// prune sets to, which has fewer fields, to what of has for those.
func prune(to, of reflect.Value) {
	switch to.Kind() {
	case reflect.Pointer:
		if !of.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			prune(to.Elem(), of.Elem())
		}
	case reflect.Slice:
		if !of.IsNil() {
			to.Set(reflect.MakeSlice(to.Type(), of.Len(), of.Len()))
		}
		for i := range of.Len() {
			prune(to.Index(i), of.Index(i))
		}
	case reflect.Map:
		if !of.IsNil() {
			to.Set(reflect.MakeMap(to.Type()))
		}
		for _, k := range of.MapKeys() {
			elem := reflect.New(to.Type().Elem()).Elem()
			prune(elem, of.MapIndex(k))
			to.SetMapIndex(k, elem)
		}
	case reflect.Struct:
		for i := range to.NumField() {
			prune(to.Field(i), of.FieldByName(to.Type().Field(i).Name))
		}
	default:
		to.Set(of)
	}
}

// unknown names a field that a version without the last ones can't have set, and that is set.
func unknown(v reflect.Value, missing int) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unknown(v.Elem(), missing)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if at := unknown(v.Index(i), missing); at != "" {
				return at
			}
		}
	case reflect.Struct:
		var fields []int
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" {
				fields = append(fields, i)
			}
		}
		for n, i := range fields {
			if n >= max(1, len(fields)-missing) && !v.Field(i).IsZero() {
				return v.Type().Field(i).Name
			}
			if at := unknown(v.Field(i), missing); at != "" {
				return at
			}
		}
	}
	return ""
}

func zeroLast(v reflect.Value) { v.Field(v.NumField() - 1).SetZero() }

// use gives v a value that is not its zero.
func use(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(-1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.String:
		v.SetString("\x00")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	}
}
