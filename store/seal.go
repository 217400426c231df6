package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// SealKeyBytes is the length of a sealing key.
const SealKeyBytes = 32

// A Seal closes values that must not be read at rest, with AES-256-GCM. A closed value opens only
// under the thread and the name that it was closed for, so it is of no use elsewhere in the bucket.
// What is closed carries the id of its key, so that keys can be changed: the first key closes, all of
// them open.
type Seal struct {
	first string
	keys  map[string]cipher.AEAD // by id
}

// NewSeal makes a Seal of keys of 32 random bytes each. The Kind of a key that is none is
// SchemaViolation.
func NewSeal(keys ...[]byte) (*Seal, error) {
	const op = "store.NewSeal"
	s := &Seal{keys: map[string]cipher.AEAD{}}
	for i, key := range keys {
		if len(key) != SealKeyBytes {
			return nil, fault(op, "", refuse(actor.SchemaViolation, "keys", "key %d has %d bytes, not %d", i+1, len(key), SealKeyBytes))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fault(op, "", err)
		}
		gcm, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fault(op, "", err)
		}
		id := sealKeyID(key)
		if i == 0 {
			s.first = id
		}
		s.keys[id] = gcm
	}
	if s.first == "" {
		return nil, fault(op, "", refuse(actor.SchemaViolation, "keys", "at least one is required"))
	}
	return s, nil
}

// ParseSeal makes a Seal of keys in base64, one a line, the one that closes first. Empty lines and
// those that begin with "#" do not count.
func ParseSeal(text string) (*Seal, error) {
	var keys [][]byte
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil { // it is not repeated: the line may be most of a key
			return nil, fault("store.ParseSeal", "", refuse(actor.SchemaViolation, "keys", "key %d is not base64", len(keys)+1))
		}
		keys = append(keys, key)
	}
	return NewSeal(keys...)
}

// sealKeyID names a key without telling it.
func sealKeyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("troupe sealing key\n"), key...))
	return hex.EncodeToString(sum[:8])
}

// String names the keys.
func (s *Seal) String() string {
	return "seal(" + strings.Join(slices.Sorted(maps.Keys(s.keys)), ", ") + "; " + s.first + " closes)"
}

// close closes a value for a thread and a name.
func (s *Seal) close(thread actor.ID, name, value string) (key string, sealed []byte) {
	return s.first, s.keys[s.first].Seal(nil, nil, []byte(value), boundTo(thread, name))
}

// open is the inverse of close. Unauthorized means that the key is not here, RuntimeError that the
// value was closed for something else, or was changed.
func (s *Seal) open(thread actor.ID, name, key string, sealed []byte) (string, error) {
	if s == nil || s.keys[key] == nil {
		return "", refuse(actor.Unauthorized, name, "it is sealed under the key %.16q, which this process does not have", key)
	}
	value, err := s.keys[key].Open(nil, nil, sealed, boundTo(thread, name))
	if err != nil {
		return "", refuse(actor.RuntimeError, name, "it does not open under its key %s: it was changed, or was sealed for another thread or name", key)
	}
	return string(value), nil
}

// boundTo is what a value is closed for. Each part is preceded by its length, so that no two pairs
// run into one another.
func boundTo(thread actor.ID, name string) []byte {
	var b []byte
	for _, part := range [...]string{string(thread), name} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}
