package store_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// sealed is a Store that has the keys of these seeds, the one that closes first.
func sealed(t testing.TB, e *env, seeds ...uint64) *store.Store {
	t.Helper()
	var keys [][]byte
	for _, seed := range seeds {
		keys = append(keys, random(store.SealKeyBytes, seed))
	}
	seal, err := store.NewSeal(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e.other(t, func(c *store.Config) { c.Seal = seal })
}

func wantEnv(t testing.TB, s *store.Store, thread actor.ID, want map[string]string, names ...string) {
	t.Helper()
	got, err := s.Env.Get(t.Context(), thread, names...)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("the values of %s are %q (%v), want %q", thread, got, err, want)
	}
}

func wantNames(t testing.TB, s *store.Store, thread actor.ID, want ...string) {
	t.Helper()
	if got, err := s.Env.Names(t.Context(), thread); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the names of %s are %q (%v), want %q", thread, got, err, want)
	}
}

func put(t testing.TB, s *store.Store, thread actor.ID, values map[string]string) {
	t.Helper()
	if err := s.Env.Set(t.Context(), thread, values); err != nil {
		t.Fatalf("set values of %s: %v", thread, err)
	}
}

func scoped(t *testing.T, e *env) {
	thread := actor.ID("env a.b")
	wantEnv(t, e.Store, thread, map[string]string{})
	wantNames(t, e.Store, thread)
	put(t, e.Store, thread, map[string]string{"A": "1", "EMPTY": "", "UTF": "é<🎭>\n"})
	put(t, e.Store, thread, map[string]string{"A": "2", "B": "3"})
	put(t, e.Store, thread, nil)
	wantEnv(t, e.Store, thread, map[string]string{"A": "2", "B": "3", "EMPTY": "", "UTF": "é<🎭>\n"})
	wantEnv(t, e.Store, thread, map[string]string{"A": "2", "EMPTY": ""}, "A", "EMPTY", "NONE", "A")
	wantNames(t, e.Store, thread, "A", "B", "EMPTY", "UTF")
	if got, want := e.raw(t, e.names.EnvBucket(), "env=20a=2Eb"),
		`{"values":{"A":{"value":"2"},"B":{"value":"3"},"EMPTY":{"value":""},"UTF":{"value":"é<🎭>\n"}}}`; got != want {
		t.Errorf("without a key a person reads %s, want %s", got, want)
	}
	for _, bad := range []string{"", "A=B", "A\nB", "\xff", strings.Repeat("N", 257)} {
		err := e.Env.Set(t.Context(), thread, map[string]string{"C": "1", bad: "1"})
		wantKind(t, fmt.Sprintf("the name %.10q", bad), err, actor.SchemaViolation)
	}
	wantKind(t, "a value that is no text", e.Env.Set(t.Context(), thread, map[string]string{"C": "\xff"}), actor.SchemaViolation)
	wantKind(t, "a value over the limit", e.Env.Set(t.Context(), thread, map[string]string{"C": strings.Repeat("x", store.MaxEnvBytes+1)}), actor.TooLarge)
	many := map[string]string{}
	for i := range 10 {
		many[fmt.Sprintf("BIG%d", i)] = strings.Repeat("x", store.MaxEnvBytes)
	}
	wantKind(t, "more than an entry holds", e.Env.Set(t.Context(), thread, many), actor.TooLarge)
	wantNames(t, e.Store, thread, "A", "B", "EMPTY", "UTF")
	for range 2 {
		if err := e.Env.Remove(t.Context(), thread); err != nil {
			t.Errorf("remove: %v", err)
		}
		wantNames(t, e.Store, thread)
	}
	put(t, e.Store, thread, map[string]string{"A": "again"})
	wantEnv(t, e.Store, thread, map[string]string{"A": "again"})
}

func scopedCopy(t *testing.T, e *env) {
	for what, s := range map[string]*store.Store{"plain": e.Store, "sealed": sealed(t, e, 1)} {
		from, to := actor.ID("env from "+what), actor.ID("env to "+what)
		put(t, s, from, map[string]string{"A": "1", "B": "2", "C": "3"})
		put(t, s, to, map[string]string{"A": "old", "OWN": "4"})
		missing, err := s.Env.CopyTo(t.Context(), from, to, []string{"Y", "A", "X", "Y"})
		if err != nil || fmt.Sprint(missing) != "[Y X]" {
			t.Errorf("%s: missing are %q (%v), want Y and X", what, missing, err)
		}
		wantEnv(t, s, to, map[string]string{"A": "old", "OWN": "4"})
		for range 2 {
			if missing, err := s.Env.CopyTo(t.Context(), from, to, []string{"A", "B"}); err != nil || missing != nil {
				t.Errorf("%s: copy: %v, missing %q", what, err, missing)
			}
			wantEnv(t, s, to, map[string]string{"A": "1", "B": "2", "OWN": "4"})
		}
		if missing, err := s.Env.CopyTo(t.Context(), "nobody", to, nil); err != nil || missing != nil {
			t.Errorf("%s: a copy of nothing: %v, missing %q", what, err, missing)
		}
	}
}

func scopedSealed(t *testing.T, e *env) {
	bucket := e.names.EnvBucket()
	s, stranger := sealed(t, e, 1), sealed(t, e, 2)
	put(t, e.Store, "closed", map[string]string{"OLD": "as it was"}) // before there was a key
	put(t, s, "closed", map[string]string{"A": "canary", "B": "canary"})
	wantEnv(t, s, "closed", map[string]string{"A": "canary", "B": "canary", "OLD": "as it was"})
	raw := e.raw(t, bucket, "closed")
	if strings.Contains(raw, "canary") || strings.Contains(raw, base64.StdEncoding.EncodeToString([]byte("canary"))) {
		t.Errorf("the values can be read in %s", raw)
	}
	put(t, s, "closed too", map[string]string{"A": "canary"})
	if other := e.raw(t, bucket, "closed=20too"); sealedIn(t, other) == sealedIn(t, raw) {
		t.Errorf("equal values are closed alike, so that it shows that they are equal: %s", other)
	}
	for what, other := range map[string]*store.Store{"no key": e.Store, "another key": stranger} {
		wantNames(t, other, "closed", "A", "B", "OLD")
		wantEnv(t, other, "closed", map[string]string{"OLD": "as it was"}, "OLD")
		_, err := other.Env.Get(t.Context(), "closed", "A")
		wantKind(t, "a value, with "+what, err, actor.Unauthorized)
		_, err = other.Env.CopyTo(t.Context(), "closed", "x", []string{"A"})
		wantKind(t, "a copy, with "+what, err, actor.Unauthorized)
	}
	err := e.Env.Set(t.Context(), "closed", map[string]string{"C": "3"})
	wantKind(t, "a value in the clear beside sealed ones", err, actor.Unauthorized)
	wantNames(t, s, "closed", "A", "B", "OLD")

	// What was closed for one thread and name opens for no other.
	e.spoil(t, bucket, "thief", raw)
	e.spoil(t, bucket, "closed", strings.Replace(raw, `"B":`, `"STOLEN":`, 1))
	_, err = s.Env.Get(t.Context(), "thief", "A")
	wantKind(t, "a value that was moved to another thread", err, actor.RuntimeError)
	_, err = s.Env.Get(t.Context(), "closed", "STOLEN")
	wantKind(t, "a value that was moved to another name", err, actor.RuntimeError)
	wantEnv(t, s, "closed", map[string]string{"A": "canary"}, "A")
	text := sealedIn(t, raw)
	e.spoil(t, bucket, "closed", strings.Replace(raw, text, "AAAA"+text[4:], 1))
	_, err = s.Env.Get(t.Context(), "closed", "A")
	wantKind(t, "a value that was changed", err, actor.RuntimeError)
	e.spoil(t, bucket, "closed", strings.Replace(raw, text, "AAAA", 1))
	_, err = s.Env.Get(t.Context(), "closed", "A")
	wantKind(t, "a value that was cut", err, actor.RuntimeError)
}

// sealedIn is the first sealed value of an entry.
func sealedIn(t testing.TB, raw string) string {
	t.Helper()
	_, text, ok := strings.Cut(raw, `"sealed":"`)
	if !ok {
		t.Fatalf("nothing is sealed in %s", raw)
	}
	text, _, _ = strings.Cut(text, `"`)
	return text
}

// scopedRotation: a new key closes what is written, an old one opens what is there, until all is
// closed anew.
func scopedRotation(t *testing.T, e *env) {
	e = e.beside(t) // Reseal concerns a whole namespace
	thread := actor.ID("rotated")
	put(t, e.Store, "open", map[string]string{"A": "plain"})
	put(t, sealed(t, e, 1), thread, map[string]string{"A": "1", "B": "1"})
	e.spoil(t, e.names.EnvBucket(), "not.an.entry", "x")
	both := sealed(t, e, 2, 1)
	wantEnv(t, both, thread, map[string]string{"A": "1", "B": "1"})
	put(t, both, thread, map[string]string{"B": "2"})
	wantEnv(t, both, thread, map[string]string{"A": "1", "B": "2"})
	second := sealed(t, e, 2)
	wantEnv(t, second, thread, map[string]string{"B": "2"}, "B")
	_, err := second.Env.Reseal(t.Context())
	wantKind(t, "closing anew without the old key", err, actor.Unauthorized)
	_, err = e.Env.Reseal(t.Context())
	wantKind(t, "closing anew without any", err, actor.Unauthorized)
	for _, want := range []int{1, 0} { // the plain one was closed by the call that did not come to its end
		if n, err := both.Env.Reseal(t.Context()); err != nil || n != want {
			t.Errorf("%d threads were closed anew (%v), want %d", n, err, want)
		}
	}
	wantEnv(t, second, thread, map[string]string{"A": "1", "B": "2"})
	wantEnv(t, second, "open", map[string]string{"A": "plain"})
	if raw := e.raw(t, e.names.EnvBucket(), "open"); strings.Contains(raw, "plain") {
		t.Errorf("after all was closed %s can be read", raw)
	}
}

func scopedTogether(t *testing.T, e *env) {
	s := sealed(t, e, 1)
	var all sync.WaitGroup
	want := map[string]string{}
	for w := range 5 {
		want[fmt.Sprintf("N%d", w)] = "4"
		all.Go(func() {
			for i := range 5 {
				if err := s.Env.Set(t.Context(), "env together", map[string]string{fmt.Sprintf("N%d", w): fmt.Sprint(i)}); err != nil {
					t.Errorf("set: %v", err)
				}
			}
		})
	}
	all.Wait()
	wantEnv(t, s, "env together", want)
}

// scopedCanary: no error tells a value, nor a key.
func scopedCanary(t *testing.T, e *env) {
	const canary = "c4n4ry"
	bucket := e.names.EnvBucket()
	s := sealed(t, e, 1)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	secret := func(value string) map[string]string { return map[string]string{"A": value} }
	long := strings.Repeat(canary, store.MaxEnvBytes)
	put(t, s, "canary", secret(canary))
	e.spoil(t, bucket, "moved", e.raw(t, bucket, "canary"))
	e.spoil(t, bucket, "spoilt", `{"values":{"A":{"value":"`+canary)
	e.spoil(t, bucket, "spoilt2", `{"values":{"A":{"value":{"`+canary+`":1}}}}`)
	e.spoil(t, bucket, "spoilt3", `{"values":"`+canary+`"}`)
	full := map[string]string{}
	for i := range 12 {
		full[fmt.Sprintf("F%d", i)] = long[:store.MaxEnvBytes]
	}
	get := func(s *store.Store, thread actor.ID) error { _, err := s.Env.Get(t.Context(), thread); return err }
	parse := func(text string) error { _, err := store.ParseSeal(text); return err }
	for what, err := range map[string]error{
		"cancelled":        s.Env.Set(cancelled, "canary", secret(canary)),
		"too long":         s.Env.Set(t.Context(), "canary", secret(long)),
		"no text":          s.Env.Set(t.Context(), "canary", secret(canary+"\xff")),
		"no name":          s.Env.Set(t.Context(), "canary", map[string]string{"": canary}),
		"too much":         s.Env.Set(t.Context(), "canary", full),
		"no key":           get(e.Store, "canary"),
		"another key":      get(sealed(t, e, 2), "canary"),
		"moved":            get(s, "moved"),
		"cut off":          get(s, "spoilt"),
		"of another type":  get(s, "spoilt2"),
		"no map":           get(s, "spoilt3"),
		"set in it":        s.Env.Set(t.Context(), "spoilt", secret(canary)),
		"in the clear":     e.Env.Set(t.Context(), "canary", secret(canary)),
		"a key, no base64": parse("# key\n" + canary + "!"),
		"a short key":      parse(base64.StdEncoding.EncodeToString([]byte(canary))),
		"no keys":          parse("\n"),
	} {
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte(canary))) {
			t.Errorf("%s gave %v, want an error that does not tell the value", what, err)
		}
	}
	seal, err := store.ParseSeal("# the present key\n  " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("canary 1", 4))) + "\r\n\n")
	if err != nil || strings.Contains(fmt.Sprintf("%v %+v", seal, seal), "canary") {
		t.Errorf("a seal prints as %v (%v)", seal, err)
	}
}
