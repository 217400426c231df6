package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// A Draft is a memory space while [Memory.Update] changes it. It is of no use afterwards.
type Draft struct {
	memory  *Memory
	id      actor.ID
	space   space
	changed bool
}

// Get reads a value, also one that was set in this draft. NotFound means that the key has none.
func (d *Draft) Get(ctx context.Context, key string) (json.RawMessage, error) {
	value, err := d.memory.value(ctx, d.space.Values, key)
	return value, fault("store.Draft.Get", d.id, err)
}

// Set puts a value under a key, as [Memory.Set] does.
func (d *Draft) Set(key string, value json.RawMessage) error {
	value, err := checkValue(key, value)
	if err != nil {
		return fault("store.Draft.Set", d.id, err)
	}
	d.space.Values[key], d.changed = memoryValue{Value: value}, true
	return nil
}

// Delete removes a key. One that is not there is deleted.
func (d *Draft) Delete(key string) {
	if _, ok := d.space.Values[key]; ok {
		delete(d.space.Values, key)
		d.changed = true
	}
}

// Keys gives the keys that begin with a text, in order.
func (d *Draft) Keys(prefix string) []string { return keysOf(d.space.Values, prefix) }

func keysOf(values map[string]memoryValue, prefix string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}
