package main

import (
	"context"
	"errors"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// names are those of the namespace that was asked for.
func (a *app) names() (subjects.Names, error) {
	names, err := subjects.New(a.namespace)
	if err != nil {
		return names, usage(err)
	}
	return names, nil
}

// asks connects, makes the client and lets the command work with it.
func (a *app) asks(what func(ctx context.Context, c *client.Client, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		names, err := a.names()
		if err != nil {
			return err
		}
		conn, err := connect(ctx, bus.Config{URL: a.url, Context: a.context, Name: "troupe " + a.agent})
		if err != nil {
			return err
		}
		defer conn.Close()
		c, err := newClient(conn, names, a.agent)
		if err != nil {
			return err
		}
		if a.key != "" {
			c = c.WithKey(a.key)
		}
		return what(ctx, c, args)
	}
}

// connect connects. A saved context that does not exist is an error of usage.
func connect(ctx context.Context, cfg bus.Config) (*bus.Conn, error) {
	conn, err := bus.Connect(ctx, cfg)
	if err != nil && cfg.Context != "" {
		for _, text := range []string{"unknown context", "invalid context name"} { // no error values tell
			if strings.Contains(err.Error(), text) {
				return nil, usage(err)
			}
		}
	}
	return conn, err
}

func newClient(conn *bus.Conn, names subjects.Names, agent string) (*client.Client, error) {
	c, err := client.New(client.Config{Conn: conn, Names: names, Agent: actor.ID(agent)})
	if errors.Is(err, actor.SchemaViolation) {
		return nil, usage(err)
	}
	return c, err
}

// A process is a host that runs in this process.
type process struct {
	host *host.Host
	stop context.CancelFunc
	done chan error
}

// startHost lays the namespace out and starts a host on a connection; of cfg it fills in what wires the host to
// them. It returns when the host is ready. The end of ctx stops the waiting, not the host.
func startHost(ctx context.Context, conn *bus.Conn, l bus.Layout, cfg host.Config, seal *store.Seal) (*process, error) {
	layout, err := conn.Ensure(ctx, l)
	if err != nil {
		return nil, err
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: l.Names, Seal: seal})
	if err != nil {
		return nil, err
	}
	cfg.Conn, cfg.Store, cfg.Names, cfg.Partitions, cfg.Version = conn, st, l.Names, layout.Partitions, version
	h, err := host.New(cfg)
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{host: h, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- h.Serve(serving) }()
	select {
	case <-h.Ready():
		return p, nil
	case err = <-p.done:
		stop()
		return nil, err
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), p.close())
	}
}

// close stops the host and waits until it has given back what it owned.
func (p *process) close() error {
	p.stop()
	return <-p.done
}
