package tool

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
)

// DefaultTimeout is how long a call of an endpoint or of an MCP tool may take, and the start of an MCP server.
const DefaultTimeout = 60 * time.Second

// A Server is an MCP server: a command that is run and spoken to on its standard input and output, or the URL
// of one that speaks streamable HTTP. Its tools are named Name + "_" + their own name, in which an
// underscore stands for every character that is not allowed; two that become one this way are an error, and
// neither can be called.
type Server struct {
	Name string

	// Command is the program and its arguments. Its environment has what Env names and nothing else: an entry is
	// NAME=value, or NAME for the value that [Config.LookupEnv] gives.
	Command []string
	Env     []string
	Dir     string // where it runs; empty: where we run

	// URL is http or https. Headers are sent to its host only; ${NAME} in their values is replaced by what
	// [Config.LookupEnv] gives.
	URL     string
	Headers map[string]string

	Timeout      time.Duration // of a call, with the start that it may have to wait for; 0 is DefaultTimeout
	StartTimeout time.Duration // until the server is ready and has listed its tools; 0 is DefaultTimeout
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s *Server) validate() error {
	bad := func(field, format string, args ...any) error {
		return refuse("tool.New", actor.SchemaViolation, s.Name+"."+field, format, args...)
	}
	switch {
	case (len(s.Command) == 0) == (s.URL == ""):
		return bad("command", "either a command or a URL makes a server")
	case s.URL != "" && (len(s.Env) > 0 || s.Dir != ""):
		return bad("env", "only a command has an environment and a directory")
	case s.URL == "" && len(s.Headers) > 0:
		return bad("headers", "only a URL has headers")
	case s.URL == "" && s.Command[0] == "":
		return bad("command", "the program has no name")
	}
	if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return bad("url", "not an http or https URL") // it may hold a secret, and is not repeated
	}
	if err := validTimeout(s.Name+".timeout", s.Timeout); err != nil {
		return err
	}
	return validTimeout(s.Name+".startTimeout", s.StartTimeout)
}

// validTimeout refuses a time below zero.
func validTimeout(field string, d time.Duration) error {
	if d < 0 {
		return refuse("tool.New", actor.SchemaViolation, field, "%v is below zero", d)
	}
	return nil
}

func orDefault(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultTimeout
	}
	return d
}

// environment gives the variables of a server's process. One that has no value is an error: it would be missed
// later, and then by somebody who does not know of it.
func (s *Server) environment(lookup func(string) (string, bool)) ([]string, error) {
	env := make([]string, 0, len(s.Env)) // never nil: exec takes that for all of ours
	for _, entry := range s.Env {
		name, _, given := strings.Cut(entry, "=")
		if !envName.MatchString(name) {
			return nil, refuse("tool.New", actor.SchemaViolation, s.Name+".env", "%q is not the name of a variable", name)
		}
		if !given {
			value, ok := lookup(name)
			if !ok {
				return nil, refuse("tool.New", actor.SchemaViolation, s.Name+".env", "%s is not set", name)
			}
			entry += "=" + value
		}
		env = append(env, entry)
	}
	return env, nil
}

// header gives the headers of a server's requests.
func (s *Server) header(lookup func(string) (string, bool)) (http.Header, error) {
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		missing := ""
		value := os.Expand(s.Headers[name], func(variable string) string {
			v, ok := lookup(variable)
			if !ok {
				missing = variable
			}
			return v
		})
		if missing != "" {
			return nil, refuse("tool.New", actor.SchemaViolation, s.Name+".headers."+name, "%s is not set", missing)
		}
		h.Set(name, value)
	}
	return h, nil
}

// secrets makes a text that came from a server, or from the way to it, fit to be shown: without the values that
// the server was given, and without the URL, which may hold a password or a key.
func (s *Server) secrets(env []string, h http.Header) *strings.Replacer {
	var pairs []string
	hide := func(value, name string) {
		if len(value) >= 4 { // less would hide words
			pairs = append(pairs, value, name)
		}
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		hide(value, "${"+name+"}")
	}
	for name, values := range h {
		hide(values[0], "(the header "+name+")")
		_, bare, _ := strings.Cut(values[0], " ") // "Bearer …"
		hide(bare, "(the header "+name+")")
	}
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		if u.User != nil {
			pairs = append(pairs, u.User.String()+"@", "", u.User.Username()+":***@", "")
		}
		if path := u.RequestURI(); path != "/" {
			pairs = append(pairs, u.Host+path, u.Host+"/…")
		}
	}
	return strings.NewReplacer(pairs...)
}

// maxMessage is the largest message of a server, which is the SDK's limit where it has one.
const maxMessage = 16 << 20

// errMessage is the end of a session whose server sent more.
var errMessage = fmt.Errorf("a message of more than %d bytes", maxMessage)

// bounded is a response's body that is one message.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errMessage
	}
	return n, err
}

// onlyTo adds headers to requests to one host. It is asked for redirects too, which may lead elsewhere. A response is
// bounded unless it is a stream of messages, which the SDK bounds one by one.
type onlyTo struct {
	scheme, host string
	header       http.Header
	next         http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *onlyTo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == t.scheme && r.URL.Host == t.host {
		r = r.Clone(r.Context())
		maps.Copy(r.Header, t.header)
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, err
}

// httpClient makes the client of a server with a URL. Its connections are its own, and closed with it.
func (s *Server) httpClient(h http.Header) (*http.Client, *http.Transport, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("the URL of %s: not a URL", s.Name)
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: &onlyTo{u.Scheme, u.Host, h, own}}, own, nil
}

// waitFor pauses for d, and reports false when ctx ended first.
func waitFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
