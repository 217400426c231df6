package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

const httpToken = "a-token-of-many-letters"

// web gives where an up serves HTTP, "" if it does not say.
func (f *fleet) web() string {
	_, address, ok := strings.Cut(strings.TrimSpace(f.said), "http://")
	if !ok {
		return ""
	}
	return "http://" + address
}

// get asks over HTTP, with a token or none.
func get(t testing.TB, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(natstest.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return resp.StatusCode, string(data)
}

func TestUpServesHTTP(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokens, []byte(httpToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		token string
	}{
		{[]string{"--http", "127.0.0.1:0"}, ""},
		{[]string{"--http", "localhost:0", "--http-token-file", tokens}, httpToken},
	} {
		f := start(t, c.args...)
		web := f.web()
		if !strings.HasPrefix(web, "http://127.0.0.1:") && !strings.HasPrefix(web, "http://[::1]:") {
			t.Fatalf("up said %q, want where it serves HTTP", f.said)
		}
		for path, want := range map[string]struct {
			status int
			word   string
		}{
			"/healthz": {200, "ready"},
			"/metrics": {200, "process_cpu_seconds_total"},
			"/threads/sub_00000000/variables/6f9619ff-8b86-4d01-b42d-00cf4fc964ff": {404, "not_found"},
		} {
			if status, body := get(t, web+path, c.token); status != want.status || !strings.Contains(body, want.word) {
				t.Errorf("%s with %v is answered with %d %.300s, want %d and %q", path, c.args, status, body, want.status, want.word)
			}
			if c.token == "" || path == "/healthz" {
				continue
			}
			if status, body := get(t, web+path, ""); status != 401 {
				t.Errorf("%s without the token is answered with %d %.300s, want 401", path, status, body)
			}
		}
		f.stop()
		if log := f.log.String(); strings.Contains(log, httpToken) || strings.Contains(log, "not closed well") {
			t.Errorf("the log of up: %s", log)
		}
	}
}

func TestUpRefusesHTTP(t *testing.T) {
	t.Parallel()
	f := start(t, "--http", "127.0.0.1:0")
	taken := strings.TrimPrefix(f.web(), "http://")
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "store")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "needs --http-token-file", []string{"--http", "0.0.0.0:0"}},
		{exitUsage, "needs --http-token-file", []string{"--http", ":8080"}},
		{exitUsage, "--http nowhere", []string{"--http", "nowhere"}},
		{exitUsage, "without --http", []string{"--http-token-file", short}},
		{exitUsage, "no such file", []string{"--http", "127.0.0.1:0", "--http-token-file", short + "x"}},
		{exitUsage, "at least 16", []string{"--http", "127.0.0.1:0", "--http-token-file", short}},
		{exitFailed, taken, []string{"--http", taken}},
	} {
		o := troupe(t, append([]string{"up", "--listen", "127.0.0.1:0", "--store", store}, c.args...)...)
		o.fails(t, c.code, c.says)
		if strings.Contains(o.err, "secret") {
			t.Errorf("the token is told: %s", o.err)
		}
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("an up that could not serve HTTP has begun a store: %v", err)
	}
	f.stop()
	if quiet := start(t); quiet.web() != "" {
		t.Errorf("up said %q, want no HTTP where nobody asked for it", quiet.said)
	}
}
