package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

func TestReplyAllowed(t *testing.T) {
	t.Parallel()
	n := names(t, "")
	for _, reply := range []string{"", "_INBOX.abc.1", "_INBOX_parent_1.x", "_R_.abc", "_INBOX.troupe.inbox",
		"_" + strings.Repeat("r", 1023)} {
		if err := n.ReplyAllowed(reply); err != nil {
			t.Errorf("an answer to %q harms nobody and is refused: %v", reply, err)
		}
	}
	for reply, want := range map[string]actor.Kind{
		"troupe":                      actor.Unauthorized,
		n.Inbox("a", actor.LaneA, ""): actor.Unauthorized,
		"troupe.a2e.parent_1":         actor.Unauthorized,
		"$JS.API.STREAM.DELETE.x":     actor.Unauthorized,
		"$KV.troupe_leases.p.0":       actor.Unauthorized,
		"$":                           actor.Unauthorized,
		"orders.new":                  actor.Unauthorized,
		"other.inbox.sub_1.a.z":       actor.Unauthorized,
		"_INBOX.*":                    actor.SchemaViolation,
		"_INBOX.>":                    actor.SchemaViolation,
		"_INBOX.a b":                  actor.SchemaViolation,
		"_INBOX.a\r\nPUB x 1":         actor.SchemaViolation,
		"_INBOX.a\x00":                actor.SchemaViolation,
		"_INBOX..a":                   actor.SchemaViolation,
		".a":                          actor.SchemaViolation,
		"a.":                          actor.SchemaViolation,
		".":                           actor.SchemaViolation,
		strings.Repeat("r", 1025):     actor.SchemaViolation,
	} {
		if err := n.ReplyAllowed(reply); !errors.Is(err, want) {
			t.Errorf("ReplyAllowed(%q) = %v, want %s: the runtime would publish there in its own name", reply, err, want)
		}
	}
}

// TestReplyNeverHitsOurOwnSubjects tries every subject of the namespace as a reply.
func TestReplyNeverHitsOurOwnSubjects(t *testing.T) {
	t.Parallel()
	n := names(t, "")
	for _, c := range codecs(n) {
		args := make([]string, len(c.args))
		for i, kind := range c.args {
			args[i] = map[rune]string{'p': "1", 'l': "a"}[kind]
			if args[i] == "" {
				args[i] = "x"
			}
		}
		if s := c.build(args); !errors.Is(n.ReplyAllowed(s), actor.Unauthorized) {
			t.Errorf("a request may have its answer written to %q, a subject of the runtime's own", s)
		}
	}
}

func TestValidSubject(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"weather.now", "$SRV.PING", "風"} {
		if err := subjects.ValidSubject(subject); err != nil {
			t.Errorf("%q can be asked and is refused: %v", subject, err)
		}
	}
	for _, subject := range []string{"", "a.*", ">", "a..b", ".a", "a.", "a b", "a\r\nPUB x 1"} {
		if err := subjects.ValidSubject(subject); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%q is no subject for a request; the error is %v", subject, err)
		}
	}
}
