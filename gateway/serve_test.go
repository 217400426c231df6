package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/test/natstest"
)

func TestNewWantsWhatItNeeds(t *testing.T) {
	t.Parallel()
	for _, cfg := range []gateway.Config{{}, {Booter: newRuntime()}, {Ready: func() error { return nil }}} {
		if _, err := gateway.New(cfg); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%+v: %v, want a schema_violation", cfg, err)
		}
	}
}

// A Serve that is told to stop takes no more, and finishes what it has begun.
func TestServeFinishesWhatItHasBegun(t *testing.T) {
	t.Parallel()
	r := newRuntime()
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.hold = func(context.Context) { close(begun); <-goOn }
	d := newDesk(t, r, nil)
	l := listen(t, "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan int, 1)
	go func() { served <- d.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + l.Addr().String()
	send := func(method, at, body string) int {
		req, err := http.NewRequestWithContext(natstest.Context(t), method, url+at, strings.NewReader(body))
		if err != nil {
			return 0
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	go func() { answered <- send("POST", path, both) }()
	await(t, "the boot", begun)
	stop()
	natstest.Await(t, "the listener to be closed", func() bool { return send("GET", "/healthz", "") == 0 })
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v while a request was under way", err)
	default:
	}
	close(goOn)
	if status := await(t, "the answer", answered); status != 201 {
		t.Errorf("the request that was under way is answered with %d, want 201", status)
	}
	if err := await(t, "the end of Serve", served); err != nil {
		t.Errorf("Serve ended with %v, want nil when its context ends", err)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	l.Close()
	if err := newDesk(t, newRuntime(), nil).Serve(t.Context(), l); !errors.Is(err, actor.RuntimeError) {
		t.Errorf("Serve on a closed listener: %v, want a runtime_error", err)
	}
}

// await takes what must come.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-natstest.Context(t).Done():
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
