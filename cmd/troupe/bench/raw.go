package bench

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/bus"
)

// A raw is the ceiling: the hops of a child without a child, each step on the acknowledgement of the
// one before, as an actor needs it.
type raw struct {
	js     jetstream.JetStream
	run    int64       // makes the ids of a measurement its own
	seen   chan string // ids whose cycle is over
	append chan appended
	fault  atomic.Pointer[error]
	stop   []func()
}

// appended is a journal append under way.
type appended struct {
	id  string
	ack jetstream.PubAckFuture
}

func newRaw(ctx context.Context, conn *bus.Conn) (*raw, error) {
	js, err := jetstream.New(conn.NC, jetstream.WithPublishAsyncMaxPending(64<<10))
	if err != nil {
		return nil, err
	}
	r := &raw{js: js, seen: make(chan string, 64<<10), append: make(chan appended, 64<<10)}
	for name, subject := range map[string]string{"ceiling_in": "ceiling.in.>", "ceiling_log": "ceiling.log.>"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			return nil, err
		}
	}
	go r.tellParents()
	if err := r.consume(ctx, "ceiling.in.child.>", r.child); err != nil {
		return nil, err
	}
	return r, r.consume(ctx, "ceiling.in.parent.>", func(m jetstream.Msg) { r.seen <- lastToken(m.Subject()) })
}

func (r *raw) consume(ctx context.Context, filter string, take func(jetstream.Msg)) error {
	c, err := r.js.CreateConsumer(ctx, "ceiling_in", jetstream.ConsumerConfig{
		FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	cc, err := c.Consume(take, jetstream.PullMaxMessages(5000))
	if err == nil {
		r.stop = append(r.stop, cc.Stop)
	}
	return err
}

// child takes a task: it records, and tells the parent once that is stored.
func (r *raw) child(m jetstream.Msg) {
	id := lastToken(m.Subject())
	ack, err := r.js.PublishAsync("ceiling.log."+id, m.Data(), jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil {
		r.fault.Store(&err)
		return
	}
	r.append <- appended{id, ack}
}

func (r *raw) tellParents() {
	for a := range r.append {
		select {
		case <-a.ack.Ok():
		case err := <-a.ack.Err():
			r.fault.Store(&err)
			continue
		}
		if _, err := r.js.PublishAsync("ceiling.in.parent."+a.id, payload); err != nil {
			r.fault.Store(&err)
		}
	}
}

func (r *raw) close() {
	for _, stop := range r.stop {
		stop()
	}
	close(r.append)
}

// payload is about what a small task weighs.
var payload = []byte(strings.Repeat("x", 200))

// cycles runs n cycles with at most window of them under way, and gives cycles a second.
func (r *raw) cycles(ctx context.Context, n, window int) (float64, error) {
	r.run++
	started := time.Now()
	sent, done := 0, 0
	for done < n {
		for sent < n && sent-done < window {
			if _, err := r.js.PublishMsgAsync(&nats.Msg{Subject: r.subject(sent), Data: payload}); err != nil {
				return 0, err
			}
			sent++
		}
		if err := r.wait(ctx); err != nil {
			return 0, err
		}
		done++
	}
	return float64(n) / time.Since(started).Seconds(), nil
}

// single gives the time of each of n cycles, one at a time.
func (r *raw) single(ctx context.Context, n int) ([]time.Duration, error) {
	r.run++
	times := make([]time.Duration, n)
	for i := range n {
		started := time.Now()
		if _, err := r.js.PublishMsgAsync(&nats.Msg{Subject: r.subject(i), Data: payload}); err != nil {
			return nil, err
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
		times[i] = time.Since(started)
	}
	return times, nil
}

func (r *raw) subject(i int) string {
	return "ceiling.in.child." + strconv.FormatInt(r.run, 10) + "_" + strconv.Itoa(i)
}

func (r *raw) wait(ctx context.Context) error {
	for {
		select {
		case <-r.seen:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
			if err := r.fault.Load(); err != nil {
				return *err
			}
		}
	}
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
