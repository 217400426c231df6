package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A Delivery is one message of an inbox. On lane ctl, From may be the name of a timer. Data is the
// receiver's to keep.
type Delivery struct {
	Seq  uint64 // its place in the inbox stream
	To   actor.ID
	Lane actor.Lane
	From actor.ID
	Time time.Time // when it was stored, by the server's clock
	Data []byte
}

// ReaderConfig says what a Reader reads. Only From and OnRetry may be left zero.
type ReaderConfig struct {
	Conn      *Conn
	Names     subjects.Names
	Partition int
	// From is the first stream sequence that is wanted: the watermark and one. 0 is the beginning.
	From uint64
	// Deliver gets every message of the partition once, in stream order, one at a time. While it
	// blocks nothing is read, and at most some 2,000 messages wait in memory.
	Deliver func(Delivery)
	// OnBad gets, in Deliver's place, a message whose subject names no valid recipient, lane or
	// sender. It can come from anyone who may publish to inboxes.
	OnBad func(subject string, data []byte)
	// OnRetry is told whenever reading has to begin anew, and why. It goes on by itself.
	OnRetry func(error)
}

// A Reader reads one partition of the inboxes.
type Reader struct {
	conn     *Conn
	stream   string
	tail     tail
	behind   atomic.Uint64 // messages behind the last that was delivered, as the server told with it
	returned atomic.Uint64 // the last sequence that Deliver has returned from, at first From-1
}

// NewReader makes a Reader; Serve runs it.
func NewReader(cfg ReaderConfig) (*Reader, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.OnRetry == nil {
		cfg.OnRetry = func(error) {}
	}
	from := max(cfg.From, 1)
	r := &Reader{conn: cfg.Conn, stream: cfg.Names.InboxStream()}
	r.returned.Store(from - 1)
	r.tail = tail{
		conn:   cfg.Conn,
		stream: r.stream,
		filter: cfg.Names.InboxPartition(cfg.Partition),
		next:   from,
		retry:  cfg.OnRetry,
		deliver: func(m *nats.Msg, p position) {
			if _, route, err := cfg.Names.ParseStoredInbox(m.Subject); err != nil {
				cfg.OnBad(m.Subject, m.Data)
			} else {
				cfg.Deliver(Delivery{Seq: p.stream, To: route.To, Lane: route.Lane, From: route.From,
					Time: time.Unix(0, p.time), Data: m.Data})
			}
			r.returned.Store(p.stream)
			r.behind.Store(p.pending)
		},
	}
	return r, nil
}

func (cfg ReaderConfig) validate() error {
	for _, missing := range []struct {
		field string
		is    bool
	}{
		{"conn", cfg.Conn == nil},
		{"names", cfg.Names == subjects.Names{}},
		{"partition", cfg.Partition < 0},
		{"deliver", cfg.Deliver == nil},
		{"on_bad", cfg.OnBad == nil},
	} {
		if missing.is {
			return &actor.Error{Op: "bus.NewReader", Kind: actor.SchemaViolation, Field: missing.field,
				Err: errors.New("it is required")}
		}
	}
	return nil
}

// Serve reads until ctx ends, then returns nil, with the consumer deleted and no call under way. It
// survives restarts of servers and the loss of leaders. It fails only when the connection is closed
// (unavailable) or the stream does not exist (not_found). Served again, it goes on where it was.
func (r *Reader) Serve(ctx context.Context) error { return r.tail.serve(ctx) }

// Behind is how many messages of the partition were still to be read when the last one was delivered.
func (r *Reader) Behind() uint64 { return r.behind.Load() }

// CaughtUp gives a sequence up to which nothing is left to deliver: Deliver has returned from every
// message of this partition that stands in the stream at or below it. Other partitions' messages
// count: it is how an idle partition's watermark moves. idle says that this was all there was when
// it was asked. The kind is conflict when the stream ends before what was wanted or delivered: it
// has lost its end in a power cut, and what is published next would be taken for delivered.
//
// Only the stream's leader is asked, for a consumer may run on a server that lags. When the leader
// changes meanwhile, the answer is only what has been delivered.
func (r *Reader) CaughtUp(ctx context.Context) (seq uint64, idle bool, err error) {
	const op = "bus.CaughtUp"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	returned := r.returned.Load()
	s, err := r.conn.JS.Stream(ctx, r.stream)
	if err != nil {
		return 0, false, wrap(op, "ask for the state of "+r.stream, err)
	}
	// Read before the next message is looked for: what is stored in between is not vouched for.
	last, before := s.CachedInfo().State.LastSeq, leader(s.CachedInfo())
	if last < returned {
		return 0, false, refuse(op, actor.Conflict, "%s ends at %d, before %d", r.stream, last, returned)
	}
	next, err := s.GetMsg(ctx, returned+1, jetstream.WithGetMsgSubject(r.tail.filter))
	if err == nil {
		return next.Sequence - 1, false, nil
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, false, wrap(op, "look for the next message in "+r.stream, err)
	}
	if before == "" { // not a cluster
		return last, true, nil
	}
	info, err := s.Info(ctx)
	if err != nil {
		return 0, false, wrap(op, "ask for the state of "+r.stream, err)
	}
	if leader(info) != before {
		return returned, false, nil
	}
	return last, true, nil
}

func leader(info *jetstream.StreamInfo) string {
	if info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}

// Compact deletes the messages of all partitions up to a sequence. The watermark of every partition
// must stand at or above it. The kind is conflict when the stream does not reach so far: a purge
// would then delete what has not been read.
func (c *Conn) Compact(ctx context.Context, names subjects.Names, upto uint64) error {
	const op = "bus.Compact"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	s, err := c.JS.Stream(ctx, names.InboxStream())
	if err != nil {
		return wrap(op, "ask for the state of "+names.InboxStream(), err)
	}
	switch state := s.CachedInfo().State; {
	case state.LastSeq < upto:
		return refuse(op, actor.Conflict, "%s ends at %d, before %d", names.InboxStream(), state.LastSeq, upto)
	case state.FirstSeq > upto:
		return nil
	}
	return wrap(op, "purge "+names.InboxStream(), s.Purge(ctx, jetstream.WithPurgeSequence(upto+1)))
}

// InboxEnd is the sequence of the last message that the inbox stream was given.
func (c *Conn) InboxEnd(ctx context.Context, names subjects.Names) (uint64, error) {
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	s, err := c.JS.Stream(ctx, names.InboxStream())
	if err != nil {
		return 0, wrap("bus.InboxEnd", "ask for the state of "+names.InboxStream(), err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// AdvanceInbox empties the inbox stream and has its next message come after a sequence that it has not
// reached. It is for a stream that has lost its end: what is left in it must be settled.
func (c *Conn) AdvanceInbox(ctx context.Context, names subjects.Names, past uint64) error {
	const op = "bus.AdvanceInbox"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	s, err := c.JS.Stream(ctx, names.InboxStream())
	if err != nil {
		return wrap(op, "ask for the state of "+names.InboxStream(), err)
	}
	if last := s.CachedInfo().State.LastSeq; last >= past {
		return refuse(op, actor.Conflict, "%s ends at %d already", names.InboxStream(), last)
	}
	return wrap(op, "purge "+names.InboxStream(), s.Purge(ctx, jetstream.WithPurgeSequence(past+1)))
}
