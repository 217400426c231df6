package bus

import (
	"errors"
	"strings"
)

// The reply subject of a delivered message says which one it is. It comes from the server, unlike
// the headers, which a publisher can make up.
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
const ackPrefix = "$JS.ACK."

var errNotDelivery = errors.New("a message that JetStream did not deliver")

// A position says where a message stands.
type position struct {
	stream   uint64 // its sequence in the stream
	consumer uint64 // its number among those that the consumer delivered, without a gap
	time     int64  // when it was stored, in nanoseconds
	pending  uint64 // messages of the consumer behind it
}

// parsePosition reads a reply subject, without garbage.
func parsePosition(reply string) (p position, err error) {
	rest, ok := strings.CutPrefix(reply, ackPrefix)
	if !ok {
		return p, errNotDelivery
	}
	skip := 3 // stream, consumer, delivered
	switch dots := strings.Count(rest, "."); {
	case dots == 6:
	case dots >= 8:
		skip = 5 // domain and account before them
	default:
		return p, errNotDelivery
	}
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	var fields [4]uint64
	for i := range fields {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if fields[i], ok = number(token); !ok {
			return p, errNotDelivery
		}
	}
	return position{stream: fields[0], consumer: fields[1], time: int64(fields[2]), pending: fields[3]}, nil
}

// number reads decimal digits.
func number(s string) (n uint64, ok bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}
