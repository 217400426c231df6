package store_test

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// TestBorrowed: the values of a request leave nothing behind, whether they are removed or their process ends before.
func TestBorrowed(t *testing.T) {
	t.Parallel()
	conn, names := natstest.InProcess(t, natstest.Start(t)), natstest.Names(t)
	if _, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names}); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	removed, left, booting := store.Borrowed(""), store.Borrowed(""), store.Borrowed("6f9619ff-8b86-4d01-b42d-00cf4fc964ff")
	others := []actor.ID{"sub_00000001", "request of mine", "request ABC"}
	for _, id := range append([]actor.ID{removed, left, booting}, others...) {
		if err := s.Env.Set(t.Context(), id, map[string]string{"KEY": "value"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Env.Remove(t.Context(), removed); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		bucket, err := conn.JS.Stream(t.Context(), subjects.KVStream(names.EnvBucket()))
		if err != nil {
			t.Fatal(err)
		}
		return int(bucket.CachedInfo().State.Msgs)
	}
	if got := count(); got != 5 {
		t.Errorf("of six entries, one of them removed, the bucket has %d and not 5: what is removed leaves no mark", got)
	}
	if err := s.Env.Reclaim(t.Context(), time.Now().Add(-time.Hour)); err != nil || count() != 5 {
		t.Errorf("values of requests that may be under way were removed: %d entries are left, %v", count(), err)
	}
	if err := s.Env.Reclaim(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, id := range others {
		if got, err := s.Env.Get(t.Context(), id); err != nil || got["KEY"] != "value" {
			t.Errorf("the values of %s are %v, %v: they are no request's", id, got, err)
		}
	}
	if got := count(); got != len(others) {
		t.Errorf("%d entries are left, want those of %v", got, others)
	}
}
