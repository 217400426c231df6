package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// The house deadlines, for callers whose context has none.
const (
	callDeadline = 5 * time.Second  // one read or one write
	scanDeadline = 30 * time.Second // a list, a range or a blob
)

// A Config says where a Store finds its streams. The first four fields are required.
type Config struct {
	NC     *nats.Conn
	JS     jetstream.JetStream // made on NC
	Sender Sender              // publishes on NC
	Names  subjects.Names

	Seal *Seal            // closes the values of Env; nil keeps them readable
	Now  func() time.Time // nil is time.Now
}

// A Sender publishes to streams without waiting and without retries of its own. Its errors have Kinds:
// that of a failed expectation is Conflict.
type Sender interface {
	SendMsg(m *nats.Msg) actor.Ack
}

func (c Config) validate() error {
	missing := ""
	switch {
	case c.NC == nil:
		missing = "NC"
	case c.JS == nil:
		missing = "JS"
	case c.Sender == nil:
		missing = "Sender"
	case c.Names == subjects.Names{}:
		missing = "Names"
	default:
		return nil
	}
	return &actor.Error{Op: "store.New", Kind: actor.SchemaViolation, Field: missing, Err: errors.New("is required")}
}

// A Store is what one namespace keeps. It is safe for concurrent use and holds nothing that needs
// closing.
type Store struct {
	Journal  *Journal
	Registry *Registry
	Blobs    *Blobs
	Files    *Files
	Memory   *Memory
	Env      *Env
	Requests *Requests
	Agents   *Agents
	Keys     *Keys
	Leases   *Leases
	Members  *Members
	IDs      *IDs
	Inbox    *Inbox

	leases       bucket
	timers, mail stream
	names        subjects.Names
}

// New binds to the streams of a namespace. It asks the server nothing: a stream that does not exist
// shows as Unavailable with the first call that needs it.
func New(c Config) (*Store, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	link := newLink(c)
	kv := func(name string) bucket {
		return bucket{stream{link, subjects.KVStream(name)}, name}
	}
	s := &Store{
		Journal:  &Journal{log: stream{link, c.Names.JournalStream()}, names: c.Names},
		Registry: &Registry{kv: kv(c.Names.RegistryBucket())},
		Blobs:    newBlobs(link, c.Names.BlobsBucket(), c.Now),
		Agents:   &Agents{kv: kv(c.Names.AgentsBucket())},
		Keys:     &Keys{kv: kv(c.Names.KeysBucket())},
		Leases:   &Leases{kv: kv(c.Names.LeasesBucket())},
		Members:  &Members{kv: kv(c.Names.MembersBucket())},
		Inbox:    &Inbox{log: stream{link, c.Names.InboxStream()}, names: c.Names},
		leases:   kv(c.Names.LeasesBucket()),
		timers:   stream{link, c.Names.TimerStream()},
		mail:     stream{link, c.Names.MailStream()},
		names:    c.Names,
	}
	s.Files = &Files{kv: kv(c.Names.FilesBucket()), blobs: s.Blobs, now: c.Now}
	s.Memory = &Memory{kv: kv(c.Names.MemoryBucket()), blobs: s.Blobs}
	s.Env = &Env{kv: kv(c.Names.EnvBucket()), seal: c.Seal}
	s.Requests = &Requests{kv: kv(c.Names.RequestsBucket()), now: c.Now}
	s.IDs = NewIDs(s)
	return s, nil
}

// A link is the way to JetStream that all streams share.
type link struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	sender Sender
	api    string // what API subjects begin with
	domain string // what stands before "$KV." when the streams lie in another JetStream domain
}

func newLink(c Config) *link {
	l := &link{nc: c.NC, js: c.JS, sender: c.Sender, api: jetstream.DefaultAPIPrefix}
	switch o := c.JS.Options(); {
	case o.Domain != "":
		l.api = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		l.api = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	if l.api != jetstream.DefaultAPIPrefix {
		l.domain = l.api
	}
	return l
}

// A stream is a JetStream stream by name.
type stream struct {
	*link
	name string
}

// A bucket is a stream that holds the newest value of each key.
type bucket struct {
	stream
	bucket string
}

func (b bucket) subject(key string) string { return subjects.KVSubject(b.bucket, key) }

// key is the inverse of subject.
func (b bucket) key(subject string) string { return subject[len(b.subject("")):] }

// within adds a house deadline to a context that has no deadline.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
