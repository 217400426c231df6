package store

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// MaxEnvBytes is the largest scoped value.
const MaxEnvBytes = 64 << 10

// Env holds the scoped values of threads: secrets, mostly. They are nowhere else, and in no error.
// A thread's values are one entry; names can be read by whoever may read the bucket. With a [Seal]
// the values are closed; without one they are stored as they are, and whoever may read the bucket or
// the disk can read them.
//
// A name is 1 to 256 bytes of UTF-8 without "=" and control characters; a value is at most
// [MaxEnvBytes] of UTF-8. Else the Kind is SchemaViolation or TooLarge. Unauthorized means that a
// value is sealed under a key that this process does not have: it cannot be read, and nothing is
// written beside it in the clear.
type Env struct {
	kv   bucket
	seal *Seal
}

type envEntry struct {
	Values map[string]envValue `json:"values"`
}

// An envValue is either plain or sealed.
type envValue struct {
	Value  *string `json:"value,omitempty"`
	Key    string  `json:"key,omitempty"` // the id of the key
	Sealed []byte  `json:"sealed,omitempty"`
}

// Set stores values of a thread, beside those that it has under other names. All of them are stored
// or none. Each is sealed under the first key, if there are keys.
func (e *Env) Set(ctx context.Context, thread actor.ID, values map[string]string) error {
	const op = "store.Env.Set"
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkVariable(name, values[name]); err != nil {
			return fault(op, thread, err)
		}
	}
	return fault(op, thread, e.merge(ctx, thread, values))
}

func (e *Env) merge(ctx context.Context, thread actor.ID, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	return e.kv.update(ctx, subjects.EncodeToken(string(thread)), func(data []byte) ([]byte, error) {
		entry, err := readEnv(data)
		if err != nil {
			return nil, err
		}
		for name, present := range entry.Values {
			if e.seal == nil && present.Value == nil {
				return nil, refuse(actor.Unauthorized, name, "it is sealed, and this process has no key to seal others with")
			}
		}
		for name, value := range values {
			entry.Values[name] = e.close(thread, name, value)
		}
		return encode(entry)
	})
}

// Get reads values of a thread: those that are named, or all when none is. A name without a value is
// not among them.
func (e *Env) Get(ctx context.Context, thread actor.ID, names ...string) (map[string]string, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	values, err := e.read(ctx, thread, names)
	return values, fault("store.Env.Get", thread, err)
}

func (e *Env) read(ctx context.Context, thread actor.ID, names []string) (map[string]string, error) {
	entry, err := e.load(ctx, thread)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(entry.Values))
	}
	values := make(map[string]string, len(names))
	for _, name := range names {
		present, ok := entry.Values[name]
		if !ok {
			continue
		}
		if values[name], err = e.open(thread, name, present); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Names lists the names under which a thread has values, in order. No key is needed.
func (e *Env) Names(ctx context.Context, thread actor.ID) ([]string, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	entry, err := e.load(ctx, thread)
	if err != nil {
		return nil, fault("store.Env.Names", thread, err)
	}
	return slices.Sorted(maps.Keys(entry.Values)), nil
}

// CopyTo gives values of one thread to another, in place of those that it has under these names. If
// one has no value, nothing is copied and missing says which have none, in the order of names.
// Copying again is harmless.
func (e *Env) CopyTo(ctx context.Context, from, to actor.ID, names []string) (missing []string, err error) {
	const op = "store.Env.CopyTo"
	if len(names) == 0 {
		return nil, nil
	}
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	values, err := e.read(ctx, from, names)
	if err != nil {
		return nil, fault(op, from, err)
	}
	for _, name := range names {
		if _, ok := values[name]; !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return missing, nil
	}
	return nil, fault(op, to, e.merge(ctx, to, values))
}

// Remove removes all values of a thread, without a trace. A thread without any has none.
func (e *Env) Remove(ctx context.Context, thread actor.ID) error {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	return fault("store.Env.Remove", thread, e.kv.forget(ctx, subjects.EncodeToken(string(thread))))
}

// Reseal closes under the first key whatever is not, in all threads, and says in how many that was.
// Once it has returned without an error and every process has that key first, the others can go.
func (e *Env) Reseal(ctx context.Context) (threads int, err error) {
	const op = "store.Env.Reseal"
	if e.seal == nil {
		return 0, fault(op, "", refuse(actor.Unauthorized, "", "this process has no key"))
	}
	found, err := e.kv.list(ctx, ">")
	if err != nil {
		return 0, fault(op, "", err)
	}
	for _, m := range found {
		token := e.kv.key(m.Subject)
		thread, err := subjects.DecodeToken(token)
		if err != nil {
			continue // somebody else's
		}
		changed, err := e.reseal(ctx, actor.ID(thread))
		if err != nil {
			return threads, fault(op, actor.ID(thread), err)
		}
		if changed {
			threads++
		}
	}
	return threads, nil
}

func (e *Env) reseal(ctx context.Context, thread actor.ID) (changed bool, err error) {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	err = e.kv.update(ctx, subjects.EncodeToken(string(thread)), func(data []byte) ([]byte, error) {
		entry, err := readEnv(data)
		if err != nil {
			return nil, err
		}
		changed = false
		for name, present := range entry.Values {
			if present.Value == nil && present.Key == e.seal.first {
				continue
			}
			value, err := e.open(thread, name, present)
			if err != nil {
				return nil, err
			}
			entry.Values[name], changed = e.close(thread, name, value), true
		}
		if !changed {
			return nil, nil
		}
		return encode(entry)
	})
	return changed, err
}

func (e *Env) close(thread actor.ID, name, value string) envValue {
	if e.seal == nil {
		return envValue{Value: &value}
	}
	key, sealed := e.seal.close(thread, name, value)
	return envValue{Key: key, Sealed: sealed}
}

func (e *Env) open(thread actor.ID, name string, v envValue) (string, error) {
	if v.Value != nil {
		return *v.Value, nil
	}
	return e.seal.open(thread, name, v.Key, v.Sealed)
}

func (e *Env) load(ctx context.Context, thread actor.ID) (envEntry, error) {
	data, _, err := e.kv.entry(ctx, subjects.EncodeToken(string(thread)))
	if err != nil {
		return envEntry{}, err
	}
	return readEnv(data)
}

// readEnv keeps the cause of an error to itself: it may quote a value.
func readEnv(data []byte) (entry envEntry, err error) {
	if data != nil && json.Unmarshal(data, &entry) != nil {
		return envEntry{}, refuse(actor.RuntimeError, "", "the entry is not what is written here")
	}
	if entry.Values == nil {
		entry.Values = map[string]envValue{}
	}
	return entry, nil
}

// checkVariable never says what the value is.
func checkVariable(name, value string) error {
	if err := checkName("name", name); err != nil {
		return err
	}
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r == '=' || r < ' ' || r == 0x7f }):
		return refuse(actor.SchemaViolation, "name", "%q has \"=\" or a control character in it", name)
	case !utf8.ValidString(value):
		return refuse(actor.SchemaViolation, name, "the value is not valid UTF-8")
	case len(value) > MaxEnvBytes:
		return refuse(actor.TooLarge, name, "the value has %d bytes, at most %d are allowed", len(value), MaxEnvBytes)
	}
	return nil
}
