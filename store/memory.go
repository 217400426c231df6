package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	// MaxMemoryBytes is the largest value of a memory space, as compact JSON.
	MaxMemoryBytes = 1 << 20

	inlineMemory    = 8 << 10 // larger values are blobs
	minInlineMemory = 128     // about what a reference costs
	maxName         = 256     // bytes of a key in a memory space, of a variable, of a copy's key
)

// Memory holds memory spaces. A space has the id of a thread, or of an agent outside. It is one entry:
// a map of keys to JSON values, where those over 8 KiB are kept as blobs; so every read of it is one
// consistent cut, and every change of it a compare-and-set of the whole. When an entry would pass 512 KiB,
// smaller values become blobs, too; beyond some 3,000 keys that no longer helps and the Kind is TooLarge.
//
// A key is 1 to 256 bytes of UTF-8. A value is JSON and comes back as the same JSON, without the
// spaces between its tokens. Else the Kind is SchemaViolation.
type Memory struct {
	kv    bucket
	blobs *Blobs
}

// A space is the entry of a memory space, and without From the content of a snapshot.
type space struct {
	From   string                 `json:"from,omitempty"` // the snapshot that it began as
	Values map[string]memoryValue `json:"values"`
}

type memoryValue struct {
	Value json.RawMessage `json:"value,omitempty"`
	Blob  string          `json:"blob,omitempty"` // the name of the blob, instead of a value
	Size  uint64          `json:"size,omitempty"` // of the blob
}

// Get reads a value. NotFound means that the key has none.
func (m *Memory) Get(ctx context.Context, id actor.ID, key string) (json.RawMessage, error) {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	s, err := m.load(ctx, id)
	if err != nil {
		return nil, fault("store.Memory.Get", id, err)
	}
	value, err := m.value(ctx, s.Values, key)
	return value, fault("store.Memory.Get", id, err)
}

// Set stores a value under a key, in place of the one that it has. TooLarge means that the value is
// over [MaxMemoryBytes], or that the space is full.
func (m *Memory) Set(ctx context.Context, id actor.ID, key string, value json.RawMessage) error {
	return m.change(ctx, "store.Memory.Set", id, func(d *Draft) error { return d.Set(key, value) })
}

// Delete removes a key. One that is not there is deleted.
func (m *Memory) Delete(ctx context.Context, id actor.ID, key string) error {
	return m.change(ctx, "store.Memory.Delete", id, func(d *Draft) error { d.Delete(key); return nil })
}

// List gives the keys that begin with a text, in order, as of one moment. A space that nobody has
// written to has none.
func (m *Memory) List(ctx context.Context, id actor.ID, prefix string) ([]string, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	s, err := m.load(ctx, id)
	if err != nil {
		return nil, fault("store.Memory.List", id, err)
	}
	return keysOf(s.Values, prefix), nil
}

// Update changes a space as a whole: what change reads in the draft is of one moment, and what it
// writes there is stored together, provided that nobody else has written meanwhile. If somebody has,
// change is called again on a new draft; it should do nothing but work on the draft. After 64 tries
// the Kind is Conflict. An error of change is returned as it is, and nothing is stored. Unavailable
// and Timeout leave open whether it was.
func (m *Memory) Update(ctx context.Context, id actor.ID, change func(d *Draft) error) error {
	var refused error
	err := m.change(ctx, "store.Memory.Update", id, func(d *Draft) error {
		refused = change(d)
		return refused
	})
	if refused != nil {
		return refused
	}
	return err
}

func (m *Memory) change(ctx context.Context, op string, id actor.ID, change func(d *Draft) error) error {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	err := m.kv.update(ctx, subjects.EncodeToken(string(id)), func(data []byte) ([]byte, error) {
		s, err := readSpace(data)
		if err != nil {
			return nil, err
		}
		d := &Draft{memory: m, id: id, space: s}
		if err := change(d); err != nil || !d.changed {
			return nil, err
		}
		return m.encode(ctx, &d.space)
	})
	return fault(op, id, err)
}

// encode stores as blobs what is too large for the entry, and gives the entry.
func (m *Memory) encode(ctx context.Context, s *space) ([]byte, error) {
	for limit := inlineMemory; ; limit /= 2 {
		for key, v := range s.Values {
			if len(v.Value) <= limit {
				continue
			}
			ref, err := m.blobs.Put(ctx, v.Value)
			if err != nil {
				return nil, err
			}
			s.Values[key] = memoryValue{Blob: ref.Name, Size: ref.Size}
		}
		data, err := encode(s)
		if err == nil || limit == minInlineMemory || !errors.Is(err, actor.TooLarge) {
			return data, err
		}
	}
}

// Snapshot stores what a space holds now, as one cut, and gives its digest, the name of a blob that
// is kept for good. Equal spaces have one digest; a space that nobody has written to is an empty one.
func (m *Memory) Snapshot(ctx context.Context, id actor.ID) (digest string, err error) {
	const op = "store.Memory.Snapshot"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	s, err := m.load(ctx, id)
	if err != nil {
		return "", fault(op, id, err)
	}
	s.From = ""
	data, err := encode(s)
	if err != nil {
		return "", fault(op, id, err)
	}
	ref, err := m.blobs.Put(ctx, data)
	if err != nil {
		return "", fault(op, id, err)
	}
	return ref.Name, nil
}

// Restore makes a space that nobody has written to yet out of a snapshot. Once that has happened,
// restoring the same one again does nothing, whatever was written since. Conflict means that the
// space has another beginning, NotFound that there is no such snapshot.
func (m *Memory) Restore(ctx context.Context, digest string, id actor.ID) error {
	const op = "store.Memory.Restore"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	snapshot, err := m.snapshot(ctx, digest)
	if err != nil {
		return fault(op, id, err)
	}
	snapshot.From = digest
	err = m.kv.update(ctx, subjects.EncodeToken(string(id)), func(data []byte) ([]byte, error) {
		if data == nil {
			return encode(snapshot)
		}
		present, err := readSpace(data)
		if err == nil && present.From != digest {
			err = refuse(actor.Conflict, "", "the space was written to before %s could be restored into it", digest)
		}
		return nil, err
	})
	return fault(op, id, err)
}

func (m *Memory) snapshot(ctx context.Context, digest string) (space, error) {
	ref, err := m.blobs.find(ctx, digest)
	if err != nil {
		return space{}, err
	}
	data, err := m.blobs.Get(ctx, ref)
	if err != nil {
		return space{}, err
	}
	return readSpace(data)
}

func (m *Memory) load(ctx context.Context, id actor.ID) (space, error) {
	data, _, err := m.kv.entry(ctx, subjects.EncodeToken(string(id)))
	if err != nil {
		return space{}, err
	}
	return readSpace(data)
}

func readSpace(data []byte) (s space, err error) {
	err = decode(data, &s)
	if s.Values == nil {
		s.Values = map[string]memoryValue{}
	}
	return s, err
}

// value finds a value, wherever it is kept.
func (m *Memory) value(ctx context.Context, values map[string]memoryValue, key string) (json.RawMessage, error) {
	v, ok := values[key]
	switch {
	case !ok:
		return nil, refuse(actor.NotFound, "key", "nothing is stored under %.256q", key)
	case v.Blob == "":
		return v.Value, nil
	}
	data, err := m.blobs.Get(ctx, refNamed(m.blobs.bucket, v.Blob, v.Size))
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	return data, nil
}

// checkValue gives the value as it is stored.
func checkValue(key string, value json.RawMessage) (json.RawMessage, error) {
	if err := checkName("key", key); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	switch {
	case !utf8.Valid(value) || json.Compact(&b, value) != nil:
		return nil, refuse(actor.SchemaViolation, "value", "it is not JSON")
	case b.Len() > MaxMemoryBytes:
		return nil, refuse(actor.TooLarge, "value", "%d bytes, at most %d are allowed", b.Len(), MaxMemoryBytes)
	}
	return b.Bytes(), nil
}

// checkName refuses a name that is none.
func checkName(field, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return refuse(actor.SchemaViolation, field, "%.256q is not a name of 1 to %d bytes of UTF-8", name, maxName)
	}
	return nil
}
