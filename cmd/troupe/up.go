package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/tool"
)

const upLong = `Run a NATS server with JetStream and a host of subagents in this process, until SIGINT or SIGTERM.
Everything is kept in the store directory: after a crash or a restart it goes on where it was.

With --nats or --context no server is started: this process is one more host of the namespace
there, and shares its load with the others. When one of them dies the others go on with its work.

On the first signal it takes nothing more and gives back what it has, so that other hosts go on with it at once. Model
steps and tool calls under way get the time of --drain, and count if they end in it; otherwise they are done again by
whoever has their thread then. A second signal ends the process at once.`

// upFlags are the flags of up.
type upFlags struct {
	listen, store, sync, config, member, prices, sealKeys, tools string
	partitions, replicas                                         int
	limits                                                       host.Limits
	running, maxQueued                                           int
	runningOf                                                    map[string]int
	drain                                                        time.Duration
	level                                                        choice
	http                                                         web
}

func (a *app) upCommand() *cobra.Command {
	u := upFlags{level: choice{"info", []string{"trace", "debug", "info", "warn", "error"}}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a NATS server and a host, until interrupted",
		Long:  upLong,
		Example: `  troupe up
  troupe up --listen :4222 --store /var/lib/troupe --sync always
  troupe up --http 127.0.0.1:8080
  troupe up --nats nats://nats.example.com:4222 --replicas 3`,
		Args: takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.up(ctx, &u) }),
	}
	a.where(cmd, "URL of a NATS server to be a host at, instead of starting one")
	f := cmd.Flags()
	f.StringVar(&u.listen, "listen", "127.0.0.1:4222", "HOST:PORT of the server; port 0 is any free one")
	f.StringVar(&u.store, "store", "./troupe-data", "directory of everything durable")
	f.StringVar(&u.sync, "sync", "100ms", "how often writes are forced to the disk, or \"always\" for before each answer")
	f.StringVar(&u.config, "nats-config", "", "a nats-server configuration `FILE`, for clusters, TLS, accounts; it wins over flags")
	f.IntVar(&u.partitions, "partitions", 0, "the largest number of hosts that can share the load; fixed when the namespace is created (default 8)")
	f.IntVar(&u.replicas, "replicas", 0, "servers of a cluster that keep each stream; counts when the namespace is created (default 1)")
	f.IntVar(&u.limits.MaxDepth, "max-depth", host.DefaultMaxDepth, "how deep subagents may spawn subagents")
	f.IntVar(&u.limits.MaxLive, "max-live", host.DefaultMaxLive, "live subagents that a tree may have")
	f.IntVar(&u.running, "max-running", 0, "model steps, tool calls and other jobs at a time in this process (default 64 for each core)")
	f.StringToIntVar(&u.runningOf, "max-running-model", nil, "steps of a model at a time in this process, as `NAME=N`; a NAME* is all models that begin so; may be repeated")
	f.DurationVar(&u.drain, "drain", 30*time.Second, "how long jobs under way may take to end when this process is to end, or their threads move to another; 0 is not at all")
	f.IntVar(&u.maxQueued, "max-queued", host.DefaultMaxQueued, "messages that may wait for a thread's next step; more are refused")
	f.StringVar(&u.member, "member", "", "this host's name among those of the namespace (default: kept in the store, else a random one)")
	f.StringVar(&u.sealKeys, "seal-keys", "", "a `FILE` of keys that close scoped values at rest: 32 bytes in base64, one a line, the one in use first")
	f.StringVar(&u.tools, "tools", "", "a `FILE` of tools that agents may use, YAML or JSON")
	u.http.flags(cmd)
	pricing(cmd, &u.prices)
	f.Var(&u.level, "log-level", "what is logged, to stderr")
	for _, other := range []string{"nats", "context"} {
		exclude(cmd, other, "listen", "store", "sync", "nats-config")
	}
	return cmd
}

// up runs until ctx ends, which is how it is meant to end.
func (a *app) up(ctx context.Context, u *upFlags) error {
	names, err := a.names()
	if err != nil {
		return err
	}
	if u.limits.MaxDepth < 1 || u.limits.MaxLive < 1 || u.partitions < 0 || u.replicas < 0 {
		return usage(errors.New("--max-depth and --max-live are at least 1, --partitions and --replicas not below zero"))
	}
	if u.maxQueued < 1 {
		return usage(errors.New("--max-queued is at least 1"))
	}
	if u.running < 0 {
		return usage(errors.New("--max-running is not below zero"))
	}
	if u.drain < 0 {
		return usage(errors.New("--drain is not below zero"))
	}
	for name, n := range u.runningOf {
		if name == "" || n < 1 {
			return usage(fmt.Errorf("--max-running-model %s=%d: want a model, and at least 1", name, n))
		}
	}
	seal, err := u.seal()
	if err != nil {
		return usage(err)
	}
	level, err := zerolog.ParseLevel(u.level.value)
	if err != nil {
		return usage(err)
	}
	brains, err := models(u.prices)
	if err != nil {
		return err
	}
	log := zerolog.New(logTo(a.stderr)).Level(level).With().Timestamp().Logger()
	if err := u.http.open(ctx); err != nil {
		return err
	}
	defer closing(log, "HTTP", u.http.close)
	server, err := a.startServer(u, log)
	if err != nil {
		return err
	}
	if server != nil {
		defer closing(log, "the server", server.Close)
		tending, stop := context.WithCancel(ctx)
		var tended sync.WaitGroup
		defer tended.Wait()
		defer stop()
		tended.Go(func() { closing(log, "the store's care", func() error { return server.Serve(tending) }) })
	}
	err = a.host(ctx, u, names, server, host.Config{Models: brains, Limits: u.limits, Running: u.running, RunningOf: u.runningOf, Drain: u.drain, MaxQueued: u.maxQueued, Log: log}, seal)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// seal reads the keys that close scoped values; without a file there are none.
func (u *upFlags) seal() (*store.Seal, error) {
	if u.sealKeys == "" {
		return nil, nil
	}
	text, err := os.ReadFile(u.sealKeys)
	if err != nil {
		return nil, fmt.Errorf("--seal-keys: %w", err)
	}
	seal, err := store.ParseSeal(string(text))
	if err != nil {
		return nil, fmt.Errorf("--seal-keys %s: %w", u.sealKeys, err)
	}
	return seal, nil
}

// startServer starts the embedded server, unless another one is to be used.
func (a *app) startServer(u *upFlags, log zerolog.Logger) (*bus.Server, error) {
	if a.url != "" || a.context != "" {
		return nil, nil
	}
	held := &holding{out: logTo(a.stderr)}
	quiet := log.Output(held)
	if log.GetLevel() == zerolog.InfoLevel {
		quiet = quiet.Level(zerolog.WarnLevel) // the server tells much at its start
	}
	cfg := bus.ServerConfig{Store: u.store, Sync: u.sync, ConfigFile: u.config, Log: quiet.With().Str("part", "nats-server").Logger()}
	if u.config == "" {
		cfg.Listen = u.listen
	}
	server, err := bus.StartServer(cfg)
	switch actor.KindOf(err) {
	case "":
		return server, held.release()
	case actor.SchemaViolation:
		return nil, usage(err)
	}
	return nil, &exit{exitFailed, err}
}

// host runs a host until ctx ends or it fails.
func (a *app) host(ctx context.Context, u *upFlags, names subjects.Names, server *bus.Server, cfg host.Config, seal *store.Seal) error {
	member, where := u.member, "store "+u.store
	if member == "" && server != nil {
		member = server.Member()
	}
	if member == "" {
		member = random()
	}
	conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Server: server, Name: "troupe up " + member, Log: cfg.Log})
	if err != nil {
		return err
	}
	defer conn.Close()
	layout := bus.Layout{Names: names, Partitions: u.partitions, Replicas: u.replicas}
	cfg.Member = member
	cfg.Sole = u.member == "" // it is kept in the store, which is locked, or random
	if cfg.Tools, err = toolsOf(u.tools, conn, cfg.Log); err != nil {
		return err
	}
	p, err := startHost(ctx, conn, layout, cfg, seal)
	if err != nil {
		if errors.Is(err, actor.SchemaViolation) {
			return usage(err)
		}
		return err
	}
	at := conn.NC.ConnectedUrlRedacted()
	if server != nil {
		at = server.URL()
	} else {
		where = "member " + member
	}
	err = u.http.serve(p, conn, cfg.Log)
	if err == nil {
		err = a.say("troupe is up: %s, namespace %s, %s%s", at, names.Namespace(), where, u.http.where())
	}
	if err != nil {
		return errors.Join(err, u.http.close(), p.close())
	}
	select {
	case err = <-p.done:
		p.stop()
		return errors.Join(err, u.http.close())
	case <-u.http.done:
	case <-ctx.Done():
	}
	cfg.Log.Info().Msg("stopping")
	return errors.Join(u.http.close(), p.close())
}

// A holding keeps what the server logs until it has started. One that does not start says why in its
// error, and need not say it twice.
type holding struct {
	out io.Writer

	mu       sync.Mutex
	kept     [][]byte
	released bool
}

// Write keeps a line, or writes it.
func (h *holding) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return h.out.Write(line)
	}
	h.kept = append(h.kept, slices.Clone(line))
	return len(line), nil
}

// release writes what was kept.
func (h *holding) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	for _, line := range h.kept {
		if _, err := h.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// logTo writes for people on a terminal, for programs elsewhere.
func logTo(f *os.File) io.Writer {
	if terminal(f) {
		return zerolog.ConsoleWriter{Out: f, TimeFormat: time.TimeOnly}
	}
	return f
}

// closing closes what can only be complained about.
func closing(log zerolog.Logger, what string, shut func() error) {
	if err := shut(); err != nil {
		log.Error().Err(err).Msg(what + " was not closed well")
	}
}

// random is 8 random hex digits.
func random() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// toolsOf makes the registry of the tools that a file lists; without a file there are none.
func toolsOf(path string, conn *bus.Conn, log zerolog.Logger) (*tool.Registry, error) {
	if path == "" {
		return nil, nil
	}
	cfg, err := tool.ReadFile(path)
	if err != nil {
		return nil, usage(err)
	}
	cfg.Requester, cfg.LookupEnv, cfg.Log = conn, os.LookupEnv, log
	return tool.New(cfg)
}
