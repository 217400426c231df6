package subjects_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

var lanes = []string{"a", "b", "host", "ctl", "job"}

// drawText draws a name: often a hostile one, or a short one over few letters, so that two draws are
// often nearly alike.
func drawText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(hostile),
		rapid.StringOfN(rapid.SampledFrom([]rune("aA=.*2E~ ")), 0, 4, -1),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func (c codec) draw(t *rapid.T) []string {
	args := make([]string, len(c.args))
	for i, kind := range c.args {
		switch kind {
		case 'p':
			args[i] = strconv.Itoa(rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(0, math.MaxInt)).Draw(t, "partition"))
		case 'l':
			args[i] = rapid.SampledFrom(lanes).Draw(t, "lane")
		default:
			args[i] = drawText().Draw(t, "text")
		}
	}
	return args
}

// checkRoundTrip holds a builder and its inverse together for one list of arguments.
func checkRoundTrip(t rapid.TB, c codec, args []string) {
	t.Helper()
	s := c.build(args)
	got, err := c.parse(s)
	switch valid := c.valid(args); {
	case valid && err != nil:
		t.Fatalf("%s%q = %q, but its inverse refuses it: %v", c.name, args, s, err)
	case valid && !slices.Equal(got, args):
		t.Fatalf("%s%q = %q, but its inverse reads %q: what is sent arrives elsewhere", c.name, args, s, got)
	case !valid && !errors.Is(err, actor.SchemaViolation):
		t.Fatalf("%s%q = %q carries an id that ValidID refuses; its inverse says %v, want a schema_violation", c.name, args, s, err)
	}
	if strings.ContainsAny(s, "*> \t\r\n\x00") || strings.Contains(s, "..") || strings.HasSuffix(s, ".") {
		t.Fatalf("%s%q = %q is not a literal subject: a name got out of its token", c.name, args, s)
	}
}

func TestEveryBuilderHasAnInverse(t *testing.T) {
	t.Parallel()
	for _, c := range codecs(names(t, "")) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { checkRoundTrip(t, c, c.draw(t)) })
		})
	}
}

func TestHostileNamesComeThrough(t *testing.T) {
	t.Parallel()
	for _, c := range codecs(names(t, "")) {
		for i, name := range slices.Concat(hostile, []string{"", "\xff", strings.Repeat("x", actor.MaxIDBytes+1)}) {
			args := make([]string, len(c.args))
			for j, kind := range c.args {
				switch kind {
				case 'p':
					args[j] = strconv.Itoa(i)
				case 'l':
					args[j] = lanes[i%len(lanes)]
				default:
					args[j] = name
				}
			}
			checkRoundTrip(t, c, args)
		}
	}
}

// TestTwoNamesNeverGiveOneSubject compares builders with each other and with themselves, over names
// that are nearly alike, and over two namespaces of which one begins with the other.
func TestTwoNamesNeverGiveOneSubject(t *testing.T) {
	t.Parallel()
	all := slices.Concat(codecs(names(t, "t")), codecs(names(t, "t_registry")))
	rapid.Check(t, func(t *rapid.T) {
		i, j := rapid.IntRange(0, len(all)-1).Draw(t, "first"), rapid.IntRange(0, len(all)-1).Draw(t, "second")
		x, y := all[i], all[j]
		a, b := x.draw(t), y.draw(t)
		if i == j && slices.Equal(a, b) {
			return
		}
		if s := x.build(a); s == y.build(b) {
			t.Fatalf("%s%q and %s%q are both %q: one would receive what the other is sent", x.name, a, y.name, b, s)
		}
	})
}

func TestHostileNamesDoNotCollide(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range append(slices.Clone(hostile), "") {
		token := subjects.EncodeToken(name)
		if other, ok := seen[token]; ok {
			t.Errorf("%q and %q are both the token %q", name, other, token)
		}
		seen[token] = name
	}
}

func TestStreamsAndBucketsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, ns := range []string{"t", "t_inbox", "KV_t", "t_registry"} {
		for what, stream := range streamNames(names(t, ns)) {
			if other, ok := seen[stream]; ok {
				t.Errorf("stream %q is both %s and %s of namespace %q", stream, other, what, ns)
			}
			seen[stream] = what + " of " + ns
		}
	}
}

func streamNames(n subjects.Names) map[string]string {
	return map[string]string{
		"inbox": n.InboxStream(), "timer": n.TimerStream(), "mail": n.MailStream(), "journal": n.JournalStream(),
		"work": n.WorkStream(), "dead": n.DeadStream(),
		"registry": subjects.KVStream(n.RegistryBucket()), "agents": subjects.KVStream(n.AgentsBucket()),
		"memory": subjects.KVStream(n.MemoryBucket()), "env": subjects.KVStream(n.EnvBucket()),
		"files": subjects.KVStream(n.FilesBucket()), "requests": subjects.KVStream(n.RequestsBucket()),
		"keys": subjects.KVStream(n.KeysBucket()), "leases": subjects.KVStream(n.LeasesBucket()),
		"members": subjects.KVStream(n.MembersBucket()), "blobs": "OBJ_" + n.BlobsBucket(),
	}
}

// FuzzParse feeds every parser one arbitrary subject. What a parser accepts, its builder must spell
// exactly so.
func FuzzParse(f *testing.F) {
	for _, c := range codecs(names(f, "")) {
		args := make([]string, len(c.args))
		for i, kind := range c.args {
			args[i] = map[rune]string{'p': "7", 'l': "ctl", 'i': "a.b 🎭", 'o': "", 'n': "="}[kind]
		}
		s := c.build(args)
		f.Add(s)
		f.Add(strings.ToLower(s))
		f.Add(s + ".x")
		f.Add(strings.Replace(s, "7", "07", 1))
	}
	f.Add("troupe.journal.host")
	f.Add("troupe.journal.a.hos=74")
	f.Add("troupe.inbox.-0.a.a.a")
	f.Fuzz(func(t *testing.T, s string) {
		accepted := []string{}
		for _, c := range codecs(names(t, "")) {
			args, err := c.parse(s)
			if err != nil {
				continue
			}
			key := strings.HasPrefix(c.build(args), "$KV.")
			if back := c.build(args); back != s && !(key && strings.HasSuffix(back, "."+s)) {
				t.Fatalf("the inverse of %s reads %q from %q, but that is spelled %q", c.name, args, s, back)
			}
			if !key {
				accepted = append(accepted, c.name)
			}
		}
		if len(accepted) > 1 {
			t.Fatalf("%q is read as all of %q: it can only be one", s, accepted)
		}
	})
}

// FuzzBuild holds every builder and its inverse together for arbitrary names.
func FuzzBuild(f *testing.F) {
	for _, name := range append(slices.Clone(hostile), "", "\xff") {
		f.Add(name, "parent_1", uint16(3))
		f.Add("parent_1", name, uint16(300))
	}
	f.Fuzz(func(t *testing.T, first, second string, p uint16) {
		for _, c := range codecs(names(t, "")) {
			args := make([]string, len(c.args))
			for i, kind := range c.args {
				switch {
				case kind == 'p':
					args[i] = strconv.Itoa(int(p))
				case kind == 'l':
					args[i] = lanes[int(p)%len(lanes)]
				case i == len(c.args)-1:
					args[i] = second
				default:
					args[i] = first
				}
			}
			checkRoundTrip(t, c, args)
		}
	})
}
