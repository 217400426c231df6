package subjects

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

const maxReplyBytes = 1024

// ReplyAllowed checks the reply subject of a request before the runtime answers to it. The runtime
// may publish where the caller may not, so the caller must not choose such a place: a reply inside
// the namespace, or one beginning with "$" (the JetStream API, buckets, the system), is
// unauthorized. One that is not a literal subject of at most 1,024 bytes is a schema_violation. An
// empty reply is fine: no answer is wanted.
//
// What remains has to look like a reply subject: NATS's own begin with an underscore ("_INBOX.…", and
// "_INBOX_name.…" where permissions give each user its own). Anything else may be somebody's.
func (n Names) ReplyAllowed(reply string) error {
	const op, field = "subjects.ReplyAllowed", "reply"
	if reply == "" {
		return nil
	}
	if len(reply) > maxReplyBytes {
		return refuse(op, field, fmt.Errorf("%d bytes, at most %d are allowed", len(reply), maxReplyBytes))
	}
	if err := literal(reply); err != nil {
		return refuse(op, field, err)
	}
	first, _, _ := strings.Cut(reply, ".")
	if first[0] != '_' || first == n.Namespace() {
		return &actor.Error{Op: op, Kind: actor.Unauthorized, Field: field,
			Err: fmt.Errorf("the runtime does not answer to %q", reply)}
	}
	return nil
}

// ValidSubject checks a subject that people configured for requests to somebody else's service: it must be
// literal. The error is a schema_violation.
func ValidSubject(subject string) error {
	const op, field = "subjects.ValidSubject", "subject"
	if subject == "" {
		return refuse(op, field, errors.New("is empty"))
	}
	if err := literal(subject); err != nil {
		return refuse(op, field, err)
	}
	return nil
}

// literal checks that a subject can be published to: no empty token, no wildcard, nothing that
// would end it on the wire.
func literal(subject string) error {
	if subject[0] == '.' || subject[len(subject)-1] == '.' || strings.Contains(subject, "..") {
		return errors.New("the subject has an empty token")
	}
	for i := range len(subject) {
		switch c := subject[i]; {
		case c == '*' || c == '>':
			return errors.New("the subject has a wildcard")
		case c <= ' ' || c == 0x7F:
			return errors.New("the subject has a space or a control character")
		}
	}
	return nil
}
