package main

import (
	"context"
	"errors"
	"os"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
)

// A stage is what a run works with: a connection to where a host runs, elsewhere or in this process.
type stage struct {
	conn    *bus.Conn
	closers []func() error // of what was started for it, in that order
}

// set connects, and starts what is not there. Whatever it returns, close has to follow.
func (s *stage) set(ctx context.Context, a *app, names subjects.Names, r *runFlags, subagents int) error {
	member := random()
	cfg := bus.Config{URL: a.url, Context: a.context, Name: "troupe " + r.name}
	if a.url == "" && a.context == "" {
		server, err := s.server(r.store)
		if err != nil {
			return err
		}
		cfg.Server, member = server, server.Member()
	}
	conn, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	s.conn = conn
	s.closers = append(s.closers, func() error { conn.Close(); return nil })
	if cfg.Server == nil {
		if served, err := served(ctx, conn, names, r.name); served || err != nil {
			return err
		}
	}
	brains, err := models(r.prices)
	if err != nil {
		return err
	}
	limits := host.Limits{MaxDepth: host.DefaultMaxDepth, MaxLive: max(host.DefaultMaxLive, subagents)}
	p, err := startHost(ctx, conn, bus.Layout{Names: names}, host.Config{Member: member, Sole: true, Limits: limits, Models: brains}, nil)
	if err == nil {
		s.closers = append(s.closers, p.close)
	}
	return err
}

// server starts the embedded server, which nobody else can connect to. A store that was not asked for
// is removed in the end.
func (s *stage) server(dir string) (*bus.Server, error) {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "troupe-"); err != nil {
			return nil, failed("make a temporary store: %w", err)
		}
		s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	}
	server, err := bus.StartServer(bus.ServerConfig{Store: dir})
	if err != nil {
		return nil, &exit{exitFailed, err}
	}
	s.closers = append(s.closers, server.Close)
	return server, nil
}

// close ends what set has started, the last first.
func (s *stage) close() error {
	var err error
	for i := len(s.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, s.closers[i]())
	}
	return err
}

// served reports whether a host of the namespace answers.
func served(ctx context.Context, conn *bus.Conn, names subjects.Names, agent string) (bool, error) {
	ask, err := a2e.Encode(&a2e.ListReq{Limit: 1})
	if err != nil {
		return false, err
	}
	if err := subjects.ValidID(actor.ID(agent)); err != nil {
		return false, usage(err)
	}
	_, err = conn.Request(ctx, names.A2E(actor.ID(agent)), ask)
	if errors.Is(err, actor.Unavailable) {
		return false, nil
	}
	return true, err
}
