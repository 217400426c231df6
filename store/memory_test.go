package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

func set(t testing.TB, e *env, space actor.ID, key, value string) {
	t.Helper()
	if err := e.Memory.Set(t.Context(), space, key, json.RawMessage(value)); err != nil {
		t.Fatalf("set %s of %s: %v", key, space, err)
	}
}

func remembers(t testing.TB, e *env, space actor.ID, key, want string) {
	t.Helper()
	got, err := e.Memory.Get(t.Context(), space, key)
	if err != nil || string(got) != want {
		t.Errorf("%s of %s is %.100s (%v), want %.100s", key, space, got, err, want)
	}
}

func memory(t *testing.T, e *env) {
	space := actor.ID("memory a.b")
	_, err := e.Memory.Get(t.Context(), space, "x")
	wantKind(t, "a value of a space that is empty", err, actor.NotFound)
	if keys, err := e.Memory.List(t.Context(), space, ""); err != nil || len(keys) != 0 {
		t.Errorf("an empty space lists %q (%v)", keys, err)
	}
	if err := e.Memory.Delete(t.Context(), space, "x"); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
	set(t, e, space, "user.name", ` "A<d>a" `)
	set(t, e, space, "user age & more", `12345678901234567890.10`)
	set(t, e, space, "null", `null`)
	set(t, e, space, "z", `{"b" : 1, "a": [ ]}`)
	remembers(t, e, space, "user.name", `"A<d>a"`)
	remembers(t, e, space, "user age & more", `12345678901234567890.10`)
	remembers(t, e, space, "null", `null`)
	remembers(t, e, space, "z", `{"b":1,"a":[]}`)
	if got, want := e.raw(t, e.names.MemoryBucket(), "memory=20a=2Eb"), `{"values":{"null":{"value":null},"user age & more":{"value":12345678901234567890.10},`+
		`"user.name":{"value":"A<d>a"},"z":{"value":{"b":1,"a":[]}}}}`; got != want {
		t.Errorf("a person reads %s\nwant %s", got, want)
	}
	if keys, err := e.Memory.List(t.Context(), space, "user"); err != nil || fmt.Sprint(keys) != "[user age & more user.name]" {
		t.Errorf("List gave %q (%v)", keys, err)
	}
	if err := e.Memory.Delete(t.Context(), space, "z"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Memory.Get(t.Context(), space, "z")
	wantKind(t, "a deleted value", err, actor.NotFound)
	for _, bad := range []string{"", "\xff", strings.Repeat("k", 257)} {
		wantKind(t, fmt.Sprintf("the key %.10q", bad), e.Memory.Set(t.Context(), space, bad, json.RawMessage(`1`)), actor.SchemaViolation)
	}
	for _, bad := range []string{"", "x", "{}{}", "\"\xff\""} {
		wantKind(t, fmt.Sprintf("the value %q", bad), e.Memory.Set(t.Context(), space, "k", json.RawMessage(bad)), actor.SchemaViolation)
	}
}

// text is a JSON string of so many bytes, different ones for different n.
func text(size, n int) string {
	return `"` + fmt.Sprintf("%08d", n) + strings.Repeat("x", size-10) + `"`
}

func memoryLarge(t *testing.T, e *env) {
	space := actor.ID("large")
	for i, size := range []int{8 << 10, 8<<10 + 1, store.MaxMemoryBytes} {
		set(t, e, space, strconv.Itoa(size), text(size, i))
		remembers(t, e, space, strconv.Itoa(size), text(size, i))
	}
	err := e.Memory.Set(t.Context(), space, "k", json.RawMessage(text(store.MaxMemoryBytes+1, 0)))
	wantKind(t, "a value over the limit", err, actor.TooLarge)
	raw := e.raw(t, e.names.MemoryBucket(), "large")
	if strings.Count(raw, `"blob":"sha256-`) != 2 || len(raw) > 10<<10 {
		t.Errorf("the entry has %d bytes and %d blobs, want what is over 8 KiB by digest: %.200s", len(raw), strings.Count(raw, "blob"), raw)
	}
	// Values that are small each and too much together become blobs, too.
	const n = 100
	err = e.Memory.Update(t.Context(), "many", func(d *store.Draft) error {
		for i := range n {
			if err := d.Set(fmt.Sprint(i), json.RawMessage(text(8<<10, i))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%d values of 8 KiB: %v", n, err)
	}
	for i := range n {
		if i%20 == 0 {
			remembers(t, e, "many", fmt.Sprint(i), text(8<<10, i))
		}
	}
	err = e.Memory.Update(t.Context(), "many", func(d *store.Draft) error {
		for i := range 6000 {
			if err := d.Set(fmt.Sprintf("key %d", i), json.RawMessage(text(120, i))); err != nil {
				return err
			}
		}
		return nil
	})
	wantKind(t, "a space that is full", err, actor.TooLarge)
	if keys, err := e.Memory.List(t.Context(), "many", ""); err != nil || len(keys) != n {
		t.Errorf("after a refused update the space has %d keys (%v), want the %d that it had", len(keys), err, n)
	}
}

func memoryUpdate(t *testing.T, e *env) {
	space := actor.ID("update")
	const writers, each = 5, 8
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if err := e.Memory.Update(t.Context(), space, func(d *store.Draft) error { return add(t.Context(), d, "n", 1) }); err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	all.Wait()
	remembers(t, e, space, "n", strconv.Itoa(writers*each))

	own := errors.New("not like this")
	err := e.Memory.Update(t.Context(), space, func(d *store.Draft) error {
		d.Delete("n")
		if _, err := d.Get(t.Context(), "n"); !errors.Is(err, actor.NotFound) {
			t.Errorf("a draft still has what was deleted in it (%v)", err)
		}
		if err := d.Set("m", json.RawMessage(`1`)); err != nil || fmt.Sprint(d.Keys("")) != "[m]" {
			t.Errorf("a draft has the keys %q (%v), want what was set in it", d.Keys(""), err)
		}
		return own
	})
	if err != own {
		t.Errorf("Update gave %v, want the callback's own error", err)
	}
	remembers(t, e, space, "n", strconv.Itoa(writers*each))
	tries := 0
	err = e.Memory.Update(t.Context(), space, func(d *store.Draft) error {
		tries++
		set(t, e, space, "other", strconv.Itoa(tries)) // somebody who is always quicker
		return d.Set("n", json.RawMessage(`0`))
	})
	wantKind(t, "an update that never comes first", err, actor.Conflict)
	if remembers(t, e, space, "n", strconv.Itoa(writers*each)); tries < 2 || tries > 100 {
		t.Errorf("it was tried %d times, want some, but not for ever", tries)
	}
	e.spoil(t, e.names.MemoryBucket(), "update", "no JSON")
	_, err = e.Memory.Get(t.Context(), space, "n")
	wantKind(t, "a space that is none", err, actor.RuntimeError)
}

// add adds to a number, which is 0 when there is none.
func add(ctx context.Context, d *store.Draft, key string, by int) error {
	n := 0
	value, err := d.Get(ctx, key)
	if err == nil {
		err = json.Unmarshal(value, &n)
	} else if errors.Is(err, actor.NotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	return d.Set(key, json.RawMessage(strconv.Itoa(n+by)))
}

// memorySnapshots: writers move an amount between two keys, one of which is large enough for a blob;
// the sum is right in every snapshot.
func memorySnapshots(t *testing.T, e *env) {
	const total, snapshots = 1000, 15
	bank := actor.ID("bank")
	set(t, e, bank, "left", strconv.Itoa(total))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				by := w + i%5
				err := e.Memory.Update(t.Context(), bank, func(d *store.Draft) error {
					if err := add(t.Context(), d, "left", -by); err != nil {
						return err
					}
					if err := d.Set("note", json.RawMessage(text(9<<10, by))); err != nil {
						return err
					}
					return add(t.Context(), d, "right", by)
				})
				if err != nil {
					t.Errorf("move: %v", err)
					return
				}
			}
		})
	}
	for i := range snapshots {
		digest, err := e.Memory.Snapshot(t.Context(), bank)
		if err != nil {
			t.Fatal(err)
		}
		space := actor.ID(fmt.Sprintf("bank %d", i))
		if err := e.Memory.Restore(t.Context(), digest, space); err != nil {
			t.Fatalf("restore %s: %v", digest, err)
		}
		sum := 0
		for _, key := range []string{"left", "right"} {
			value, err := e.Memory.Get(t.Context(), space, key)
			if err == nil {
				n, _ := strconv.Atoi(string(value))
				sum += n
			} else if !errors.Is(err, actor.NotFound) {
				t.Error(err)
			}
		}
		if sum != total {
			t.Errorf("snapshot %d has the sum %d, want %d: it is not one cut", i, sum, total)
		}
		if _, err := e.Memory.Get(t.Context(), space, "note"); err != nil && !errors.Is(err, actor.NotFound) {
			t.Errorf("a snapshot names a value that is not stored: %v", err)
		}
	}
	cancel()
	writers.Wait()
}

func memoryRestore(t *testing.T, e *env) {
	from, to := actor.ID("restore from"), actor.ID("restore to")
	big := text(20<<10, 1)
	set(t, e, from, "small", `1`)
	set(t, e, from, "big", big)
	digest, err := e.Memory.Snapshot(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	set(t, e, from, "small", `2`)
	if err := e.Memory.Restore(t.Context(), digest, to); err != nil {
		t.Fatal(err)
	}
	remembers(t, e, to, "small", `1`)
	remembers(t, e, to, "big", big)
	set(t, e, to, "small", `3`)
	if err := e.Memory.Restore(t.Context(), digest, to); err != nil {
		t.Errorf("restoring again: %v", err)
	}
	remembers(t, e, to, "small", `3`) // and not as it began
	remembers(t, e, from, "small", `2`)

	set(t, e, to, "small", `1`)
	if again, err := e.Memory.Snapshot(t.Context(), to); err != nil || again != digest {
		t.Errorf("an equal space has the digest %s (%v), want %s", again, err, digest)
	}
	other, err := e.Memory.Snapshot(t.Context(), "nobody's")
	if err != nil {
		t.Fatalf("snapshot of a space that nobody has written to: %v", err)
	}
	for _, space := range []actor.ID{to, from} {
		wantKind(t, "restoring into a space that has begun otherwise", e.Memory.Restore(t.Context(), other, space), actor.Conflict)
	}
	remembers(t, e, to, "small", `1`)
	if err := e.Memory.Restore(t.Context(), other, "empty"); err != nil {
		t.Errorf("restoring an empty space: %v", err)
	}
	nothing := "sha256-" + strings.Repeat("0", 64)
	wantKind(t, "restoring what is not stored", e.Memory.Restore(t.Context(), nothing, "x"), actor.NotFound)
	for _, bad := range []string{"", "x", "sha256-", "sha256-" + strings.Repeat("A", 64), "sha256-" + strings.Repeat("0", 63)} {
		wantKind(t, fmt.Sprintf("the digest %q", bad), e.Memory.Restore(t.Context(), bad, "x"), actor.SchemaViolation)
	}
}
