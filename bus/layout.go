package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	defaultPartitions = 8
	maxPartitions     = 1024
	maxReplicas       = 5
	layoutVersion     = 1

	ensureTimeout = 30 * time.Second // when the caller brought no deadline: an election fits in

	// The first attempts are short, since a request that comes before there is a leader is not
	// answered at all; the later ones give a busy cluster its time.
	attemptTimeout    = 500 * time.Millisecond
	attemptTimeoutMax = 8 * time.Second
	attemptWait       = 50 * time.Millisecond
)

// A Layout is what a namespace consists of.
type Layout struct {
	Names subjects.Names
	// Partitions is over how many partitions the inboxes are spread: the largest number of processes
	// that can share the load. It is fixed when the namespace is created. 0 is what was fixed then,
	// or 8 when this creates it.
	Partitions int
	// Replicas is on how many servers of a cluster each stream is kept, 1, 3 or 5. It counts for
	// streams that don't exist yet; changing those that do is the operator's. 0 is what the namespace
	// was created with, or 1 when this creates it.
	Replicas int
}

// config is what stands under [subjects.ConfigKey] in the leases bucket.
type config struct {
	Partitions int `json:"partitions"`
	Version    int `json:"version"`
}

// Ensure creates every stream and bucket that is missing, and gives the layout in effect. It may run
// in several processes at once, and again at each start. It waits for JetStream to be ready and to
// have leaders until ctx ends, or 30 seconds if ctx has no deadline; then the kind is timeout. The
// kind is conflict when the namespace has another number of partitions, or when one of its streams
// was made otherwise than ours are.
func (c *Conn) Ensure(ctx context.Context, want Layout) (Layout, error) {
	const op = "bus.Ensure"
	if err := want.validate(); err != nil {
		return Layout{}, err
	}
	ctx, cancel := within(ctx, ensureTimeout)
	defer cancel()
	l, err := c.fix(ctx, want)
	if err != nil {
		return Layout{}, err
	}
	errs := make(chan error)
	streams := l.others()
	for _, s := range streams {
		go func() { errs <- c.create(ctx, s) }()
	}
	err = c.create(ctx, l.timerStream())
	if err == nil {
		err = c.create(ctx, l.inboxStream())
	}
	for range streams {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return Layout{}, wrap(op, "namespace "+l.Names.Namespace(), err)
	}
	return l, nil
}

func (l Layout) validate() error {
	const op = "bus.Ensure"
	bad := func(field string, format string, args ...any) error {
		return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: field, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case l.Names == subjects.Names{}:
		return bad("names", "a namespace is required")
	case l.Partitions < 0 || l.Partitions > maxPartitions:
		return bad("partitions", "%d is not between 1 and %d", l.Partitions, maxPartitions)
	case l.Replicas < 0 || l.Replicas > maxReplicas:
		return bad("replicas", "%d is not between 1 and %d", l.Replicas, maxReplicas)
	}
	return nil
}

// fix creates the leases bucket and writes into it what is fixed from then on; whoever comes first
// says what that is.
func (c *Conn) fix(ctx context.Context, want Layout) (Layout, error) {
	first := Layout{Names: want.Names, Partitions: want.Partitions, Replicas: want.Replicas}
	if first.Partitions == 0 {
		first.Partitions = defaultPartitions
	}
	if first.Replicas == 0 {
		first.Replicas = 1
	}
	if err := c.create(ctx, first.leasesBucket()); err != nil {
		return Layout{}, err
	}
	text, err := json.Marshal(config{Partitions: first.Partitions, Version: layoutVersion})
	if err != nil {
		return Layout{}, wrap("bus.Ensure", "encode the layout", err)
	}
	var got Layout
	err = patiently(ctx, func(ctx context.Context) error {
		kv, err := c.JS.KeyValue(ctx, want.Names.LeasesBucket())
		if err != nil {
			return err
		}
		if _, err = kv.Create(ctx, subjects.ConfigKey, text); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
		got, err = c.layout(ctx, want.Names)
		return err
	})
	if err != nil {
		return Layout{}, wrap("bus.Ensure", "fix the layout", err)
	}
	if want.Partitions != 0 && want.Partitions != got.Partitions {
		return Layout{}, refuse("bus.Ensure", actor.Conflict, "namespace %s has %d partitions, not %d",
			want.Names.Namespace(), got.Partitions, want.Partitions)
	}
	if want.Replicas != 0 {
		got.Replicas = want.Replicas
	}
	return got, nil
}

// Layout reads the layout of a namespace. The kind is not_found when it has none yet.
func (c *Conn) Layout(ctx context.Context, names subjects.Names) (Layout, error) {
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	l, err := c.layout(ctx, names)
	return l, wrap("bus.Layout", "namespace "+names.Namespace(), err)
}

func (c *Conn) layout(ctx context.Context, names subjects.Names) (Layout, error) {
	bucket := names.LeasesBucket()
	s, err := c.JS.Stream(ctx, subjects.KVStream(bucket))
	if err != nil {
		return Layout{}, err
	}
	msg, err := s.GetLastMsgForSubject(ctx, subjects.KVSubject(bucket, subjects.ConfigKey))
	if err != nil {
		return Layout{}, err
	}
	var stored config
	if err := json.Unmarshal(msg.Data, &stored); err != nil {
		return Layout{}, fmt.Errorf("decode the layout: %w", err)
	}
	if stored.Partitions < 1 || stored.Version != layoutVersion {
		return Layout{}, fmt.Errorf("the layout %s is of another version of this program", msg.Data)
	}
	return Layout{Names: names, Partitions: stored.Partitions, Replicas: s.CachedInfo().Config.Replicas}, nil
}

// create creates one stream, or finds that it exists and is as ours, and waits for its leader.
func (c *Conn) create(ctx context.Context, want jetstream.StreamConfig) error {
	err := patiently(ctx, func(ctx context.Context) error {
		s, err := c.JS.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = c.JS.Stream(ctx, want.Name)
		}
		if err != nil {
			return err
		}
		if better, need := mended(s.CachedInfo().Config, want); need {
			if s, err = c.JS.UpdateStream(ctx, better); err != nil {
				return err
			}
		}
		info := s.CachedInfo()
		if info.Cluster != nil && info.Config.Replicas > 1 && info.Cluster.Leader == "" {
			return errNoLeader
		}
		if err := differs(info.Config, want); err != nil {
			return refuse("bus.Ensure", actor.Conflict, "%w", err)
		}
		return nil
	})
	return wrap("bus.Ensure", "stream "+want.Name, err)
}

var errNoLeader = &actor.Error{Op: "bus.Ensure", Kind: actor.Unavailable, Err: errors.New("the stream has no leader")}

// patiently runs fn until it succeeds, fails in a way that waiting does not mend, or ctx ends.
func patiently(ctx context.Context, fn func(context.Context) error) error {
	for timeout := attemptTimeout; ; timeout = min(2*timeout, attemptTimeoutMax) {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := fn(attempt)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		if !pause(ctx, attemptWait) {
			return &actor.Error{Op: "bus.Ensure", Kind: actor.Timeout, Err: fmt.Errorf("JetStream was not ready: %w", err)}
		}
	}
}

// passing reports whether the same request may well succeed a little later.
func passing(err error) bool {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return false
	}
	kind := kindOf(err)
	return kind == actor.Unavailable || kind == actor.Timeout
}

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
