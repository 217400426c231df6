package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// JetStream's error codes that mean something of their own here.
const (
	codeNoPeers          jetstream.ErrorCode = 10005 // too few servers are there yet
	codeNotLeader        jetstream.ErrorCode = 10009 // the cluster can't handle the request now
	codeNoResources      jetstream.ErrorCode = 10023 // the server has no more room for messages
	codeNoRoom           jetstream.ErrorCode = 10047 // nor for streams
	codeMessageTooLarge  jetstream.ErrorCode = 10054
	codeConsumerStore    jetstream.ErrorCode = 10104 // what a consumer keeps can't be written
	codeWrongLast        jetstream.ErrorCode = 10071 // the expected sequence is not the last one
	codeStoreFailed      jetstream.ErrorCode = 10077 // with the reason as text
	codeHeaderTooLarge   jetstream.ErrorCode = 10097
	codeExpectNotReady   jetstream.ErrorCode = 10163 // a write to that subject is under way
	codeWrongLastUnknown jetstream.ErrorCode = 10164 // as codeWrongLast, on a replicated stream
)

// refuse makes an Error of a kind that is known.
func refuse(op string, kind actor.Kind, format string, args ...any) error {
	return &actor.Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// wrap makes an Error of a kind that the cause tells, saying what was being done.
func wrap(op, what string, err error) error {
	if err == nil {
		return nil
	}
	return &actor.Error{Op: op, Kind: kindOf(err), Err: fmt.Errorf("%s: %w", what, err)}
}

// kindOf tells the kind of an error of NATS.
func kindOf(err error) actor.Kind {
	var own *actor.Error
	if errors.As(err, &own) {
		return own.Kind
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return kindOfAPI(api)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, nats.ErrTimeout):
		return actor.Timeout
	case errors.Is(err, nats.ErrMaxPayload):
		return actor.TooLarge
	case errors.Is(err, nats.ErrBadSubject):
		return actor.SchemaViolation
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound),
		errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrKeyNotFound),
		errors.Is(err, jetstream.ErrMsgNotFound):
		return actor.NotFound
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrAsyncPublishTimeout),
		errors.Is(err, jetstream.ErrTooManyStalledMsgs), disconnected(err):
		return actor.Unavailable
	}
	return actor.RuntimeError
}

func kindOfAPI(err *jetstream.APIError) actor.Kind {
	switch err.ErrorCode {
	case codeWrongLast, codeWrongLastUnknown, codeExpectNotReady:
		return actor.Conflict
	case codeMessageTooLarge, codeHeaderTooLarge:
		return actor.TooLarge
	case codeNoPeers, codeNotLeader, codeNoResources, codeNoRoom, codeConsumerStore:
		return actor.Unavailable
	}
	switch err.Code {
	case 404:
		return actor.NotFound
	case 503:
		return actor.Unavailable
	}
	return actor.RuntimeError
}

// disconnected reports whether there was nobody to talk to.
func disconnected(err error) bool {
	for _, target := range []error{
		nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrNoServers, nats.ErrStaleConnection,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// AtLimit reports whether a publish was refused because its stream has reached the limit of bytes or messages that an
// operator has given it. Such an error is unavailable: it passes when something is taken out of the stream.
func AtLimit(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeStoreFailed &&
		(api.Description == "maximum bytes exceeded" || api.Description == "maximum messages exceeded")
}
