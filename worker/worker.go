package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/work"
)

// The defaults of a [Config].
const (
	DefaultRunning = 4
	DefaultDrain   = 30 * time.Second
	DefaultBackoff = time.Second

	maxBackoff   = 30 * time.Second
	maxCancelled = 4096 // cancellations that are remembered of jobs that are not here
)

// A Config says what a worker serves. Conn, Names and Serve are required.
type Config struct {
	Conn  *bus.Conn
	Names subjects.Names
	Serve map[string]Func // by service: "tool/render", "model/local"

	Running    int            // jobs at a time, of all services together; 0 is DefaultRunning
	RunningOf  map[string]int // jobs of a service at a time; no more than Running if it is not there
	AckWait    time.Duration  // of the consumer, if this worker makes it; 0 is bus.DefaultAckWait
	MaxDeliver int            // likewise; 0 is bus.DefaultMaxDeliver
	Drain      time.Duration  // jobs under way get that to end when the worker has to go; 0 is DefaultDrain, below zero is none
	Backoff    time.Duration  // before a job's second try, then doubled up to 30 s; 0 is DefaultBackoff
	Log        zerolog.Logger
}

// A Func carries out jobs: see the package's documentation. It is called from several goroutines at once.
type Func func(ctx context.Context, j *Job) (*Answer, error)

// A Job is what is to be done. A tool's has Arguments, a JSON object; a model's has Request.
type Job struct {
	ID        string // the same at each try
	Service   work.Service
	Thread    actor.ID
	Session   uint64
	Step      int
	Call      string // of a tool's: the id of the call
	Arguments json.RawMessage
	Request   *work.Request
	Deadline  time.Time // zero: none
	Attempt   int       // 1 at the first
	Last      bool      // there is none after it

	progress func(text string)
}

// Progress tells watchers how the job is going. It promises no delivery.
func (j *Job) Progress(text string) {
	if j.progress != nil {
		j.progress(text)
	}
}

// An Answer is a tool's Result, any JSON, or a model's Response. Nil is the result null.
type Answer struct {
	Result   json.RawMessage
	Response *work.Response
}

// A Worker serves.
type Worker struct {
	Config
	services []service
	blobs    *store.Blobs

	places chan struct{} // that jobs have
	hungry atomic.Int64  // services that wait for one

	mu        sync.Mutex
	running   map[string]context.CancelCauseFunc // by job
	cancelled map[string]bool                    // jobs that are over and may still come
}

type service struct {
	work.Service
	do    Func
	taker *bus.Taker
	most  int // jobs at a time
}

// The reasons why a job's context ends early, and why a result is none.
var (
	errCancelled = errors.New("nobody waits for the job any more")
	errAbandoned = errors.New("the worker has to go")
	errFiles     = errors.New("the tool gave binary files, which an answer of a worker can not hold")
)

// New checks the configuration. It asks the server nothing.
func New(cfg Config) (*Worker, error) {
	bad := func(field, why string) error {
		return &actor.Error{Op: "worker.New", Kind: actor.SchemaViolation, Field: field, Err: errors.New(why)}
	}
	switch {
	case cfg.Conn == nil:
		return nil, bad("Conn", "is required")
	case len(cfg.Serve) == 0:
		return nil, bad("Serve", "a worker serves something")
	case cfg.Running < 0 || cfg.Backoff < 0:
		return nil, bad("Running", "Running and Backoff are not below zero")
	}
	if cfg.Running == 0 {
		cfg.Running = DefaultRunning
	}
	if cfg.Drain == 0 {
		cfg.Drain = DefaultDrain
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = DefaultBackoff
	}
	st, err := store.New(store.Config{NC: cfg.Conn.NC, JS: cfg.Conn.JS, Sender: cfg.Conn, Names: cfg.Names})
	if err != nil {
		return nil, err
	}
	for name, n := range cfg.RunningOf {
		if cfg.Serve[name] == nil || n < 1 {
			return nil, bad("RunningOf", fmt.Sprintf("%s may run %d times at a time: want a service that is served, and at least 1", name, n))
		}
	}
	w := &Worker{Config: cfg, blobs: st.Blobs, places: make(chan struct{}, cfg.Running), running: map[string]context.CancelCauseFunc{}, cancelled: map[string]bool{}}
	for name, do := range cfg.Serve {
		s, err := work.ParseService(name)
		if err != nil {
			return nil, err
		}
		if do == nil {
			return nil, bad("Serve", name+" has no function")
		}
		taker, err := bus.NewTaker(bus.TakerConfig{
			Conn: cfg.Conn, Names: cfg.Names, Kind: s.Kind, Name: s.Name, AckWait: cfg.AckWait, MaxDeliver: cfg.MaxDeliver,
		})
		if err != nil {
			return nil, err
		}
		most := cfg.Running
		if n := cfg.RunningOf[name]; n > 0 {
			most = min(most, n)
		}
		w.services = append(w.services, service{s, do, taker, most})
	}
	return w, nil
}

// Serve takes jobs until ctx ends, gives those under way the time of Drain, then ends them and gives them back to the
// queue. It returns nil then, once every Func has returned, or has not for a while: one that ignores the end of its context
// is left behind, and told of. Its error is unavailable when the connection is closed
// for good.
func (w *Worker) Serve(ctx context.Context) error {
	stop, err := w.Conn.Subscribe(w.Names.JobsCancel(), func(subject string, _ []byte) { w.cancel(subject) })
	if err != nil {
		return err
	}
	defer stop()
	jobs, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	pulling, halt := context.WithCancel(ctx)
	defer halt()
	var pullers, running sync.WaitGroup
	errs := make([]error, len(w.services))
	for i, s := range w.services {
		pullers.Go(func() {
			errs[i] = w.pull(pulling, jobs, s, &running)
			halt()
		})
	}
	pullers.Wait()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	drain := time.NewTimer(max(w.Drain, 0))
	defer drain.Stop()
	select {
	case <-done:
	case <-drain.C:
		abandon(errAbandoned)
		<-done
	}
	return errors.Join(errs...)
}

// How long a service that has a place asks for a job before it lets others have the place, while all have one, and while
// some wait for one.
const (
	askAlone    = 5 * time.Second // there is no other service
	askFor      = time.Second
	askHungrily = 100 * time.Millisecond
)

// pull takes jobs of one service, as many as may run, until ctx ends. It asks for a job once there is a place for it: one
// that waited here would wait for nobody else. So a place goes round the services that want one.
func (w *Worker) pull(ctx, jobs context.Context, s service, running *sync.WaitGroup) error {
	own := make(chan struct{}, s.most)
	for {
		select {
		case own <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if !w.enter(ctx) {
			return nil
		}
		leave := func() {
			<-w.places
			<-own
		}
		wait := askFor
		if len(w.services) == 1 {
			wait = askAlone
		}
		if w.hungry.Load() > 0 {
			wait = askHungrily
		}
		taken, err := s.taker.TakeWithin(ctx, wait)
		switch {
		case taken != nil:
			running.Go(func() {
				defer leave()
				w.run(jobs, s, taken)
			})
			continue
		case ctx.Err() != nil:
			leave()
			return nil
		case err != nil:
			leave()
			return err
		}
		leave()
	}
}

// enter waits for a place, and reports false when ctx ended first.
func (w *Worker) enter(ctx context.Context) bool {
	w.hungry.Add(1)
	defer w.hungry.Add(-1)
	select {
	case w.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// cancel ends a job that is over. It may not be here yet: the job and the word that it is over come by different ways.
func (w *Worker) cancel(subject string) {
	thread, n, _, err := w.Names.ParseJob(subject)
	if err != nil {
		return
	}
	id := work.ID(thread, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := w.running[id]; end != nil {
		end(errCancelled)
		return
	}
	if len(w.cancelled) >= maxCancelled {
		clear(w.cancelled)
	}
	w.cancelled[id] = true
}

// begin makes a job's context; nil if the job is over.
func (w *Worker) begin(ctx context.Context, j *Job) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancelled[j.ID] {
		delete(w.cancelled, j.ID)
		end(nil)
		return nil, nil
	}
	w.running[j.ID] = end
	stop := func() {}
	if !j.Deadline.IsZero() {
		ctx, stop = context.WithDeadlineCause(ctx, j.Deadline, fmt.Errorf("not done by %s", j.Deadline.Format(time.RFC3339)))
	}
	return ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, j.ID)
		stop()
		end(nil)
	}
}
