package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// The server's error codes that mean something to us. Those of writes are not among them: the errors of the Sender
// have their Kinds already.
const (
	codeNoMessage      jetstream.ErrorCode = 10037
	codeStreamNotFound jetstream.ErrorCode = 10059
	codeNoRoom         jetstream.ErrorCode = 10047 // the server has no more room for streams
	codeConsumerStore  jetstream.ErrorCode = 10104 // what a consumer keeps can't be written
)

// errNoMessage is the leader's answer that no message fits.
var errNoMessage = errors.New("no such message")

// An unanswered error is a read that got no answer in its time.
type unanswered struct {
	stream string
	cause  error // of the last try
}

func (u *unanswered) Error() string {
	return fmt.Sprintf("stream %s did not answer in time: %v", u.stream, u.cause)
}

func (u *unanswered) Unwrap() error { return u.cause }

// fault makes err an *actor.Error. The Kind of an error that has one stays. Without op, err is left
// to somebody who knows what was being done; one of refuse's is then completed.
func fault(op string, id actor.ID, err error) error {
	if err == nil || op == "" {
		return err
	}
	if own, ok := err.(*actor.Error); ok && own.Op == "" {
		return &actor.Error{Op: op, ID: cmp.Or(own.ID, id), Kind: own.Kind, Field: own.Field, Err: own.Err}
	}
	return &actor.Error{Op: op, ID: id, Kind: kindOf(err), Err: err}
}

// refuse says what is wrong, and leaves to fault what was being done, and to whom.
func refuse(kind actor.Kind, field, format string, args ...any) error {
	return &actor.Error{Kind: kind, Field: field, Err: fmt.Errorf(format, args...)}
}

func kindOf(err error) actor.Kind {
	var api *jetstream.APIError
	var silent *unanswered
	var typed *actor.Error
	switch {
	case errors.As(err, &typed):
		return typed.Kind
	case errors.Is(err, errNoMessage):
		return actor.NotFound
	case errors.Is(err, errNoIDs):
		return actor.QuotaExceeded
	case errors.As(err, &silent) && !errors.Is(err, context.Canceled):
		return actor.Unavailable
	case errors.As(err, &api):
		return kindOfAPI(api)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return actor.Timeout
	case connectionDown(err):
		return actor.Unavailable
	}
	return actor.RuntimeError
}

func kindOfAPI(err *jetstream.APIError) actor.Kind {
	switch err.ErrorCode {
	case codeStreamNotFound, codeNoRoom, codeConsumerStore:
		return actor.Unavailable
	}
	if err.Code == 503 {
		return actor.Unavailable
	}
	return actor.RuntimeError
}

// connectionDown reports whether err says that the question did not reach a server that would
// answer, or that the answer did not reach us.
func connectionDown(err error) bool {
	for _, down := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionClosed,
		nats.ErrConnectionReconnecting, nats.ErrConnectionDraining, nats.ErrReconnectBufExceeded,
		nats.ErrInvalidConnection, nats.ErrStaleConnection, nats.ErrNoServers,
	} {
		if errors.Is(err, down) {
			return true
		}
	}
	return false
}

// conflict reports whether err is a failed expectation.
func conflict(err error) bool { return err != nil && kindOf(err) == actor.Conflict }
