package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/tool"
)

// The defaults of a [Config].
const (
	DefaultMaxDepth = 5
	DefaultMaxLive  = 256

	DefaultLeaseTerm = 3 * time.Second
	DefaultMaxQueued = 100_000
)

// A Config says what a Host works with. Conn, Store, Names, Partitions and Member are required.
type Config struct {
	Conn       *bus.Conn
	Store      *store.Store
	Names      subjects.Names
	Partitions int    // as the namespace was laid out
	Member     string // unique among the processes of the namespace; the same after a restart lets it go on at once
	Version    string // told by the micro service
	Sole       bool   // no other process can have the name, say for a lock: one that was killed need not be waited for

	Limits   Limits               // zero fields: 5 and 256
	Models   *model.Registry      // nil: the built-in ones
	Tools    *tool.Registry       // nil: none
	Merges   map[string]MergeFunc // merge functions by name; "custom" is that of plain custom
	Handlers map[string]Handler   // by the name that sides have them by
	Env      map[string]string    // flags of relationships that a thread has no variable of its own for
	Running  int                  // jobs at a time in this process; 0: 64 for each core
	// RunningOf is how many steps of a model may run at a time in this process, by its name or by the beginning of
	// names with a "*" behind it. A model that several of them fit stands under all of these.
	RunningOf map[string]int
	// MaxQueued is how many messages may wait for a thread's next step; 0: 100,000. Requests to send more are refused with
	// inbox_full, and what is published to the inbox itself beyond that is a dead letter.
	MaxQueued int
	// Drain is how long jobs that are under way may go on after their partition was given back, as when the host has to
	// end; 0 is not at all: whoever has the partition next does them again.
	Drain     time.Duration
	WorkCheck time.Duration // after which a job that workers elsewhere have is first looked for; 0: a minute
	// LeaseTerm is after how long without a sign of life of its owner a partition is another's, by that one's own clock; all
	// processes of a namespace should have the same. 0: DefaultLeaseTerm.
	LeaseTerm time.Duration
	Log       zerolog.Logger // the zero Logger writes nothing
}

func (c *Config) validate() error {
	for name, missing := range map[string]bool{
		"Conn": c.Conn == nil, "Store": c.Store == nil, "Partitions": c.Partitions < 1, "Member": c.Member == "",
	} {
		if missing {
			return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: name, Err: errors.New("is required")}
		}
	}
	if c.Limits.MaxDepth == 0 {
		c.Limits.MaxDepth = DefaultMaxDepth
	}
	if c.Limits.MaxLive == 0 {
		c.Limits.MaxLive = DefaultMaxLive
	}
	for name, n := range c.RunningOf {
		if n < 1 || name == "" {
			return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: "RunningOf", Err: fmt.Errorf("%q may run %d times at a time, want a model and at least 1", name, n)}
		}
	}
	if c.LeaseTerm < 0 {
		return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: "LeaseTerm", Err: errors.New("is below zero")}
	}
	if c.LeaseTerm == 0 {
		c.LeaseTerm = DefaultLeaseTerm
	}
	if c.MaxQueued < 0 {
		return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: "MaxQueued", Err: errors.New("is below zero")}
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = DefaultMaxQueued
	}
	if c.Running < 0 {
		return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: "Running", Err: errors.New("is below zero")}
	}
	if c.Drain < 0 {
		return &actor.Error{Op: "host.New", Kind: actor.SchemaViolation, Field: "Drain", Err: errors.New("is below zero")}
	}
	if c.Running == 0 {
		c.Running = 64 * runtime.GOMAXPROCS(0)
	}
	if c.Models == nil {
		models, err := model.New(model.Config{})
		if err != nil {
			return err
		}
		c.Models = models
	}
	if c.Tools == nil {
		tools, err := tool.New(tool.Config{})
		if err != nil {
			return err
		}
		c.Tools = tools
	}
	return nil
}

// A Host is one process of the fleet.
type Host struct {
	Config
	notices   *notices
	timers    bus.Timers
	lineages  lineages
	scopes    scopes
	signs     signs
	births    recent[actor.ID, store.Message] // made here, good for one activation
	revisions recent[actor.ID, revision]      // of actors that may be out of memory now
	slots     *slots
	counters  counters
	ready     chan struct{}
	open      chan struct{} // closed once the door is
	isReady   sync.Once

	tasks tasks

	me  store.Member // of the membership's goroutine, as is the next; me is set before anything is owned
	rev uint64       // of what this member said last

	anxious bool // another process may have died: rounds come faster; of the membership's goroutine

	noRoom atomic.Int64 // when the server had no room last, in microseconds; 0: overdue timers were looked for since

	mu        sync.Mutex
	owned     map[int]*partition
	living    map[string]bool // the processes that live, by what they call themselves
	compacted uint64          // the inbox was compacted up to it; of the membership's goroutine

	background sync.WaitGroup // goroutines that end by themselves
}

// New checks the configuration. It asks nothing of the server; Serve does.
func New(cfg Config) (*Host, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &Host{
		Config:   cfg,
		slots:    newSlots(cfg.Running, cfg.RunningOf),
		tasks:    newTasks(),
		ready:    make(chan struct{}),
		open:     make(chan struct{}),
		owned:    map[int]*partition{},
		lineages: lineages{known: map[actor.ID]actor.Lineage{}},
		scopes:   scopes{known: map[actor.ID]scope{}},
	}
	h.notices = newNotices(h)
	h.timers = cfg.Conn.Timers(cfg.Names)
	return h, nil
}

// Ready is closed once the host owns its share of the partitions and the door is open.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// Serve runs the host until ctx ends. It then stops reading, lets the turns under way finish, and gives
// its partitions back; jobs that are under way have the time of Drain. A job that ignores the end of its context is left
// behind, and told of. The error is conflict when another process has the member's name.
func (h *Host) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		once sync.Once
		err  error
	)
	tools := make(chan error, 1)
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx)) // the tools outlast the jobs
	defer stop()
	go func() { tools <- h.Tools.Serve(lasting) }()
	run := func(f func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if e := f(ctx); e != nil && ctx.Err() == nil {
				once.Do(func() { err = e })
			}
			cancel()
		}()
	}
	run(h.serveMembership)
	run(h.serveDoor)
	run(h.serveEviction)
	run(h.serveWorkers)
	wg.Wait()
	h.finish()
	stop()
	<-tools
	return err
}

// sleep waits for d or until ctx ends, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
