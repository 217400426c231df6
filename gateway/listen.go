package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// minToken is the shortest token.
const minToken = 16

// ParseToken reads a token from the text of a file: at least 16 characters of printable ASCII without a space, on one
// line. Else it is a schema_violation, which does not tell the text.
func ParseToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	strange := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) < minToken || strings.ContainsFunc(token, strange) {
		return "", &actor.Error{Op: "gateway.ParseToken", Kind: actor.SchemaViolation, Field: "token",
			Err: fmt.Errorf("it has at least %d characters of ASCII, no space, and stands on one line", minToken)}
	}
	return token, nil
}

// Listen opens HOST:PORT; port 0 is any free one. An address that is not loopback is unauthorized without a token,
// also one that stands for all of this machine's, as ":8080" does. One that is none is a schema_violation; one that
// can't be had is a conflict.
func Listen(ctx context.Context, address, token string) (net.Listener, error) {
	refused := func(kind actor.Kind, err error) error {
		return &actor.Error{Op: "gateway.Listen", Kind: kind, Field: "address", Err: err}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, refused(actor.SchemaViolation, err)
	}
	if !at.IP.IsLoopback() && token == "" {
		return nil, refused(actor.Unauthorized, errors.New(address+" is not a loopback address, and needs a token"))
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", at.String()) // what was checked, not what the name may mean a moment later
	if err != nil {
		return nil, refused(actor.Conflict, err)
	}
	return l, nil
}
