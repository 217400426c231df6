package gateway

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

const (
	maxBody   = 1 << 20          // bytes of a request
	maxHeader = 16 << 10         // bytes of its header
	readTime  = 5 * time.Second  // for a request to be sent
	bootTime  = 12 * time.Second // for a child to be booted
	idleTime  = time.Minute      // that a connection may stay without a request
	stopTime  = 20 * time.Second // longer than reading and serving one request takes
)

// A Config says what a Gateway works with. Booter and Ready are required.
type Config struct {
	Booter  Booter
	Ready   func() error        // nil while the host works, else why not
	Metrics prometheus.Gatherer // nil: there is no /metrics
	Token   string              // that requests have to bear; "": none, on loopback
	Log     zerolog.Logger      // the zero Logger writes nothing
}

// A Gateway answers HTTP requests. It is used from any number of goroutines.
type Gateway struct {
	Config
	handler http.Handler
}

// New checks the configuration.
func New(cfg Config) (*Gateway, error) {
	for name, missing := range map[string]bool{"Booter": cfg.Booter == nil, "Ready": cfg.Ready == nil} {
		if missing {
			return nil, &actor.Error{Op: "gateway.New", Kind: actor.SchemaViolation, Field: name, Err: errors.New("is required")}
		}
	}
	g := &Gateway{Config: cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("/threads/{parent}/variables/{request}", g.variables)
	mux.Handle(healthPath, reads(http.HandlerFunc(g.health)))
	if cfg.Metrics != nil {
		mux.Handle("/metrics", reads(promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{})))
	}
	mux.HandleFunc("/", nothingHere)
	g.handler = g.guarded(mux)
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Serve answers what comes in on a listener, which it closes, until ctx ends. It then finishes the requests that it
// has begun, and returns nil. A request that does not come to its end within 20 seconds is an error, a timeout.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	const op = "gateway.Serve"
	srv := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: readTime,
		ReadTimeout:       readTime,
		WriteTimeout:      readTime + bootTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(logged{g.Log}, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return &actor.Error{Op: op, Kind: actor.RuntimeError, Err: err}
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests are cut off: %w", err), srv.Close())
		err = &actor.Error{Op: op, Kind: actor.Timeout, Err: err}
	}
	<-done // that it was closed
	return err
}

// logged is where the HTTP server complains about its clients.
type logged struct{ zerolog.Logger }

// Write logs a line.
func (l logged) Write(line []byte) (int, error) {
	l.Debug().Str("part", "http").Msg(string(line))
	return len(line), nil
}

const healthPath = "/healthz"

// health tells whether the host works.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	if err := g.Ready(); err != nil {
		refuse(w, http.StatusServiceUnavailable, &actor.Error{Kind: actor.Unavailable, Err: err}, nil)
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ready"})
}

// reads lets requests through that change nothing.
func reads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w, r, "GET, HEAD")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func notAllowed(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	refuse(w, http.StatusMethodNotAllowed, because(actor.InvalidMessage, "", "%.16q is not a method here: %s are", r.Method, allowed), nil)
}

func nothingHere(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, because(actor.NotFound, "", "there is nothing under this path"), nil)
}

// because makes an error of what a request did wrong.
func because(kind actor.Kind, field, format string, args ...any) error {
	return &actor.Error{Kind: kind, Field: field, Err: fmt.Errorf(format, args...)}
}
