package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nuid"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// RequestAge is how long a request is open.
const RequestAge = 24 * time.Hour

// Requests holds what waits for variables that somebody outside has to provide: each has a random
// UUID, belongs to the thread that asked and holds what is to be done once the variables are there.
// It is used once, within [RequestAge]. Secrets do not belong into it: the values go to [Env].
//
// NotFound means that the thread has no such request: unknown, another thread's, or forgotten, which
// it is a week after its last change. Gone means that it was used or has expired.
type Requests struct {
	kv  bucket
	now func() time.Time
}

// A Request is one that is open.
type Request struct {
	ID      string
	Parent  actor.ID
	Rev     uint64          // what Update and Use must name
	Payload json.RawMessage // compact
	Expires time.Time
}

type requestEntry struct {
	Expires time.Time       `json:"expires"`
	Used    string          `json:"used,omitempty"` // by which call of Use
	Payload json.RawMessage `json:"payload"`
}

// New opens a request of a thread and gives its id. The payload is JSON, else the Kind is
// SchemaViolation; over 512 KiB it is TooLarge.
func (r *Requests) New(ctx context.Context, parent actor.ID, payload json.RawMessage) (id string, err error) {
	const op = "store.Requests.New"
	data, err := requestEntry{Expires: r.now().UTC().Add(RequestAge), Payload: payload}.encode()
	if err != nil {
		return "", fault(op, parent, err)
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	id = newUUID()
	if _, err := r.kv.put("", "", subjects.RequestKey(parent, id), data, expect(0)).Wait(ctx); err != nil {
		return "", fault(op, parent, err)
	}
	return id, nil
}

// Get reads an open request from the leader.
func (r *Requests) Get(ctx context.Context, parent actor.ID, id string) (Request, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	entry, rev, err := r.load(ctx, parent, id)
	if err == nil {
		err = r.open(entry)
	}
	if err != nil {
		return Request{}, fault("store.Requests.Get", parent, err)
	}
	return Request{ID: id, Parent: parent, Rev: rev, Payload: entry.Payload, Expires: entry.Expires}, nil
}

// Update replaces the payload of an open request whose present revision is rev, and gives the new
// revision. It stays open as long as it was. Conflict means that it has another revision.
func (r *Requests) Update(ctx context.Context, parent actor.ID, id string, rev uint64, payload json.RawMessage) (newRev uint64, err error) {
	newRev, err = r.write(ctx, parent, id, rev, func(e *requestEntry) { e.Payload = payload })
	return newRev, fault("store.Requests.Update", parent, err)
}

// Use uses up an open request whose present revision is rev. Of all that try exactly one succeeds,
// the others get Gone, or Conflict when it was updated meanwhile. Unavailable and Timeout leave open
// whether it was used: by whom cannot be asked later.
func (r *Requests) Use(ctx context.Context, parent actor.ID, id string, rev uint64) error {
	const op = "store.Requests.Use"
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	mine := nuid.Next()
	for try := 1; ; try++ {
		_, err := r.write(ctx, parent, id, rev, func(e *requestEntry) { e.Used = mine })
		switch actor.KindOf(err) {
		case actor.Conflict, actor.Unavailable, actor.Gone: // it may have been us
		default:
			return fault(op, parent, err)
		}
		entry, now, lost := r.load(ctx, parent, id)
		switch {
		case lost == nil && entry.Used == mine:
			return nil
		case lost != nil, errors.Is(err, actor.Gone), now != rev && entry.Used == "", try == maxTries:
			return fault(op, parent, err)
		}
		pause(ctx, time.Duration(try)*time.Millisecond)
	}
}

// write changes an open request.
func (r *Requests) write(ctx context.Context, parent actor.ID, id string, rev uint64, change func(*requestEntry)) (uint64, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	entry, now, err := r.load(ctx, parent, id)
	if err == nil {
		err = r.open(entry)
	}
	if err == nil && now != rev {
		err = refuse(actor.Conflict, "", "its revision is %d, not %d", now, rev)
	}
	if err != nil {
		return 0, err
	}
	change(&entry)
	data, err := entry.encode()
	if err != nil {
		return 0, err
	}
	return r.kv.put("", "", subjects.RequestKey(parent, id), data, expect(rev)).Wait(ctx)
}

func (r *Requests) load(ctx context.Context, parent actor.ID, id string) (entry requestEntry, rev uint64, err error) {
	if !isUUID(id) {
		return entry, 0, refuse(actor.NotFound, "id", "%.36q is not the id of a request", id)
	}
	data, rev, err := r.kv.entry(ctx, subjects.RequestKey(parent, id))
	if err == nil && data == nil {
		err = refuse(actor.NotFound, "id", "no request %s", id)
	}
	if err == nil {
		err = decode(data, &entry)
	}
	return entry, rev, err
}

// open refuses a request that no longer is.
func (r *Requests) open(e requestEntry) error {
	switch {
	case e.Used != "":
		return refuse(actor.Gone, "id", "the request was used")
	case !r.now().Before(e.Expires):
		return refuse(actor.Gone, "id", "the request has expired")
	}
	return nil
}

func (e requestEntry) encode() ([]byte, error) {
	var b bytes.Buffer
	if !utf8.Valid(e.Payload) || json.Compact(&b, e.Payload) != nil {
		return nil, refuse(actor.SchemaViolation, "payload", "it is not JSON")
	}
	e.Payload = b.Bytes()
	return encode(e)
}

// newUUID gives a random UUID (version 4).
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // it never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// isUUID reports whether newUUID may have given the id.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && (c < '0' || c > '9' && c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
