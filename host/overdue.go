package host

import (
	"context"
	"time"

	"github.com/troupehq/troupe/bus"
)

// overdueFrom is for how long a timer must be due that has not fired, for it to be set again.
const overdueFrom = 2 * time.Second

// noteFull notes the time when err says that the server has no room.
func (h *Host) noteFull(err error) {
	if bus.Full(err) {
		h.noRoom.Store(time.Now().UnixMicro())
	}
}

// setOverdue sets the timers again that should have fired and have not: a server that had no room for what they
// fire never tries again. The owner of the first partition looks a while after there was no room, and
// once when it begins to own it.
func (h *Host) setOverdue(ctx context.Context) {
	at := h.noRoom.Load()
	if p := h.partition(0); p == nil || at == 0 || time.Since(time.UnixMicro(at)) < 2*overdueFrom || !h.noRoom.CompareAndSwap(at, 0) {
		return
	}
	h.background.Go(func() {
		n, err := h.timers.SetOverdue(ctx, time.Now().Add(-overdueFrom))
		if err != nil && ctx.Err() == nil {
			h.noRoom.CompareAndSwap(0, at)
			h.Log.Warn().Err(err).Msg("overdue timers were not set again: will try again")
		}
		if n > 0 {
			h.noRoom.Store(time.Now().UnixMicro()) // once more, until there are none
			h.Log.Warn().Int("timers", n).Msg("overdue timers were set again")
		}
	})
}
