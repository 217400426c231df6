package fault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// A call is one logical request of an agent, and everything that it was ever answered.
type call struct {
	n       int
	agent   actor.ID
	request a2e.Request
	first   time.Time // when it was made
	done    time.Time // when the first answer came; zero while there is none
	tries   int
	answers []a2e.Message
	raw     []string // the answers, as they came
	nobody  bool     // nobody listened
	more    chan struct{}
}

// A book holds all calls of a run. They are made on one connection, each with a reply subject of its own
// that all its tries share, so that an answer to an earlier try is heard, too.
type book struct {
	conn  *bus.Conn
	names subjects.Names
	inbox string

	mu    sync.Mutex
	calls []*call
}

func openBook(t *testing.T, conn *bus.Conn, names subjects.Names) *book {
	t.Helper()
	b := &book{conn: conn, names: names, inbox: conn.NewInbox()}
	stop, err := conn.Subscribe(b.inbox+".*", b.hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b
}

// hear takes what comes to a reply subject. Without data it is the server: nobody listens.
func (b *book) hear(subject string, data []byte) {
	n, err := strconv.Atoi(strings.TrimPrefix(subject, b.inbox+"."))
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.calls[n]
	c.nobody = len(data) == 0
	if !c.nobody {
		msg, err := a2e.DecodeAnswer(data)
		if e, ok := msg.(*a2e.Error); ok && e.Code == actor.Unavailable {
			return // it asks for another try, which comes anyway
		}
		if err != nil {
			msg = nil // told by the inspection
		}
		c.answers, c.raw = append(c.answers, msg), append(c.raw, string(data))
		if len(c.answers) == 1 {
			c.done = time.Now()
		}
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// ask makes a request again and again until it is answered or ctx ends, and gives the first answer. Some
// requests that can be told by their id are made twice at once, and some again when they are answered.
func (b *book) ask(ctx context.Context, agent actor.ID, req a2e.Request) (a2e.Message, error) {
	b.mu.Lock()
	c := &call{n: len(b.calls), agent: agent, request: req, first: time.Now(), more: make(chan struct{}, 1)}
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	setID(req, fmt.Sprintf("call-%d", c.n))
	data, err := a2e.Encode(req)
	if err != nil {
		return nil, err
	}
	for {
		err := b.try(c, data)
		if err == nil && keyed(req) && c.n%8 == 0 {
			err = b.try(c, data)
		}
		patience := time.NewTimer(tryTime(req))
		if err != nil {
			patience.Reset(retryPause)
		}
		select {
		case <-c.more:
		case <-patience.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		patience.Stop()
		b.mu.Lock()
		answers, nobody := c.answers, c.nobody
		b.mu.Unlock()
		if len(answers) > 0 {
			if keyed(req) && c.n%8 == 1 {
				_ = b.try(c, data) // its answer is heard if it comes
			}
			return answers[0], nil
		}
		if nobody && !pause(ctx, retryPause) {
			return nil, ctx.Err()
		}
	}
}

// try makes a request once.
func (b *book) try(c *call, data []byte) error {
	b.mu.Lock()
	c.tries++
	b.mu.Unlock()
	return b.conn.NC.PublishMsg(&nats.Msg{Subject: b.names.A2E(c.agent), Reply: b.inbox + "." + strconv.Itoa(c.n), Data: data})
}

// keyed reports whether the id of a request makes it safe to repeat.
func keyed(req a2e.Request) bool {
	switch req.(type) {
	case *a2e.SpawnReq, *a2e.DelegateReq, *a2e.MessageReq, *a2e.MergeReq:
		return true
	}
	return false
}

const retryPause = 20 * time.Millisecond

// tryTime is how long one try of a request waits.
func tryTime(req a2e.Request) time.Duration {
	if m, ok := req.(*a2e.AwaitReq); ok {
		return m.Timeout() + time.Second
	}
	return 1500 * time.Millisecond
}

func setID(req a2e.Request, id string) {
	switch m := req.(type) {
	case *a2e.SpawnReq:
		m.ID = id
	case *a2e.DelegateReq:
		m.ID = id
	case *a2e.AwaitReq:
		m.ID = id
	case *a2e.MessageReq:
		m.ID = id
	case *a2e.ListReq:
		m.ID = id
	case *a2e.CancelReq:
		m.ID = id
	case *a2e.TerminateReq:
		m.ID = id
	case *a2e.MergeReq:
		m.ID = id
	}
}

// all gives every call, once nothing is asked any more.
func (b *book) all() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// String tells a call to a reader.
func (c *call) String() string {
	answer := "no answer"
	if len(c.raw) > 0 {
		answer = brief(c.raw[0])
	}
	text, err := a2e.Encode(c.request)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("call %d of %s at %s, %d tries: %s\n   -> %s", c.n, c.agent, clock(c.first), c.tries, brief(string(text)), answer)
}

func brief(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
