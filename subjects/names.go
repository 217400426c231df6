package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

// DefaultNamespace is the namespace when none is configured.
const DefaultNamespace = "troupe"

const maxNamespaceBytes = 64

// Names spells what belongs to one namespace. It is a small value: copy and compare it freely. Only
// [New] makes a usable one.
type Names struct {
	prefix string // the namespace and a dot: what every subject begins with
}

// New gives the names of a namespace: 1 to 64 bytes of [A-Za-z0-9_-], or [DefaultNamespace] when it
// is empty.
func New(namespace string) (Names, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	if len(namespace) > maxNamespaceBytes {
		return Names{}, refuse("subjects.New", "namespace",
			fmt.Errorf("%d bytes, at most %d are allowed", len(namespace), maxNamespaceBytes))
	}
	for i := range len(namespace) {
		if !plain(namespace[i]) {
			return Names{}, refuse("subjects.New", "namespace",
				fmt.Errorf("%q: only A-Z, a-z, 0-9, '_' and '-' are allowed", namespace))
		}
	}
	return Names{prefix: namespace + "."}, nil
}

// Namespace is the namespace itself.
func (n Names) Namespace() string { return strings.TrimSuffix(n.prefix, ".") }

// ValidID checks the id of an actor: not empty, valid UTF-8, at most [actor.MaxIDBytes] bytes.
func ValidID(id actor.ID) error { return validID("subjects.ValidID", "id", id) }

func validID(op, field string, id actor.ID) error {
	switch {
	case id == "":
		return refuse(op, field, errors.New("an id is empty"))
	case len(id) > actor.MaxIDBytes:
		return refuse(op, field, fmt.Errorf("an id of %d bytes, at most %d are allowed", len(id), actor.MaxIDBytes))
	case !utf8.ValidString(string(id)):
		return refuse(op, field, fmt.Errorf("id %q is not valid UTF-8", string(id)))
	}
	return nil
}

// validIDs checks several ids that were read from one subject or key.
func validIDs(op, field string, ids ...string) error {
	for _, id := range ids {
		if err := validID(op, field, actor.ID(id)); err != nil {
			return err
		}
	}
	return nil
}

// join spells prefix, kind and the encoded tokens with dots between them, in one allocation.
func join(prefix, kind string, tokens ...string) string {
	size := len(prefix) + len(kind) + len(tokens) - 1
	for _, t := range tokens {
		size += encodedLen(t)
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(prefix)
	b.WriteString(kind)
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte('.')
		}
		writeToken(&b, t)
	}
	return b.String()
}

// parse is the inverse of join: it decodes the tokens behind prefix and kind into dst and fails
// unless there are exactly len(dst) of them.
func parse(prefix, kind, s string, dst []string) error {
	rest, ok := strings.CutPrefix(s, prefix)
	if ok {
		rest, ok = strings.CutPrefix(rest, kind)
	}
	if !ok {
		return fmt.Errorf("%q does not begin with %q", s, prefix+kind)
	}
	if got := strings.Count(rest, ".") + 1; got != len(dst) {
		return fmt.Errorf("%q has %d tokens behind %q, want %d", s, got, prefix+kind, len(dst))
	}
	for i := range dst {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		var err error
		if dst[i], err = decode(token); err != nil {
			return fmt.Errorf("%q: %w", s, err)
		}
	}
	return nil
}

// parseNumber reads a number as strconv.Itoa writes it: no sign, no leading zero.
func parseNumber(s string) (int, error) {
	v, err := strconv.Atoi(s)
	if err != nil || v < 0 || len(s) > 1 && s[0] == '0' || s[0] == '+' || s[0] == '-' {
		return 0, fmt.Errorf("%q is not the number of a partition", s)
	}
	return v, nil
}

func refuse(op, field string, err error) error {
	return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: field, Err: err}
}
