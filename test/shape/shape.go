// Package shape holds structs that are packed without the names of their fields to their order: fields may only be
// added at a struct's end. It is for tests only.
package shape

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe/test/script"
)

// Check compares the structs of the values, and all that they hold, with what the file says of them. With -update
// the file gets what was added; what was moved or removed it never gets.
func Check(t *testing.T, file string, values ...any) {
	t.Helper()
	is := map[string][]string{}
	for _, v := range values {
		collect(t, is, reflect.TypeOf(v))
	}
	data, err := os.ReadFile(file)
	if err != nil && !(os.IsNotExist(err) && script.Updating()) {
		t.Fatal(err)
	}
	was := parse(string(data))
	good := true
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if now, ok := is[name]; ok && !prefix(was[name], now) {
			good = false
			t.Errorf("%s was packed as\n\t%s\nand is now\n\t%s\nFields may only be added at the end: stores and messages in flight hold the old order.",
				name, strings.Join(was[name], "\n\t"), strings.Join(now, "\n\t"))
		}
	}
	if !good {
		return
	}
	told := text(is)
	switch {
	case script.Updating():
		if err := os.WriteFile(file, []byte(told), 0o644); err != nil {
			t.Fatal(err)
		}
	case told != string(data):
		t.Errorf("%s does not have all fields that are packed now. See the rules for new ones where Pack is, then run this test with -update:\n%s", file, told)
	}
}

// collect adds the structs that t holds.
func collect(t *testing.T, all map[string][]string, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		collect(t, all, of.Elem())
	case reflect.Map:
		collect(t, all, of.Key())
		collect(t, all, of.Elem())
	case reflect.Interface, reflect.Func, reflect.Chan:
		t.Errorf("%s is packed, and can't be read back", of)
	case reflect.Struct:
		if _, ok := all[of.String()]; ok {
			return
		}
		all[of.String()] = []string{}
		for i := range of.NumField() {
			f := of.Field(i)
			switch {
			case f.Anonymous:
				t.Errorf("%s has the embedded field %s, whose fields would be packed among its own", of, f.Name)
			case !f.IsExported() || f.Tag.Get("msgpack") == "-":
			case f.Tag.Get("msgpack") != "":
				t.Errorf("%s.%s has the tag %q: of an array nothing may be left out", of, f.Name, f.Tag.Get("msgpack"))
			default:
				all[of.String()] = append(all[of.String()], f.Name+" "+kind(f.Type))
				collect(t, all, f.Type)
			}
		}
	}
}

// kind is a type as it matters to who reads it: the name of a text or a number does not.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer: // nil or the value
		return kind(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "list of " + kind(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("%d of %s", t.Len(), kind(t.Elem()))
	case reflect.Map:
		return "map of " + kind(t.Elem())
	case reflect.Struct:
		return t.String()
	}
	return t.Kind().String()
}

func prefix(short, long []string) bool {
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

func text(all map[string][]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(name + "\n")
		for _, f := range all[name] {
			b.WriteString("\t" + f + "\n")
		}
	}
	return b.String()
}

func parse(text string) map[string][]string {
	all := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if field, ok := strings.CutPrefix(line, "\t"); ok {
			all[name] = append(all[name], field)
		} else {
			name = line
			all[name] = nil
		}
	}
	return all
}
