package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

func TestEncodeToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":             "=",
		"sub_1f0c22aa": "sub_1f0c22aa",
		"A-z_09":       "A-z_09",
		"a.b":          "a=2Eb",
		"*":            "=2A",
		">":            "=3E",
		"=":            "=3D",
		"~":            "=7E",
		":":            "=3A",
		" ":            "=20",
		"é":            "=C3=A9",
		"🎭":            "=F0=9F=8E=AD",
		"\xff":         "=FF",
	} {
		if got := subjects.EncodeToken(text); got != want {
			t.Errorf("EncodeToken(%q) = %q, want %q: subjects already in a store could not be found again", text, got, want)
		}
	}
}

func TestDecodeTokenRefusesWhatIsNotCanonical(t *testing.T) {
	t.Parallel()
	for token, why := range map[string]string{
		"":      "no token at all",
		"a.b":   "two tokens",
		"a b":   "a space",
		"*":     "a wildcard",
		">":     "a wildcard",
		"é":     "bytes that need an escape",
		"=4":    "an escape cut short",
		"a=":    "an escape cut short, not the empty text",
		"==":    "an escape cut short",
		"=3d":   "lower-case hex",
		"=e9":   "lower-case hex",
		"=G0":   "not hex",
		"=41":   "an escaped letter",
		"a=5F":  "an escaped underscore",
		"=3D=":  "an escape cut short",
		"=3D=2": "an escape cut short",
	} {
		got, err := subjects.DecodeToken(token)
		if !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("DecodeToken(%q) = %q, %v: it is %s, and one text must have one token", token, got, err, why)
		}
	}
}

func TestDecodeTokenErrorNamesTheFault(t *testing.T) {
	t.Parallel()
	_, err := subjects.DecodeToken("a=3d")
	const want = `subjects.DecodeToken: schema_violation: token: token "a=3d": "=3d" is not an escape in upper-case hex`
	if err == nil || err.Error() != want {
		t.Errorf("the error reads\n  %v\nwant\n  %s", err, want)
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
		f.Add(subjects.EncodeToken(s))
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := subjects.EncodeToken(s)
		back, err := subjects.DecodeToken(token)
		if err != nil || back != s {
			t.Errorf("EncodeToken(%q) = %q, which decodes as %q, %v", s, token, back, err)
		}
		if text, err := subjects.DecodeToken(s); err == nil && subjects.EncodeToken(text) != s {
			t.Errorf("%q decodes as %q, whose token is %q: one text has two tokens", s, text, subjects.EncodeToken(text))
		}
	})
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for _, id := range hostile {
		if err := subjects.ValidID(actor.ID(id)); err != nil {
			t.Errorf("ValidID(%q) refuses an id that is valid UTF-8: %v", id, err)
		}
	}
	for _, id := range []string{"", "\xff", "a\xc3", strings.Repeat("é", actor.MaxIDBytes/2) + "x"} {
		if err := subjects.ValidID(actor.ID(id)); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("ValidID(%q) = %v, want a schema_violation", id, err)
		}
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	for _, ns := range []string{"troupe", "A-b_9", "x", strings.Repeat("n", 64)} {
		if got := names(t, ns).Namespace(); got != ns {
			t.Errorf("New(%q).Namespace() = %q", ns, got)
		}
	}
	if got := names(t, "").Namespace(); got != subjects.DefaultNamespace {
		t.Errorf("the default namespace is %q, want %q", got, subjects.DefaultNamespace)
	}
	for _, ns := range []string{"a.b", "a b", "*", ">", "é", "$JS", "a=2E", strings.Repeat("n", 65)} {
		if _, err := subjects.New(ns); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("New(%q) = %v: it would not be one plain token, want a schema_violation", ns, err)
		}
	}
}
