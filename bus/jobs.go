package bus

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// Jobs is the queue of jobs for workers elsewhere.
type Jobs struct {
	conn  *Conn
	names subjects.Names
}

// Jobs gives the queue of a namespace.
func (c *Conn) Jobs(names subjects.Names) Jobs { return Jobs{conn: c, names: names} }

// Queue puts a job under its subject. The kind is conflict when it is in the queue already, whether it waits
// or a worker has it: whoever does not know whether it was queued queues it again.
func (j Jobs) Queue(subject string, data []byte) actor.Ack {
	return j.conn.SendExpect(subject, 0, data)
}

// Withdraw takes a job out of the queue, if it is there, and tells a worker that has it to stop.
func (j Jobs) Withdraw(ctx context.Context, subject string) error {
	const op = "bus.Withdraw"
	_, _, thread, n, err := j.names.ParseWork(subject)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	s, err := j.conn.JS.Stream(ctx, j.names.WorkStream())
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	// After the purge: a worker that takes the job now will have heard.
	return errors.Join(wrap(op, "purge "+subject, err), j.conn.Publish(j.names.JobCancel(thread, n), nil))
}

// A Standing is how a job stands in the queue.
type Standing int

const (
	JobAbsent    Standing = iota // it was never queued, or somebody acknowledged it
	JobQueued                    // it waits, or a worker has it
	JobExhausted                 // it was delivered as often as it may be, and nobody gets it again
)

// Standing looks a job up, at the leader. One that is exhausted is told of as queued while workers are busy with
// others, or until one asks for a job (measured with nats-server 2.15.2: only then does it notice that the last
// delivery came to nothing).
func (j Jobs) Standing(ctx context.Context, subject string) (Standing, error) {
	const op = "bus.Standing"
	kind, name, _, _, err := j.names.ParseWork(subject)
	if err != nil {
		return JobAbsent, err
	}
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	s, err := j.conn.JS.Stream(ctx, j.names.WorkStream())
	if err != nil {
		return JobAbsent, wrap(op, "look for "+subject, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return JobAbsent, nil
	}
	if err != nil {
		return JobAbsent, wrap(op, "look for "+subject, err)
	}
	c, err := s.Consumer(ctx, subjects.WorkConsumer(kind, name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return JobQueued, nil // no worker has ever come
	}
	if err != nil {
		return JobAbsent, wrap(op, "look for the workers of "+subject, err)
	}
	// What was delivered and is nobody's was acknowledged, and so removed, or given up. The server does not tell whose
	// each one is: while any is somebody's this one may be.
	if info := c.CachedInfo(); info.NumAckPending == 0 && m.Sequence <= info.Delivered.Stream {
		return JobExhausted, nil
	}
	return JobQueued, nil
}

// ServeExhausted calls fn with the subject of each job that was delivered as often as it may be, and takes
// those for which it returns nil out of the queue. It shares them with every process that does the same, and calls
// again after an error or when a process dies. It runs until ctx ends, then returns nil.
func (j Jobs) ServeExhausted(ctx context.Context, fn func(ctx context.Context, subject string) error) error {
	t := &Taker{conn: j.conn, stream: j.names.WorkStream(), config: jetstream.ConsumerConfig{
		Durable: subjects.ExhaustedConsumer, FilterSubject: j.names.WorkExhausted(),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: DefaultAckWait, MaxDeliver: -1, MaxAckPending: -1,
	}}
	for {
		taken, err := t.Take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		err = j.exhausted(ctx, taken.Data, fn)
		if err == nil {
			err = taken.Done(ctx)
		}
		if err != nil && ctx.Err() == nil {
			err = taken.Retry(time.Second)
		}
		if err != nil && !passing(err) {
			return err
		}
	}
}

// exhausted deals with what the server said of one job.
func (j Jobs) exhausted(ctx context.Context, data []byte, fn func(context.Context, string) error) error {
	var said struct {
		StreamSeq uint64 `json:"stream_seq"`
	}
	if json.Unmarshal(data, &said) != nil || said.StreamSeq == 0 {
		return nil // not the server's word
	}
	s, err := j.conn.JS.Stream(ctx, j.names.WorkStream())
	if err != nil {
		return err
	}
	m, err := s.GetMsg(ctx, said.StreamSeq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := fn(ctx, m.Subject); err != nil {
		return err
	}
	if err := s.DeleteMsg(ctx, said.StreamSeq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return nil
}
