package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// Keys holds the answers to requests that may be asked twice, for as long as the bucket's age limit
// says. A key is one that subjects.IdempotencyKey spells.
type Keys struct{ kv bucket }

// Get reads the answer under a key from the leader.
func (k *Keys) Get(ctx context.Context, key string) (data []byte, found bool, err error) {
	const op = "store.Keys.Get"
	if err := validKey(op, key); err != nil {
		return nil, false, err
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	m, err := k.kv.get(ctx, query{Last: k.kv.subject(key)})
	switch {
	case errors.Is(err, errNoMessage):
		return nil, false, nil
	case err != nil:
		return nil, false, fault(op, "", err)
	case m.deleted():
		return nil, false, nil
	}
	return m.Data, true, nil
}

// Put stores the answer under a key that has none. Conflict means that it has one, or that one is
// being stored.
func (k *Keys) Put(key string, data []byte) actor.Ack {
	const op = "store.Keys.Put"
	if err := validKey(op, key); err != nil {
		return invalid{err}
	}
	return k.kv.put(op, "", key, data, expect(0))
}

// validKey refuses what would be another subject than it looks: wildcards, spaces, dots, nothing.
func validKey(op, key string) error {
	bad := func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '='
		return !plain
	}
	if key == "" || strings.ContainsFunc(key, bad) {
		return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: "key",
			Err: fmt.Errorf("%q: only letters, digits, '_', '-' and '=' are allowed", key)}
	}
	return nil
}
