package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/host"
)

// A web is what up serves over HTTP. Without an address it is nothing, and does nothing.
type web struct {
	address, tokenFile string

	token    string
	listener net.Listener
	stop     context.CancelFunc
	done     chan struct{} // closed when the serving has ended; nil while there is none
	err      error         // how it ended
}

func (w *web) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.address, "http", "", "`HOST:PORT` to serve variables, health and metrics at over HTTP, as 127.0.0.1:8080 (default: none)")
	f.StringVar(&w.tokenFile, "http-token-file", "", "a `FILE` with the token that HTTP requests have to bear; needed when --http is not a loopback address")
}

// open listens, so that what is wrong with the flags shows before anything else is done. close has to follow.
func (w *web) open(ctx context.Context) (err error) {
	if w.address == "" {
		if w.tokenFile != "" {
			return usage(errors.New("--http-token-file is of no use without --http"))
		}
		return nil
	}
	if w.token, err = w.readToken(); err != nil {
		return usage(err)
	}
	w.listener, err = gateway.Listen(ctx, w.address, w.token)
	switch actor.KindOf(err) {
	case "":
		return nil
	case actor.Unauthorized:
		return usage(fmt.Errorf("--http %s is not a loopback address: it needs --http-token-file, with a token that requests have to bear", w.address))
	case actor.SchemaViolation:
		return usage(fmt.Errorf("--http %s: %w", w.address, err))
	}
	return fmt.Errorf("--http %s: %w", w.address, err)
}

func (w *web) readToken() (string, error) {
	if w.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(w.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--http-token-file: %w", err)
	}
	token, err := gateway.ParseToken(string(text))
	if err != nil {
		return "", fmt.Errorf("--http-token-file %s: %w", w.tokenFile, err)
	}
	return token, nil
}

// where is what the line that says that up is up has of it.
func (w *web) where() string {
	if w.listener == nil {
		return ""
	}
	return ", http://" + w.listener.Addr().String()
}

// serve serves a host that is ready, until close.
func (w *web) serve(p *process, conn *bus.Conn, log zerolog.Logger) error {
	if w.listener == nil {
		return nil
	}
	metrics := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gateway.NewMetrics(p.host.Stats, fleetOf(p.host)),
	} {
		if err := metrics.Register(c); err != nil {
			return err
		}
	}
	ready := func() error {
		if !conn.NC.IsConnected() {
			return errors.New("there is no connection to the NATS server")
		}
		return nil
	}
	g, err := gateway.New(gateway.Config{Booter: p.host, Ready: ready, Metrics: metrics, Token: w.token, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done = stop, make(chan struct{})
	go func(l net.Listener, done chan struct{}) {
		defer close(done)
		w.err = g.Serve(ctx, l)
	}(w.listener, w.done)
	return nil
}

// close finishes the requests that were begun, and tells how the serving ended. Closing again does nothing.
func (w *web) close() error {
	l, done := w.listener, w.done
	w.listener, w.done = nil, nil
	switch {
	case done != nil:
		w.stop()
		<-done
		return w.err
	case l != nil:
		return l.Close()
	}
	return nil
}

// fleetOf asks how the namespace of a host does.
func fleetOf(h *host.Host) func(context.Context) (gateway.Fleet, error) {
	return func(ctx context.Context) (f gateway.Fleet, err error) {
		f.Dead = h.Names.DeadStream()
		members, err := h.Store.Members.List(ctx)
		if err != nil {
			return f, err
		}
		f.Members = len(members)
		if f.Services, err = h.Conn.Jobs(h.Names).Services(ctx); err != nil {
			return f, err
		}
		f.Streams, err = h.Conn.Streams(ctx, h.Names)
		return f, err
	}
}
