package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

func ask(t testing.TB, s *store.Store, parent actor.ID, payload string) store.Request {
	t.Helper()
	id, err := s.Requests.New(t.Context(), parent, json.RawMessage(payload))
	if err != nil {
		t.Fatalf("a new request: %v", err)
	}
	r, err := s.Requests.Get(t.Context(), parent, id)
	if err != nil || r.ID != id || r.Parent != parent || r.Rev == 0 {
		t.Fatalf("the request is %+v (%v)", r, err)
	}
	return r
}

func requests(t *testing.T, e *env) {
	parent := actor.ID("requests a.b")
	r := ask(t, e.Store, parent, `{"agent" : "a<b>"}`)
	if form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`); !form.MatchString(r.ID) {
		t.Errorf("%q is not a random UUID", r.ID)
	}
	if string(r.Payload) != `{"agent":"a<b>"}` {
		t.Errorf("the payload is %s", r.Payload)
	}
	if raw := e.raw(t, e.names.RequestsBucket(), "requests=20a=2Eb."+r.ID); !strings.Contains(raw, `"payload":{"agent":"a<b>"}`) {
		t.Errorf("a person reads %s", raw)
	}
	if other := ask(t, e.Store, parent, `1`); other.ID == r.ID {
		t.Errorf("two requests are called %s", r.ID)
	}
	for _, unknown := range []string{"", "x", "*", ">", "00000000-0000-4000-8000-000000000000", r.ID + "0", strings.ToUpper(r.ID), strings.Repeat("a", 5000)} {
		if unknown == r.ID {
			continue
		}
		_, err := e.Requests.Get(t.Context(), parent, unknown)
		wantKind(t, fmt.Sprintf("the request %.40q", unknown), err, actor.NotFound)
		wantKind(t, fmt.Sprintf("the use of %.40q", unknown), e.Requests.Use(t.Context(), parent, unknown, 1), actor.NotFound)
	}
	_, err := e.Requests.Get(t.Context(), "somebody else", r.ID)
	wantKind(t, "a request of another thread", err, actor.NotFound)
	wantKind(t, "its use", e.Requests.Use(t.Context(), "somebody else", r.ID, r.Rev), actor.NotFound)
	for _, bad := range []string{"", "x", "\"\xff\""} {
		_, err := e.Requests.New(t.Context(), parent, json.RawMessage(bad))
		wantKind(t, fmt.Sprintf("the payload %q", bad), err, actor.SchemaViolation)
	}
	_, err = e.Requests.New(t.Context(), parent, json.RawMessage(text(513<<10, 0)))
	wantKind(t, "a payload over the limit", err, actor.TooLarge)

	rev, err := e.Requests.Update(t.Context(), parent, r.ID, r.Rev, json.RawMessage(`2`))
	if err != nil || rev <= r.Rev {
		t.Fatalf("update: revision %d behind %d (%v)", rev, r.Rev, err)
	}
	_, err = e.Requests.Update(t.Context(), parent, r.ID, r.Rev, json.RawMessage(`3`))
	wantKind(t, "an update of an old revision", err, actor.Conflict)
	wantKind(t, "the use of an old revision", e.Requests.Use(t.Context(), parent, r.ID, r.Rev), actor.Conflict)
	if got, err := e.Requests.Get(t.Context(), parent, r.ID); err != nil || string(got.Payload) != `2` || got.Rev != rev || !got.Expires.Equal(r.Expires) {
		t.Errorf("the request is %+v (%v), want the updated payload, open as long as before", got, err)
	}
	if err := e.Requests.Use(t.Context(), parent, r.ID, rev); err != nil {
		t.Fatal(err)
	}
	wantGone(t, "a used one", e.Store, r, rev)
}

// wantGone: nothing can be done with a request any more.
func wantGone(t testing.TB, what string, s *store.Store, r store.Request, rev uint64) {
	t.Helper()
	_, err := s.Requests.Get(t.Context(), r.Parent, r.ID)
	wantKind(t, "Get of "+what, err, actor.Gone)
	_, err = s.Requests.Update(t.Context(), r.Parent, r.ID, rev, r.Payload)
	wantKind(t, "Update of "+what, err, actor.Gone)
	wantKind(t, "Use of "+what, s.Requests.Use(t.Context(), r.Parent, r.ID, rev), actor.Gone)
}

// requestsUse: of many that use a request exactly one succeeds; an expired one is of no use.
func requestsUse(t *testing.T, e *env) {
	for range 5 {
		r := ask(t, e.Store, "use", `1`)
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				switch err := e.Requests.Use(t.Context(), r.Parent, r.ID, r.Rev); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, actor.Gone):
					t.Errorf("one that came too late got %v, want %s", err, actor.Gone)
				}
			})
		}
		if all.Wait(); won.Load() != 1 {
			t.Errorf("%d have used one request", won.Load())
		}
	}
	var late atomic.Int64
	s := e.other(t, func(c *store.Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	r := ask(t, s, "expire", `1`)
	late.Store(int64(store.RequestAge - time.Minute))
	if _, err := s.Requests.Get(t.Context(), r.Parent, r.ID); err != nil {
		t.Errorf("shortly before it expires a request is %v", err)
	}
	late.Store(int64(store.RequestAge))
	wantGone(t, "an expired one", s, r, r.Rev)
}
