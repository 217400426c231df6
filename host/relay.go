package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupehq/troupe/actor"
)

// relayTime is how long an actor may take to answer what this process asks it in somebody's place.
const relayTime = 10 * time.Second

// relay sends something that is answered on a subject of its own, and waits for the first answer. When none comes the
// Kind is unavailable: whether it was taken is not known.
func (h *Host) relay(ctx context.Context, send func(ctx context.Context, reply string) error) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	answers := make(chan []byte, 1)
	inbox := h.Conn.NewInbox()
	stop, err := h.Conn.Subscribe(inbox, func(_ string, data []byte) {
		select {
		case answers <- slices.Clone(data):
		default: // one that came again
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := send(ctx, inbox); err != nil {
		return nil, err
	}
	select {
	case data := <-answers:
		return data, nil
	case <-ctx.Done():
		return nil, &actor.Error{Op: "host.relay", Kind: actor.Unavailable, Err: errors.New("there was no answer in time")}
	}
}
