package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A query names one message of a stream: by sequence, as the last of a subject, or as the first of a
// subject from a sequence on. Subjects may have wildcards.
type query struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// stored is a message as the server tells it: nothing of it but Header and Data is the publisher's.
type stored struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	marker  bool      // set where the header came parsed
}

// deleted reports whether the message of a bucket says that its key has no value.
func (m stored) deleted() bool {
	if m.marker {
		return true
	}
	if len(m.Header) == 0 {
		return false
	}
	h, err := nats.DecodeHeadersMsg(m.Header)
	return err == nil && isMarker(h)
}

func isMarker(h nats.Header) bool {
	if h.Get(jetstream.MarkerReasonHeader) != "" {
		return true
	}
	op := h.Get(operationHeader)
	return op == operationDelete || op == operationPurge
}

// Markers of a key-value bucket, as every NATS client writes them.
const (
	operationHeader = "KV-Operation"
	operationDelete = "DEL"
	operationPurge  = "PURGE"
)

const (
	firstTry   = time.Second           // time for one try; after one that was too short the next gets twice as much
	lastTry    = 8 * time.Second       // at most
	retryPause = 50 * time.Millisecond // after an answer that says "not now"
)

// An answer is what the leader of a stream says to either question that we ask.
type answer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *stored             `json:"message"` // to STREAM.MSG.GET
	State   struct {
		Messages int            `json:"messages"`
		First    uint64         `json:"first_seq"`
		Last     uint64         `json:"last_seq"`
		Subjects map[string]int `json:"subjects"`
	} `json:"state"` // to STREAM.INFO
	Total int `json:"total"` // of the subjects, not all of which need be in the answer
}

// get reads one message from the leader, and tries again while nobody answers. "No message" is
// asked for twice: a server that has just closed its files says it too, but the second time it no
// longer knows the stream.
func (s stream) get(ctx context.Context, q query) (stored, error) {
	a, err := s.ask(ctx, "STREAM.MSG.GET.", q)
	if errors.Is(err, errNoMessage) {
		a, err = s.ask(ctx, "STREAM.MSG.GET.", q)
	}
	if err == nil && a.Message == nil {
		err = errors.New("an answer without a message")
	}
	if err != nil {
		return stored{}, err
	}
	return *a.Message, nil
}

// ask puts a question until it is answered or ctx ends. A stream that is not there is not an answer:
// the server may be starting.
func (s stream) ask(ctx context.Context, verb string, question any) (answer, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return answer{}, err
	}
	for limit := firstTry; ; {
		a, err := s.try(ctx, limit, verb, body)
		if err == nil || !again(err) {
			return a, err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			limit = min(2*limit, lastTry)
		} else {
			pause(ctx, retryPause)
		}
		if ctx.Err() != nil {
			return answer{}, &unanswered{s.name, errors.Join(ctx.Err(), err)}
		}
	}
}

func (s stream) try(ctx context.Context, limit time.Duration, verb string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var a answer
	reply, err := s.nc.RequestWithContext(ctx, s.api+verb+s.name, body)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return a, err
	}
	switch {
	case a.Error == nil:
		return a, nil
	case a.Error.ErrorCode == codeNoMessage:
		return a, errNoMessage
	}
	return a, a.Error
}

// again reports whether a read that failed with err may succeed when it is repeated.
func again(err error) bool {
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, context.Canceled) {
		return false
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == codeStreamNotFound || api.Code == 503
	}
	return errors.Is(err, context.DeadlineExceeded) || connectionDown(err)
}
