package history

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// A Call is one logical request of an agent, and everything that it was ever answered.
type Call struct {
	n       int
	id      string // of the request
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

// A Book holds all calls of a run. They are made on one connection, each with a reply subject of its own
// that all its tries share, so that an answer to an earlier try is heard, too.
type Book struct {
	conn  *bus.Conn
	names subjects.Names
	inbox string
	try   time.Duration
	stop  func()

	mu     sync.Mutex
	calls  []*Call
	forgot int // calls at the beginning that no more is known of
}

// Open opens an empty book. A request is made again when it is not answered within try.
func Open(conn *bus.Conn, names subjects.Names, try time.Duration) (*Book, error) {
	b := &Book{conn: conn, names: names, inbox: conn.NewInbox(), try: try}
	var err error
	b.stop, err = conn.Subscribe(b.inbox+".*", b.hear)
	return b, err
}

// Close hears no more.
func (b *Book) Close() { b.stop() }

// hear takes what comes to a reply subject. Without data it is the server: nobody listens.
func (b *Book) hear(subject string, data []byte) {
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

// Ask makes a request again and again until it is answered or ctx ends, and gives the first answer. Some
// requests that can be told by their id are made twice at once, and some again when they are answered.
func (b *Book) Ask(ctx context.Context, agent actor.ID, req a2e.Request) (a2e.Message, error) {
	b.mu.Lock()
	c := &Call{n: len(b.calls), id: req.Env().ID, agent: agent, request: req, first: time.Now(), more: make(chan struct{}, 1)}
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	if c.id == "" {
		c.id = fmt.Sprintf("call-%d", c.n)
		setID(req, c.id)
	}
	often := frequency(req)
	data, err := a2e.Encode(req)
	if err != nil {
		return nil, err
	}
	for {
		err := b.send(c, data)
		if err == nil && often == twiceAtOnce {
			err = b.send(c, data)
		}
		patience := time.NewTimer(b.tryTime(req))
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
			if often == onceMore {
				_ = b.send(c, data) // its answer is heard if it comes
			}
			return answers[0], nil
		}
		if nobody && !pause(ctx, retryPause) {
			return nil, ctx.Err()
		}
	}
}

// send makes a request once.
func (b *Book) send(c *Call, data []byte) error {
	b.mu.Lock()
	c.tries++
	b.mu.Unlock()
	return b.conn.NC.PublishMsg(&nats.Msg{Subject: b.names.A2E(c.agent), Reply: b.inbox + "." + strconv.Itoa(c.n), Data: data})
}

// How often a request is made that could do with being made once.
const (
	once = iota
	twiceAtOnce
	onceMore // when it is answered
)

// frequency gives the frequency of a request, which follows from its id: more than once only where the id makes
// it safe to repeat.
func frequency(req a2e.Request) int {
	switch req.(type) {
	case *a2e.SpawnReq, *a2e.DelegateReq, *a2e.MessageReq, *a2e.MergeReq:
	default:
		return once
	}
	f := fnv.New32a()
	f.Write([]byte(req.Env().ID))
	switch f.Sum32() % 8 {
	case 0:
		return twiceAtOnce
	case 1:
		return onceMore
	}
	return once
}

const retryPause = 20 * time.Millisecond

// tryTime is how long one try of a request waits.
func (b *Book) tryTime(req a2e.Request) time.Duration {
	if m, ok := req.(*a2e.AwaitReq); ok {
		return m.Timeout() + b.try
	}
	return b.try
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
func (b *Book) all() []*Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// Len is how many calls were made.
func (b *Book) Len() int { return len(b.all()) }

// Silent gives the calls that were never answered.
func (b *Book) Silent() (silent []*Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls[b.forgot:] {
		if len(c.answers) == 0 {
			silent = append(silent, c)
		}
	}
	return silent
}

// Forget gives up what the calls so far hold, for a run that goes on for long. They can't be inspected any more.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls[b.forgot:] {
		c.request, c.answers, c.raw = nil, nil, nil
	}
	b.forgot = len(b.calls)
}

// String tells a call to a reader.
func (c *Call) String() string {
	answer := "no answer"
	if len(c.raw) > 0 {
		answer = brief(c.raw[0])
	}
	text, err := a2e.Encode(c.request)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("call %s of %s at %s, %d tries: %s\n   -> %s", c.id, c.agent, clock(c.first), c.tries, brief(string(text)), answer)
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
