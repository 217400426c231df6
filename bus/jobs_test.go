package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

// short is a lease that a test can wait for.
const short = 500 * time.Millisecond

func (r room) taker(t testing.TB, most int) *bus.Taker {
	t.Helper()
	taker, err := bus.NewTaker(bus.TakerConfig{Conn: r.conn, Names: r.names, Kind: "tool", Name: "a.b", AckWait: short, MaxDeliver: most})
	if err != nil {
		t.Fatal(err)
	}
	return taker
}

func take(t testing.TB, taker *bus.Taker) *bus.Taken {
	t.Helper()
	taken, err := taker.Take(natstest.Context(t))
	if err != nil {
		t.Fatalf("take a job: %v", err)
	}
	return taken
}

// standing waits until a job stands as it should.
func (r room) standing(t testing.TB, subject string, want bus.Standing) {
	t.Helper()
	natstest.Await(t, "the job stands as it should", func() bool {
		got, err := r.conn.Jobs(r.names).Standing(natstest.Context(t), subject)
		if err != nil {
			t.Fatalf("standing: %v", err)
		}
		return got == want
	})
}

// A job is queued once, whoever says so how often, until somebody is done with it.
func TestJobIsQueuedOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	jobs := r.conn.Jobs(r.names)
	subject := r.names.Work("tool", "a.b", "sub_00000001", 1)
	r.standing(t, subject, bus.JobAbsent)
	stored(t, jobs.Queue(subject, []byte("1")))
	r.standing(t, subject, bus.JobQueued)
	again := func(when string) {
		t.Helper()
		_, err := jobs.Queue(subject, []byte("2")).Wait(natstest.Context(t))
		wantKind(t, "queued again "+when, err, actor.Conflict)
	}
	again("while it waits")
	taken := take(t, r.taker(t, 5))
	if string(taken.Data) != "1" || taken.Attempt != 1 || taken.Last || taken.AckWait != short {
		t.Errorf("taken: %q, attempt %d, last %v, ack wait %v", taken.Data, taken.Attempt, taken.Last, taken.AckWait)
	}
	again("while a worker has it")
	r.standing(t, subject, bus.JobQueued)
	if err := taken.Done(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	r.standing(t, subject, bus.JobAbsent)
	stored(t, jobs.Queue(subject, []byte("3")))
}

// A job that its worker extends is its own; one that it does not is another's after the lease.
func TestJobLease(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	stored(t, r.conn.Jobs(r.names).Queue(r.names.Work("tool", "a.b", "sub_00000001", 1), nil))
	taken := take(t, r.taker(t, 5))
	other := make(chan *bus.Taken, 1)
	go func() {
		if taken, err := r.taker(t, 5).Take(natstest.Context(t)); err == nil {
			other <- taken
		}
	}()
	tick := time.NewTicker(short / 3)
	defer tick.Stop()
	for range 9 { // three leases long
		select {
		case <-other:
			t.Fatal("another worker was given a job that was extended in time")
		case <-tick.C:
			if err := taken.Extend(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if second := <-other; second.Attempt != 2 {
		t.Errorf("the other worker has it at attempt %d, want 2", second.Attempt)
	}
}

// A job that is withdrawn is nobody's, and its worker hears of it. Other jobs are not touched, and the consumer
// goes on.
func TestJobWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	jobs := r.conn.Jobs(r.names)
	first, second := r.names.Work("tool", "a.b", "sub_00000001", 1), r.names.Work("tool", "a.b", "sub_00000001", 2)
	cancelled := make(chan string, 1)
	stop, err := r.conn.Subscribe(r.names.JobsCancel(), func(subject string, _ []byte) { cancelled <- subject })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	stored(t, jobs.Queue(first, nil))
	stored(t, jobs.Queue(second, nil))
	taken := take(t, r.taker(t, 5))
	if err := jobs.Withdraw(natstest.Context(t), first); err != nil {
		t.Fatal(err)
	}
	if got := <-cancelled; got != r.names.JobCancel("sub_00000001", 1) {
		t.Errorf("cancelled was %s", got)
	}
	r.standing(t, first, bus.JobAbsent)
	if err := taken.Drop(); err != nil {
		t.Errorf("dropping what was withdrawn: %v", err)
	}
	next := take(t, r.taker(t, 5))
	if next.Subject != second {
		t.Errorf("the next job is %s, want %s", next.Subject, second)
	}
	r.standing(t, second, bus.JobQueued)
}

// A job that was delivered as often as it may be is told of, also to a host that comes later.
func TestJobExhausted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bus.Taken) error{
		"silence": func(*bus.Taken) error { return nil },
		"retry":   func(taken *bus.Taken) error { return taken.Retry(0) },
		"later":   func(taken *bus.Taken) error { return taken.Retry(10 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			subject := r.names.Work("tool", "a.b", "sub_00000001", 1)
			stored(t, r.conn.Jobs(r.names).Queue(subject, nil))
			busy := r.names.Work("tool", "a.b", "sub_00000001", 2)
			stored(t, r.conn.Jobs(r.names).Queue(busy, nil))
			taker := r.taker(t, 2)
			for n := 1; n <= 2; {
				taken := take(t, taker)
				if taken.Subject == busy {
					continue
				}
				if taken.Attempt != n || taken.Last != (n == 2) {
					t.Errorf("attempt %d, last %v; it is the %d. of 2", taken.Attempt, taken.Last, n)
				}
				if err := end(taken); err != nil {
					t.Fatal(err)
				}
				n++
			}
			pulling, stop := context.WithTimeout(natstest.Context(t), 2*short) // the server looks when somebody pulls
			defer stop()
			for {
				if _, err := taker.Take(pulling); err != nil {
					break
				}
			}
			told := make(chan string, 10)
			ctx, cancel := context.WithCancel(natstest.Context(t))
			done := make(chan error)
			go func() {
				done <- r.conn.Jobs(r.names).ServeExhausted(ctx, func(_ context.Context, subject string) error {
					told <- subject
					return nil
				})
			}()
			for subject != <-told {
			}
			r.standing(t, subject, bus.JobAbsent)
			cancel()
			if err := <-done; err != nil {
				t.Errorf("ServeExhausted ended with %v", err)
			}
		})
	}
}

// What nobody was told of can be seen by looking.
func TestStandingExhausted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	subject := r.names.Work("tool", "a.b", "sub_00000001", 1)
	stored(t, r.conn.Jobs(r.names).Queue(subject, nil))
	take(t, r.taker(t, 1))
	r.standing(t, subject, bus.JobQueued)
	r.standing(t, subject, bus.JobExhausted)
}

// The first worker of a service decides on its consumer; others take it as it is.
func TestFirstTakerDecides(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for n := range 2 {
		stored(t, r.conn.Jobs(r.names).Queue(r.names.Work("tool", "a.b", "sub_00000001", uint64(n+1)), nil))
	}
	take(t, r.taker(t, 1))
	other, err := bus.NewTaker(bus.TakerConfig{Conn: r.conn, Names: r.names, Kind: "tool", Name: "a.b"})
	if err != nil {
		t.Fatal(err)
	}
	if taken := take(t, other); taken.AckWait != short || !taken.Last {
		t.Errorf("the second worker has a lease of %v, last attempt %v; the first made the consumer with %v and one attempt", taken.AckWait, taken.Last, short)
	}
}

// The work stream of an earlier version, which nothing was ever published to, becomes ours.
func TestFormerWorkStream(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, names := natstest.Conn(t, srv), natstest.Names(t)
	_, err := conn.JS.CreateStream(natstest.Context(t), jetstream.StreamConfig{
		Name: names.WorkStream(), Subjects: []string{names.Namespace() + ".work.*.*"}, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := furnish(t, srv, conn, bus.Layout{Names: names, Partitions: 4})
	stored(t, r.conn.Jobs(names).Queue(names.Work("tool", "a.b", "sub_00000001", 1), nil))
	take(t, r.taker(t, 5))
}
