package tool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

const (
	firstPause = 100 * time.Millisecond // before the second start in a row that came to nothing
	maxPause   = 30 * time.Second
	shortPause = time.Second // the longest for which a call waits
)

// A keeper keeps one MCP server: it starts it when it is asked for, starts it again when it is asked for after
// its death, and knows what it offers. All of that happens on the goroutine of serve; whoever needs
// the server leaves word in want and waits for a change.
type keeper struct {
	Server
	env     []string
	header  http.Header
	hide    *strings.Replacer
	limit   int           // of a result
	patient time.Duration // how long a description waits for its first start
	log     zerolog.Logger
	client  *mcp.Client
	want    chan struct{} // somebody needs the server
	relist  chan struct{} // it says that its tools have changed
	stopped chan struct{} // closed once serve has ended

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change of what stands below, and replaced
	live     *session      // nil while there is none
	attempts uint64        // starts that have failed
	why      error         // the last of them
	resting  bool          // it is started again, but not soon
	vain     int           // starts in a row without a call that succeeded
	offered  *offer        // what the server offered last; nil before its first start
	absent   bool          // a description has waited for its first start in vain: no other waits, and it is started again by itself
}

func newKeeper(s Server, cfg *Config) (*keeper, error) {
	lookup := cfg.LookupEnv
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	env, err := s.environment(lookup)
	if err != nil {
		return nil, err
	}
	header, err := s.header(lookup)
	if err != nil {
		return nil, err
	}
	k := &keeper{
		Server: s, env: env, header: header, hide: s.secrets(env, header), limit: cfg.MaxResult, patient: cfg.DescribeWait,
		log:  cfg.Log.With().Str("mcp", s.Name).Logger(),
		want: make(chan struct{}, 1), relist: make(chan struct{}, 1),
		stopped: make(chan struct{}), changed: make(chan struct{}),
	}
	k.client = mcp.NewClient(&mcp.Implementation{Name: "troupe", Version: "1"}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { signal(k.relist) },
	})
	return k, nil
}

// signal leaves word; once is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// serve keeps the server until ctx ends.
func (k *keeper) serve(ctx context.Context) {
	defer close(k.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.want:
		}
		if !k.rest(ctx) {
			return
		}
		s, o, err := k.start(ctx)
		if ctx.Err() != nil && err != nil {
			return
		}
		k.started(s, o, err)
		if err != nil {
			k.log.Warn().Str("why", err.Error()).Msg("an MCP server did not start")
			k.again()
			continue
		}
		why := k.attend(ctx, s)
		k.gone()
		s.close()
		if ctx.Err() != nil {
			return
		}
		k.log.Warn().Str("why", why).Msg("an MCP server is gone")
	}
}

// again has a server started again that steps go on without.
func (k *keeper) again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.absent {
		signal(k.want)
	}
}

// rest pauses before a start, and reports false when ctx ended first. Nobody waits for a server that rests for long.
func (k *keeper) rest(ctx context.Context) bool {
	pause := k.pause()
	k.setResting(pause > shortPause)
	defer k.setResting(false)
	return waitFor(ctx, pause)
}

func (k *keeper) setResting(resting bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resting != resting {
		k.resting = resting
		k.change()
	}
}

// pause is how long to wait before the next start.
func (k *keeper) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.vain < 2 {
		return 0
	}
	return min(firstPause<<min(k.vain-2, 20), maxPause)
}

// started notes how a start went, and tells those who wait.
func (k *keeper) started(s *session, o *offer, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vain++
	if err != nil {
		k.attempts, k.why = k.attempts+1, err
	} else {
		k.live, k.offered, k.absent = s, o, false
	}
	k.change()
}

// gone notes that the server is gone. Whoever still needs it has to say so again.
func (k *keeper) gone() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live = nil
	select {
	case <-k.want:
	default:
	}
	k.change()
}

// lose notes that a session is of no use any more, so that the next call waits for another.
func (k *keeper) lose(s *session, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live == s {
		k.live = nil
		s.broken <- why // has room for one, and only one gets here
	}
}

// succeeded notes that a call has succeeded: the server works.
func (k *keeper) succeeded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vain = 1
}

// change wakes those who wait. The caller holds k.mu.
func (k *keeper) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// attend watches over a server until it is gone or ctx ends, and says why it is gone.
func (k *keeper) attend(ctx context.Context, s *session) (why string) {
	for {
		select {
		case <-ctx.Done():
			return "stopped"
		case <-s.ended:
			return "it has ended"
		case why := <-s.broken:
			return why
		case <-k.relist:
		}
		o, err := k.list(ctx, s)
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			return "its tools can't be listed again: " + k.words(err)
		}
		k.mu.Lock()
		k.offered = o
		k.change()
		k.mu.Unlock()
	}
}

// session gives the running server, and waits for it to start, for no longer than two starts may take. One that does not start is an error; the next to
// ask has it started again.
func (k *keeper) session(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*orDefault(k.StartTimeout)+maxPause, errors.New("nothing starts it"))
	defer cancel()
	k.mu.Lock()
	asked := k.attempts
	for {
		live, changed, attempts, why, resting := k.live, k.changed, k.attempts, k.why, k.resting
		k.mu.Unlock()
		switch {
		case live != nil:
			return live, nil
		case attempts > asked:
			return nil, why
		case resting:
			return nil, k.fail(actor.Unavailable, errors.New("it has failed several times in a row, and is started again in a while"))
		}
		signal(k.want)
		select {
		case <-changed:
		case <-k.stopped:
			return nil, refuse("tool.Call", actor.Unavailable, "", "the MCP server %s was stopped with its host", k.Name)
		case <-ctx.Done():
			return nil, over(ctx, "tool.Call", "start the MCP server "+k.Name)
		}
		k.mu.Lock()
	}
}

// offer gives what the server offers, or offered last if it has died, and has it started if it never was.
func (k *keeper) offer(ctx context.Context) (*offer, error) {
	for {
		k.mu.Lock()
		o := k.offered
		k.mu.Unlock()
		if o != nil {
			return o, nil
		}
		if _, err := k.session(ctx); err != nil {
			return nil, err
		}
	}
}

// describe is offer for a step, which would rather go on without the server than wait for it: it waits for the first
// start, once and not for long. Then the server is started in the background until it is there.
func (k *keeper) describe(ctx context.Context) (*offer, error) {
	k.mu.Lock()
	o, absent := k.offered, k.absent
	k.mu.Unlock()
	switch {
	case o != nil:
		return o, nil
	case absent:
		return nil, k.fail(actor.Unavailable, errors.New("it has not started yet, and is being started"))
	}
	waiting, cancel := context.WithTimeoutCause(ctx, k.patient, fmt.Errorf("not ready within %v", k.patient))
	defer cancel()
	o, err := k.offer(waiting)
	switch {
	case err == nil || ctx.Err() != nil:
		return o, err
	case waiting.Err() != nil:
		err = k.fail(actor.Unavailable, context.Cause(waiting))
	}
	k.mu.Lock()
	first := k.offered == nil && !k.absent
	k.absent = k.absent || first
	k.mu.Unlock()
	if first {
		k.log.Warn().Str("why", err.Error()).Msg("steps go on without an MCP server, which is started in the background")
		signal(k.want)
	}
	return nil, err
}

// lookup finds a tool by its full name. A name that is not known to a server that is away may be known to it
// when it is back; to be described it is not waited for.
func (k *keeper) lookup(ctx context.Context, name string, describe bool) (*guarded, error) {
	if describe {
		o, err := k.describe(ctx)
		if err != nil {
			return nil, err
		}
		return o.lookup(name)
	}
	o, err := k.offer(ctx)
	if err != nil {
		return nil, err
	}
	if o.tools[name] == nil && o.bad[name] == nil {
		if _, err := k.session(ctx); err != nil {
			return nil, err
		}
		if o, err = k.offer(ctx); err != nil {
			return nil, err
		}
	}
	return o.lookup(name)
}

// words is the text of an error, fit to be shown.
func (k *keeper) words(err error) string {
	return clip(k.hide.Replace(strings.ToValidUTF8(oneLine(err.Error()), "�")), maxWords)
}

// fail is an error of the server that a model may be told.
func (k *keeper) fail(kind actor.Kind, err error) error {
	return refuse("tool.Call", kind, "", "the MCP server %s: %s", k.Name, k.words(err))
}

// An offer is what a server lists: its tools by their full names, and the names that can't be used.
type offer struct {
	tools map[string]*guarded
	bad   map[string]error
}

func (o *offer) lookup(name string) (*guarded, error) {
	if g := o.tools[name]; g != nil {
		return g, nil
	}
	if err := o.bad[name]; err != nil {
		return nil, err
	}
	return nil, unknown(name)
}

// names lists all names, in order.
func (o *offer) names() []string {
	names := make([]string, 0, len(o.tools)+len(o.bad))
	for name := range o.tools {
		names = append(names, name)
	}
	for name := range o.bad {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// list asks the server for its tools.
func (k *keeper) list(ctx context.Context, s *session) (*offer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(k.StartTimeout), errors.New("its tools were not listed in time"))
	defer cancel()
	o := &offer{tools: map[string]*guarded{}, bad: map[string]error{}}
	owners := map[string]string{}
	for t, err := range s.mcp.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		name := k.Name + "_" + sanitized(t.Name)
		if other, taken := owners[name]; taken {
			delete(o.tools, name)
			o.bad[name] = refuse("tool.Lookup", actor.Conflict, "name", "the tools %q and %q of the MCP server %s would both be %s", other, t.Name, k.Name, name)
			continue
		}
		owners[name] = t.Name
		if err := validName(name); err != nil {
			o.bad[name] = refuse("tool.Lookup", actor.SchemaViolation, "name", "the tool %q of the MCP server %s: %w", t.Name, k.Name, err)
			continue
		}
		g, err := k.remote(t, name)
		if err != nil {
			return nil, fmt.Errorf("the schema of %s: %w", t.Name, err)
		}
		o.tools[name] = g
	}
	return o, nil
}

// sanitized is a name with underscores in place of what a tool's name can't have.
func sanitized(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}
