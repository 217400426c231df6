package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// What a consumer of jobs is made with, unless somebody made it otherwise before.
const (
	DefaultAckWait    = 30 * time.Second // without a word from the worker: the job goes to another
	DefaultMaxDeliver = 5                // after so many the job is given up

	pullWait = 5 * time.Second // of one request for a job
)

// A TakerConfig says whose jobs a Taker takes. The last two may be zero.
type TakerConfig struct {
	Conn       *Conn
	Names      subjects.Names
	Kind, Name string        // of the service
	AckWait    time.Duration // 0 is DefaultAckWait
	MaxDeliver int           // 0 is DefaultMaxDeliver
}

// A Taker takes jobs of one service from the queue. Any number of them share the jobs, through one durable
// consumer that the first of them makes. It is used from any number of goroutines.
type Taker struct {
	conn   *Conn
	stream string
	config jetstream.ConsumerConfig
}

// NewTaker makes a Taker. It asks the server nothing.
func NewTaker(cfg TakerConfig) (*Taker, error) {
	bad := func(field, why string) error {
		return &actor.Error{Op: "bus.NewTaker", Kind: actor.SchemaViolation, Field: field, Err: errors.New(why)}
	}
	switch {
	case cfg.Conn == nil:
		return nil, bad("conn", "it is required")
	case cfg.Names == subjects.Names{}:
		return nil, bad("names", "it is required")
	case cfg.Kind == "" || cfg.Name == "":
		return nil, bad("name", "a service has a kind and a name")
	case cfg.AckWait < 0 || cfg.MaxDeliver < 0:
		return nil, bad("ack_wait", "it is below zero")
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = DefaultAckWait
	}
	if cfg.MaxDeliver == 0 {
		cfg.MaxDeliver = DefaultMaxDeliver
	}
	return &Taker{conn: cfg.Conn, stream: cfg.Names.WorkStream(), config: jetstream.ConsumerConfig{
		Durable: subjects.WorkConsumer(cfg.Kind, cfg.Name), FilterSubject: cfg.Names.WorkService(cfg.Kind, cfg.Name),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: cfg.AckWait, MaxDeliver: cfg.MaxDeliver, MaxAckPending: -1,
	}}, nil
}

// A Taken is a job that was taken. It has to be settled by Done, Retry or Drop, and extended until then, or
// another worker gets it. Settling one that is lost does no harm.
type Taken struct {
	Subject string
	Data    []byte
	Attempt int           // 1 at the first delivery
	Last    bool          // nobody gets it after this
	AckWait time.Duration // within which it has to be extended
	msg     jetstream.Msg
}

// Take waits for a job. It survives restarts of the server. Its error is that ctx has ended (timeout), that the
// connection is closed (unavailable), or one that waiting does not mend.
func (t *Taker) Take(ctx context.Context) (*Taken, error) {
	const op = "bus.Take"
	for {
		taken, err := t.TakeWithin(ctx, pullWait)
		switch {
		case taken != nil || err != nil:
			return taken, err
		case ctx.Err() != nil:
			return nil, wrap(op, "wait for a job", ctx.Err())
		}
	}
}

// TakeWithin is Take that gives nil when no job came for a while. The errors are those
// of Take.
func (t *Taker) TakeWithin(ctx context.Context, d time.Duration) (*Taken, error) {
	const op = "bus.Take"
	for wait := retryWait; ; wait = min(2*wait, retryWaitMax) {
		c, err := t.consumer(ctx)
		if err == nil {
			var m jetstream.Msg
			m, err = nextWithin(ctx, c, d)
			switch {
			case err == nil && m != nil:
				return t.taken(c, m)
			case err == nil:
				return nil, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, wrap(op, "wait for a job", ctx.Err())
		case !passing(err) && actor.KindOf(wrap(op, "", err)) != actor.NotFound: // somebody deleted the consumer: it is made again
			return nil, wrap(op, "wait for a job", err)
		}
		if !pause(ctx, wait) {
			return nil, wrap(op, "wait for a job", ctx.Err())
		}
	}
}

// consumer makes the consumer, or finds the one that there is, however it was made.
func (t *Taker) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := t.conn.JS.CreateConsumer(ctx, t.stream, t.config)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		c, err = t.conn.JS.Consumer(ctx, t.stream, t.config.Durable)
	}
	return c, err
}

// nextWithin asks for one message, and gives nil when none came for so long.
func nextWithin(ctx context.Context, c jetstream.Consumer, d time.Duration) (jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	m, err := c.Next(jetstream.FetchContext(waiting))
	for _, over := range []error{nats.ErrTimeout, context.DeadlineExceeded, jetstream.ErrInvalidOption} { // the last: a deadline that is just past
		if errors.Is(err, over) {
			return nil, ctx.Err()
		}
	}
	return m, err
}

func (t *Taker) taken(c jetstream.Consumer, m jetstream.Msg) (*Taken, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, wrap("bus.Take", "read what was delivered", err)
	}
	config := c.CachedInfo().Config
	return &Taken{
		Subject: m.Subject(), Data: m.Data(), Attempt: int(meta.NumDelivered), AckWait: config.AckWait,
		Last: config.MaxDeliver > 0 && int(meta.NumDelivered) >= config.MaxDeliver, msg: m,
	}, nil
}

// Extend says that the job is being worked on: it is not given to another for AckWait from now.
func (t *Taken) Extend() error { return wrap("bus.Extend", "extend "+t.Subject, t.msg.InProgress()) }

// Done takes the job out of the queue, and waits until it is.
func (t *Taken) Done(ctx context.Context) error {
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	return wrap("bus.Done", "acknowledge "+t.Subject, t.msg.DoubleAck(ctx))
}

// Retry has the job given to any worker after a while.
func (t *Taken) Retry(after time.Duration) error {
	if after <= 0 {
		return wrap("bus.Retry", "give back "+t.Subject, t.msg.Nak())
	}
	return wrap("bus.Retry", "give back "+t.Subject, t.msg.NakWithDelay(after))
}

// Drop has the job given to nobody any more.
func (t *Taken) Drop() error { return wrap("bus.Drop", "drop "+t.Subject, t.msg.Term()) }
