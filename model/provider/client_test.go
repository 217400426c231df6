package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/model/price"
	"github.com/troupehq/troupe/model/provider"
	"github.com/troupehq/troupe/test/modeltest"
)

func client(t *testing.T, c provider.Config) *provider.Client {
	t.Helper()
	c.Key = "key-canary-0123456789"
	p, err := provider.New("acme", "ACME_KEY", c)
	if err != nil {
		t.Fatalf("the configuration was refused: %v", err)
	}
	return p
}

// sends gives each try the next of a list of failures, and after them an answer.
func sends(failures ...error) provider.Send {
	try := 0
	return func(context.Context, *provider.Conversation, func(string)) (*provider.Answer, error) {
		if try++; try <= len(failures) {
			return &provider.Answer{Usage: model.Usage{InputTokens: 100}}, failures[try-1]
		}
		return &provider.Answer{Text: "done", Usage: model.Usage{InputTokens: 100, OutputTokens: 10}}, nil
	}
}

func TestWaitsDouble(t *testing.T) {
	t.Parallel()
	c := client(t, provider.Config{Tries: 10})
	var waits []time.Duration
	c.Pauses(func(d time.Duration) { waits = append(waits, d) })
	busy := &provider.Failure{Status: 503}
	resp, err := c.Step(t.Context(), modeltest.Step("acme/x", "Go."), sends(busy, busy, busy, busy, busy, busy, busy, busy))
	if err != nil || resp.Text != "done" {
		t.Fatalf("the ninth try should count, got %+v, %v", resp, err)
	}
	for i, d := range waits {
		most := min(time.Second<<i, time.Minute)
		if d < most/2 || d > most {
			t.Errorf("wait %d should be from half of %v to it, was %v", i+1, most, d)
		}
	}
	if len(waits) != 8 {
		t.Errorf("a wait should come before each further try, there were %d", len(waits))
	}
}

func TestWaitsAsAskedButNotLonger(t *testing.T) {
	t.Parallel()
	c := client(t, provider.Config{})
	var waits []time.Duration
	c.Pauses(func(d time.Duration) { waits = append(waits, d) })
	after := func(d time.Duration) error { return &provider.Failure{Status: 429, After: d} }
	if _, err := c.Step(t.Context(), modeltest.Step("acme/x", "Go."), sends(after(20*time.Second), after(time.Hour))); err != nil {
		t.Fatalf("the third try should count: %v", err)
	}
	if len(waits) != 2 || waits[0] < 20*time.Second || waits[0] > 22*time.Second || waits[1] != time.Minute {
		t.Errorf("want the 20s that were asked for and a little, then the longest of 1m, got %v", waits)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		began := time.Now()
		busy := &provider.Failure{Status: 529, After: time.Minute}
		c := client(t, provider.Config{Tries: 100})
		_, err := c.Step(ctx, modeltest.Step("acme/x", "Go."), sends(busy, busy, busy, busy, busy))
		if !errors.Is(err, context.DeadlineExceeded) || actor.KindOf(err) != actor.Timeout {
			t.Errorf("a wait that its deadline ends is a timeout, got %v", err)
		}
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("it should end at its deadline, took %v", took)
		}
	})
}

func TestTheLastFailureIsTold(t *testing.T) {
	t.Parallel()
	c := client(t, provider.Config{Tries: 2})
	c.Pauses(func(time.Duration) {})
	secret := fmt.Errorf("dial key-canary-0123456789: %w", errors.New("no route"))
	_, err := c.Step(t.Context(), modeltest.Step("acme/x", "Go."), sends(&provider.Failure{Status: 500}, secret))
	want := "acme.Step: sub_00000001: unavailable: dial [key]: no route (tried 2 times)"
	if fmt.Sprint(err) != want {
		t.Errorf("want %q, got %q", want, err)
	}
}

func TestBrokenTriesCost(t *testing.T) {
	t.Parallel()
	prices, err := price.New(price.Config{Prices: map[string]price.Price{"acme/*": {Input: 10_000, Output: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, provider.Config{Prices: prices})
	c.Pauses(func(time.Duration) {})
	resp, err := c.Step(t.Context(), modeltest.Step("acme/x", "Go."), sends(provider.Broken(), provider.Broken()))
	if err != nil {
		t.Fatalf("the third try should count: %v", err)
	}
	if want := (model.Usage{InputTokens: 300, OutputTokens: 10, USD: 3.01}); *resp.Usage != want {
		t.Errorf("what a provider counted before it broke off is paid too\nwant %+v\ngot  %+v", want, *resp.Usage)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "1e300": 24 * time.Hour, "NaN": 0,
		"Wed, 21 Oct 2015 07:28:00 GMT": 0,
	} {
		if got := provider.After(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("Retry-After: %q asks for %v, got %v", value, want, got)
		}
	}
	if got := provider.After(http.Header{"Retry-After-Ms": {"250"}}); got != 250*time.Millisecond {
		t.Errorf("Retry-After-Ms: 250 asks for 250ms, got %v", got)
	}
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := provider.After(http.Header{"Retry-After": {at}}); got <= 0 || got > time.Hour {
		t.Errorf("a time in an hour asks for up to an hour, got %v", got)
	}
}

func TestFailuresReadWell(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"error":{"message":"No.","type":"x"}}`: "the provider answered 400 Bad Request: No.",
		`{"error":"No."}`:                        "the provider answered 400 Bad Request: No.",
		`{"message":"No."}`:                      "the provider answered 400 Bad Request: No.",
		`{"detail":"No."}`:                       "the provider answered 400 Bad Request: No.",
		`No.`:                                    "the provider answered 400 Bad Request: No.",
		`{"error":{"type":"bad_thing"}}`:         `the provider answered 400 Bad Request: {"error":{"type":"bad_thing"}}`,
		``:                                       "the provider answered 400 Bad Request",
	} {
		if got := provider.Refused(400, http.Header{}, content).Error(); got != want {
			t.Errorf("%s\nwant %s\ngot  %s", content, want, got)
		}
	}
	if got := provider.Refused(500, http.Header{}, strings.Repeat("ä", 5000)).Error(); len(got) > 2100 {
		t.Errorf("a page for an answer is cut, this has %d bytes", len(got))
	}
}

// What the provider told of tries that failed is told beside the error of the step, by the prices of each try.
func TestFailedStepsCost(t *testing.T) {
	t.Parallel()
	prices, err := price.New(price.Config{Prices: map[string]price.Price{"acme/x": {Input: 1e6, Output: 1e6}}})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, provider.Config{Tries: 2, Prices: prices})
	c.Pauses(func(time.Duration) {})
	busy := &provider.Failure{Status: 503}
	resp, err := c.Step(t.Context(), modeltest.Step("acme/x", "Go."), sends(busy, busy))
	if actor.KindOf(err) != actor.Unavailable || resp == nil || resp.Usage == nil || *resp.Usage != (model.Usage{InputTokens: 200, USD: 200}) {
		t.Errorf("two tries of 100 tokens failed with %v and told %+v, want both beside the error", err, resp)
	}
	ctx, cancel := context.WithCancel(t.Context())
	resp, err = c.Step(ctx, modeltest.Step("acme/x", "Go."), func(context.Context, *provider.Conversation, func(string)) (*provider.Answer, error) {
		cancel()
		return &provider.Answer{Usage: model.Usage{InputTokens: 70, OutputTokens: 3}}, context.Canceled
	})
	if err == nil || resp == nil || resp.Usage == nil || resp.Usage.InputTokens != 70 || resp.Usage.OutputTokens != 3 {
		t.Errorf("a step that is broken off told %+v beside %v, want what the stream said by then", resp, err)
	}
	resp, err = c.Step(ctx, modeltest.Step("acme/x", "Go."), sends())
	if err == nil || resp != nil {
		t.Errorf("nothing was told of a step that never began, and it cost %+v", resp)
	}
}

// An address with a secret in it is refused and never repeated.
func TestAddressesAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://user:canary-0815@host/v1", "https://host/v1?key=canary-0815", "https://host/v1#canary-0815", "canary-0815://host", "https://ho st/canary-0815\x7f"} {
		_, err := provider.New("acme", "ACME_KEY", provider.Config{BaseURL: address})
		if actor.KindOf(err) != actor.SchemaViolation || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want a refusal that does not repeat it", address, err)
		}
	}
}
