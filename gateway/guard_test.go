package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/test/natstest"
)

const token = "0123456789abcdef-token"

func withToken(c *gateway.Config) { c.Token = token }

// discard is where an answer goes that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

func (d *desk) request(ctx context.Context, method, at, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8080"+at, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), func(c *gateway.Config) { withToken(c); c.Metrics = prometheus.NewRegistry() })
	for _, given := range []string{"", token, "Bearer", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "x", "Basic " + token, "Bearer  x " + token} {
		for _, at := range []string{path, "/metrics", "/", "/nothing"} {
			r := d.send("GET", at, "", "Authorization", given)
			r.refuses(401, actor.Unauthorized, "Authorization")
			if r.Header.Get("WWW-Authenticate") != `Bearer realm="troupe"` || strings.Contains(r.body, token) {
				t.Errorf("%q at %s is answered with %v and %s", given, at, r.Header, r.body)
			}
		}
		d.send("POST", path, both, "Authorization", given).refuses(401, actor.Unauthorized)
	}
	d.send("GET", "/healthz", "").is(200, `{"status":"ready"}`)
	for _, given := range []string{"Bearer " + token, "bearer  " + token} {
		if r := d.send("GET", path, "", "Authorization", given, "Host", "troupe.example.com"); r.StatusCode != 200 {
			t.Errorf("with %q: %d %s, want 200", given, r.StatusCode, r.body)
		}
	}
	if d.boots != 0 {
		t.Errorf("%d children were booted without the token", d.boots)
	}
}

// Without a token a page in a browser can do nothing here, and read nothing.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1:8080", "[::]:8080", "localhost.evil.example", ""} {
		d.send("GET", path, "", "Host", host).refuses(403, actor.Unauthorized, "Host")
		d.send("POST", path, both, "Host", host).refuses(403, actor.Unauthorized, "Host")
	}
	for _, host := range []string{"localhost", "LocalHost:8080", "127.0.0.1", "127.9.9.9:1", "[::1]:8080", "[::1]"} {
		if r := d.send("GET", path, "", "Host", host); r.StatusCode != 200 {
			t.Errorf("Host %s is answered with %d %s, want 200", host, r.StatusCode, r.body)
		}
	}
	d.send("POST", path, both, "Sec-Fetch-Site", "cross-site").refuses(403, actor.Unauthorized, "another site")
	d.send("POST", path, both, "Origin", "https://evil.example").refuses(403, actor.Unauthorized, "another site")
	if r := d.send("OPTIONS", path, "", "Origin", "https://evil.example"); r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another site is allowed to ask")
	}
	d.untouched()
}

func TestEveryAnswerIsHardened(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), func(c *gateway.Config) { c.Metrics = prometheus.NewRegistry() })
	for _, r := range []reply{
		d.send("GET", path, ""), d.send("GET", "/nothing", ""), d.send("GET", "/healthz", ""), d.send("GET", "/metrics", ""),
		d.send("GET", path, "", "Host", "evil.example"), d.post("{"), d.send("PUT", path, ""), d.post(both),
	} {
		for header, want := range map[string]string{
			"Cache-Control":           "no-store",
			"X-Content-Type-Options":  "nosniff",
			"X-Frame-Options":         "DENY",
			"Referrer-Policy":         "no-referrer",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
		} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%.80s: %s is %q, want %q", r.what, header, got, want)
			}
		}
		if kind := r.Header.Get("Content-Type"); kind != "application/json" && !strings.HasPrefix(kind, "text/plain; version=") {
			t.Errorf("%.80s: Content-Type is %q", r.what, kind)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	d := newDesk(t, newRuntime(), nil)
	d.send("GET", "/healthz", "").is(200, `{"status":"ready"}`)
	d.ready = errors.New("no connection to the server")
	d.send("GET", "/healthz", "").refuses(503, actor.Unavailable, "no connection to the server")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d := newDesk(t, newRuntime(), func(c *gateway.Config) { c.Metrics = registry })
	r := d.send("GET", "/metrics", "")
	for _, name := range []string{"\ngo_goroutines ", "\nprocess_open_fds "} {
		if r.StatusCode != 200 || !strings.Contains(r.body, name) {
			t.Errorf("/metrics is answered with %d %.200s, want %q in it", r.StatusCode, r.body, name)
		}
	}
	d.send("POST", "/metrics", "{}").refuses(405, actor.InvalidMessage)
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	if got, err := gateway.ParseToken(" " + token + "\r\n"); got != token || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "\n", "fifteen-letters", token + "\n" + token, token + " x", "käääääääääääääse", token + "\x00"} {
		if _, err := gateway.ParseToken(bad); !errors.Is(err, actor.SchemaViolation) || len(bad) > 1 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, want a schema_violation that does not tell it", bad, err)
		}
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]actor.Kind{
		":0": actor.Unauthorized, "0.0.0.0:0": actor.Unauthorized, "[::]:0": actor.Unauthorized, "192.0.2.1:0": actor.Unauthorized,
		"": actor.Unauthorized, "nowhere": actor.SchemaViolation, "127.0.0.1": actor.SchemaViolation, "127.0.0.1:99999": actor.SchemaViolation,
	} {
		l, err := gateway.Listen(natstest.Context(t), address, "")
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
		if l != nil {
			l.Close()
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l := listen(t, address)
		if _, err := gateway.Listen(natstest.Context(t), l.Addr().String(), ""); !errors.Is(err, actor.Conflict) {
			t.Errorf("%s again: %v, want a conflict", l.Addr(), err)
		}
		l.Close()
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := gateway.Listen(natstest.Context(t), address, "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
