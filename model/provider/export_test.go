package provider

import (
	"context"
	"net/http"
	"time"
)

// Pauses makes c note its waits in place of waiting.
func (c *Client) Pauses(note func(time.Duration)) {
	c.wait = func(ctx context.Context, d time.Duration) error {
		note(d)
		return ctx.Err()
	}
}

// Refused and After are for the tests of failures.
func Refused(status int, h http.Header, content string) *Failure {
	return refused(&http.Response{StatusCode: status, Header: h}, []byte(content))
}

var After = after
