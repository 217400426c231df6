package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxAnswer is how many bytes one answer may have. The longest that a model can give are a few MB as a stream.
const maxAnswer = 64 << 20

// maxRefusal is how many bytes of an answer that is an error are read.
const maxRefusal = 1 << 20

// watched makes the HTTP client of a provider. Redirects are not followed: an API has none, and they would
// take the conversation, if not the key, elsewhere.
func watched(next http.RoundTripper, first, idle time.Duration) *http.Client {
	return &http.Client{
		Transport:     &watch{next: next, first: first, idle: idle},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A watch ends calls whose answer does not begin in time, or then falls silent.
type watch struct {
	next        http.RoundTripper
	first, idle time.Duration
}

// RoundTrip makes the call. An answer that is no event stream is a Failure.
func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	b := &body{ctx: ctx, cancel: cancel, idle: w.idle, left: maxAnswer}
	b.timer = time.AfterFunc(w.first, func() {
		cancel(&Failure{Silent: true, Message: fmt.Sprintf("nothing came for %v", w.first)})
	})
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = b.cause(err)
		b.end()
		return nil, err
	}
	b.in, resp.Body = resp.Body, b
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	defer b.Close()
	content, err := io.ReadAll(io.LimitReader(b, maxRefusal))
	switch {
	case resp.StatusCode >= 400:
		return nil, refused(resp, content) // also when it broke off: the status says enough
	case err != nil:
		return nil, err
	}
	return nil, &Failure{Final: true, Message: fmt.Sprintf("%s answers %s with %q and not with an event stream; is the base URL right? It begins: %s",
		req.URL.Host, resp.Status, kind, clip(strings.ToValidUTF8(string(content), ""), 200))}
}

// A body is an answer that is watched while it is read.
type body struct {
	in     io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	left   int
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &Failure{Final: true, Message: "the answer is larger than any answer may be"}
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	if n > 0 && b.timer.Stop() {
		b.timer = time.AfterFunc(b.idle, func() {
			b.cancel(&Failure{Silent: true, Message: fmt.Sprintf("the stream was silent for %v", b.idle)})
		})
	}
	if err != nil && err != io.EOF {
		err = b.cause(err)
	}
	return n, err
}

// cause is why the call was ended here, if it was, else err.
func (b *body) cause(err error) error {
	var f *Failure
	if errors.As(context.Cause(b.ctx), &f) {
		return f
	}
	return err
}

func (b *body) end() {
	b.timer.Stop()
	b.cancel(nil)
}

// Close ends the call.
func (b *body) Close() error {
	b.end()
	return b.in.Close()
}
