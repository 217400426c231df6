package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupehq/troupe/actor"
)

const (
	// maxEntry is the largest entry that holds a map: half of what a server takes by default.
	maxEntry = 512 << 10

	maxTries  = 64                    // so often an update gives way to others
	longPause = 50 * time.Millisecond // between two tries, at most
)

// entry reads the value of a key from the leader. It is nil for a key without one; the revision is
// what a write must expect, also behind a deletion.
func (b bucket) entry(ctx context.Context, key string) (data []byte, rev uint64, err error) {
	m, err := b.get(ctx, query{Last: b.subject(key)})
	switch {
	case errors.Is(err, errNoMessage):
		return nil, 0, nil
	case err != nil || m.deleted():
		return nil, m.Seq, err
	}
	return m.Data, m.Seq, nil
}

// update replaces the value of a key by what change makes of it, and asks change again when another
// write came first, at most maxTries times; then the kind is conflict. When change gives nil the
// value stays. A write whose outcome is unknown is not tried again.
func (b bucket) update(ctx context.Context, key string, change func(data []byte) ([]byte, error)) error {
	for try := 1; ; try++ {
		data, rev, err := b.entry(ctx, key)
		if err != nil {
			return err
		}
		next, err := change(data)
		if err != nil || next == nil {
			return err
		}
		_, err = b.put("", "", key, next, expect(rev)).Wait(ctx)
		if !conflict(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("another write came first, %d times: %w", try, err)
		}
		pause(ctx, rand.N(min(time.Duration(try)*2*time.Millisecond, longPause)))
	}
}

// decode reads an entry; one that is not there leaves v as it is.
func decode(data []byte, v any) error {
	if data == nil {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the entry is not what is written here: %w", err)
	}
	return nil
}

// encode writes an entry as a person can read it: without escapes that JSON does not need.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(data) > maxEntry {
		return nil, refuse(actor.TooLarge, "", "the entry would have %d bytes, at most %d are allowed", len(data), maxEntry)
	}
	return data, nil
}
