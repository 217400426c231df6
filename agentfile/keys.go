package agentfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fields gives the keys of a struct's JSON form, and the types of their values.
func fields(t reflect.Type) map[string]reflect.Type {
	keys := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			keys[name] = t.Field(i).Type
		}
	}
	return keys
}

// unknownKey says what is known in the place of a key that is not.
func unknownKey(key string, known map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(known))
	nearest, least := "", 1+max(1, len(key)/3)
	for _, name := range names {
		if d := distance(strings.ToLower(key), strings.ToLower(name)); d < least {
			nearest, least = name, d
		}
	}
	if nearest != "" {
		return fmt.Sprintf("unknown key %q; did you mean %q?", key, nearest)
	}
	return fmt.Sprintf("unknown key %q; known are %s", key, strings.Join(names, ", "))
}

// distance counts the letters that have to be put in, left out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
