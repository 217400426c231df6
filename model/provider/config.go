package provider

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model/price"
)

// The defaults of a Config.
const (
	DefaultTries   = 6
	DefaultBackoff = time.Second
	DefaultMaxWait = time.Minute
	DefaultIdle    = time.Minute
	DefaultFirst   = 10 * time.Minute
)

// A Config says how a provider is called. Zero fields mean the defaults.
type Config struct {
	// Key is the provider's API key. Without one every step fails, unless BaseURL names a server that may
	// need none.
	Key string

	// BaseURL is where the API is, as the provider's SDK takes it: https://api.anthropic.com,
	// http://127.0.0.1:11434/v1. Default: the provider's own.
	BaseURL string

	// MaxTokens is the most that a model may answer at once, in tokens, unless its agent's
	// metadata.max_tokens says otherwise. Default: what the provider's package says.
	MaxTokens int64

	Tries   int           // of a step; default 6
	Backoff time.Duration // the wait before the second try; it doubles with each. Default 1s
	MaxWait time.Duration // the longest wait, whatever a provider asks for. Default 1m

	Idle  time.Duration // how long a stream may be silent once it has begun; default 1m
	First time.Duration // how long it may take until it begins, as a model thinks; default 10m

	Prices    *price.Table      // default: the built-in ones
	Transport http.RoundTripper // default: one like http.DefaultTransport
}

// withDefaults checks c and fills it in.
func (c Config) withDefaults(op string) (Config, error) {
	c.Key = strings.TrimSpace(c.Key)
	invalid := func(field string, err error) (Config, error) {
		return c, &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: field, Err: err}
	}
	if strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("key", errors.New("it has characters that no key has"))
	}
	if err := checkURL(c.BaseURL); err != nil {
		return invalid("base_url", err)
	}
	if c.MaxTokens < 0 || c.Tries < 0 || c.Backoff < 0 || c.MaxWait < 0 || c.Idle < 0 || c.First < 0 {
		return invalid("", errors.New("max_tokens, tries and times are not below zero"))
	}
	or(&c.Tries, DefaultTries)
	or(&c.Backoff, DefaultBackoff)
	or(&c.MaxWait, DefaultMaxWait)
	or(&c.Idle, DefaultIdle)
	or(&c.First, DefaultFirst)
	if c.Prices == nil {
		var err error
		if c.Prices, err = price.New(price.Config{}); err != nil {
			return c, err
		}
	}
	if c.Transport == nil {
		c.Transport = transport()
	}
	return c, nil
}

// maxIdle is how many connections to a server are kept for the next step, where one is not enough for all.
const maxIdle = 64

// transport is like http.DefaultTransport, for many steps at once at one server.
func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport // somebody put another one there
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = maxIdle
	return t
}

// or sets what is zero.
func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// checkURL takes the address of an API. It does not repeat it, since it may hold a password.
func checkURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it is not an address such as https://host/path")
	case u.User != nil:
		return errors.New("it has a user or a password in it, which belong into the key")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it has a query or a fragment behind its path, which belong nowhere")
	}
	return nil
}
