package subjects_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// names gives the names of a namespace that must be valid.
func names(t testing.TB, namespace string) subjects.Names {
	t.Helper()
	n, err := subjects.New(namespace)
	if err != nil {
		t.Fatalf("New(%q) refuses a good namespace: %v", namespace, err)
	}
	return n
}

// hostile are names that must come through any subject and key unharmed.
var hostile = []string{
	"sub_1f0c22aa", "parent_1", "a", "host", "ctl", "p", "config", "~", ":", "a b", " ", "a.b", ".", "..", "*", ">",
	"a.*", "a.>", "$JS", "$1", "{{wildcard(1)}}", "=", "==", "=2E", "=2e", "=41", "%2E", "a/b", "\\", "\t", "\r\n", "\x00", "\x7f",
	"Ada 🎭", "שלום", "مرحبا", "\u202Eabc", "é", "e\u0301", "A", "0", "00", "-1", "+1", strings.Repeat("*", actor.MaxIDBytes),
}

// A codec is one builder and its inverse. args has a letter for each argument: i an id, o an id or
// nothing, n any text, p a partition, l a lane.
type codec struct {
	name  string
	args  string
	build func(a []string) string
	parse func(s string) ([]string, error)
}

// valid reports whether the parser must accept what the builder makes of a.
func (c codec) valid(a []string) bool {
	for i, kind := range c.args {
		switch kind {
		case 'i':
			if subjects.ValidID(actor.ID(a[i])) != nil {
				return false
			}
		case 'o':
			if a[i] != "" && subjects.ValidID(actor.ID(a[i])) != nil {
				return false
			}
		}
	}
	return true
}

// codecs are all builders that have an inverse: those of subjects under their namespace, those of
// keys under a bucket of it, so that any two of them may be compared.
func codecs(n subjects.Names) []codec {
	return append(subjectCodecs(n), keyCodecs(n)...)
}

func subjectCodecs(n subjects.Names) []codec {
	id := func(s string) actor.ID { return actor.ID(s) }
	return []codec{
		{"Inbox", "ili", func(a []string) string { return n.Inbox(id(a[0]), actor.Lane(a[1]), id(a[2])) },
			func(s string) ([]string, error) {
				r, err := n.ParseInbox(s)
				return []string{string(r.To), string(r.Lane), string(r.From)}, err
			}},
		{"StoredInbox", "pili", func(a []string) string {
			return n.StoredInbox(number(a[0]), id(a[1]), actor.Lane(a[2]), id(a[3]))
		},
			func(s string) ([]string, error) {
				p, r, err := n.ParseStoredInbox(s)
				return []string{strconv.Itoa(p), string(r.To), string(r.Lane), string(r.From)}, err
			}},
		{"Journal", "i", func(a []string) string { return n.Journal(actor.Address{ID: id(a[0])}) }, journal(n, false)},
		{"Journal of a host", "i", func(a []string) string { return n.Journal(actor.Address{ID: id(a[0]), Host: true}) }, journal(n, true)},
		{"Event", "iin", func(a []string) string { return n.Event(id(a[0]), id(a[1]), a[2]) },
			func(s string) ([]string, error) {
				root, id, name, err := n.ParseEvent(s)
				return []string{string(root), string(id), name}, err
			}},
		{"Mail", "iin", func(a []string) string { return n.Mail(id(a[0]), id(a[1]), a[2]) },
			func(s string) ([]string, error) {
				agent, from, session, err := n.ParseMail(s)
				return []string{string(agent), string(from), session}, err
			}},
		{"Timer", "in", func(a []string) string { return n.Timer(id(a[0]), a[1]) }, named(n.ParseTimer)},
		{"Fired", "in", func(a []string) string { return n.Fired(id(a[0]), a[1]) }, named(n.ParseFired)},
		{"Work", "nnip", func(a []string) string { return n.Work(a[0], a[1], id(a[2]), uint64(number(a[3]))) },
			func(s string) ([]string, error) {
				k, name, thread, job, err := n.ParseWork(s)
				return []string{k, name, string(thread), strconv.FormatUint(job, 10)}, err
			}},
		{"JobCancel", "ip", func(a []string) string { return n.JobCancel(id(a[0]), uint64(number(a[1]))) },
			func(s string) ([]string, error) {
				thread, job, _, err := n.ParseJob(s)
				return []string{string(thread), strconv.FormatUint(job, 10)}, err
			}},
		{"Dead", "n", func(a []string) string { return n.Dead(id(a[0])) },
			func(s string) ([]string, error) { id, err := n.ParseDead(s); return []string{string(id)}, err }},
		{"A2E", "i", func(a []string) string { return n.A2E(id(a[0])) },
			func(s string) ([]string, error) { id, err := n.ParseA2E(s); return []string{string(id)}, err }},
	}
}

func keyCodecs(n subjects.Names) []codec {
	in := func(bucket, key string) string { return subjects.KVSubject(bucket, key) }
	out := func(bucket, s string) string { return strings.TrimPrefix(s, subjects.KVSubject(bucket, "")) }
	return []codec{
		{"RegistryKey", "ioi", func(a []string) string {
			return in(n.RegistryBucket(), subjects.RegistryKey(actor.ID(a[0]), actor.ID(a[1]), actor.ID(a[2])))
		},
			func(s string) ([]string, error) {
				root, parent, child, err := subjects.ParseRegistryKey(out(n.RegistryBucket(), s))
				return []string{string(root), string(parent), string(child)}, err
			}},
		{"LeaseKey", "p", func(a []string) string { return in(n.LeasesBucket(), subjects.LeaseKey(number(a[0]))) },
			func(s string) ([]string, error) {
				p, err := subjects.ParseLeaseKey(out(n.LeasesBucket(), s))
				return []string{strconv.Itoa(p)}, err
			}},
		{"RequestKey", "in", func(a []string) string { return in(n.RequestsBucket(), subjects.RequestKey(actor.ID(a[0]), a[1])) },
			func(s string) ([]string, error) {
				parent, id, err := subjects.ParseRequestKey(out(n.RequestsBucket(), s))
				return []string{string(parent), id}, err
			}},
		{"MemberKey", "n", func(a []string) string { return in(n.MembersBucket(), subjects.MemberKey(a[0])) },
			func(s string) ([]string, error) {
				id, err := subjects.ParseMemberKey(out(n.MembersBucket(), s))
				return []string{id}, err
			}},
		{"AgentKey", "n", func(a []string) string { return in(n.AgentsBucket(), subjects.AgentKey(a[0])) },
			func(s string) ([]string, error) {
				name, err := subjects.ParseAgentKey(out(n.AgentsBucket(), s))
				return []string{name}, err
			}},
		{"AgentVersionKey", "np", func(a []string) string {
			return in(n.AgentsBucket(), subjects.AgentVersionKey(a[0], uint64(number(a[1]))))
		},
			func(s string) ([]string, error) {
				name, version, err := subjects.ParseAgentVersionKey(out(n.AgentsBucket(), s))
				if err == nil && version > math.MaxInt {
					err = fmt.Errorf("version %d is more than the test can draw", version)
				}
				return []string{name, strconv.FormatUint(version, 10)}, err
			}},
	}
}

func journal(n subjects.Names, host bool) func(string) ([]string, error) {
	return func(s string) ([]string, error) {
		a, err := n.ParseJournal(s)
		if err == nil && a.Host != host {
			err = fmt.Errorf("%q parsed as %v, host %v", s, a, a.Host)
		}
		return []string{string(a.ID)}, err
	}
}

func named(parse func(string) (actor.ID, string, error)) func(string) ([]string, error) {
	return func(s string) ([]string, error) {
		id, name, err := parse(s)
		return []string{string(id), name}, err
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
