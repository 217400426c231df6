package host

import (
	"context"

	"github.com/troupehq/troupe/store"
)

// cursorMargin is by how much the cursors of actors may be past the watermarks that their leases hold.
const cursorMargin = 1 << 20

// mend looks, before this process takes its first partition, whether the inbox stream ends before what every
// partition has settled. Then a power cut has taken its end, and what would be stored next would be taken for
// settled and never be read: the stream's sequence is moved past all watermarks and cursors.
func (h *Host) mend(ctx context.Context, held map[int]store.Held) error {
	if len(held) < h.Partitions || len(h.ownedNumbers()) > 0 {
		return nil
	}
	low, high := ^uint64(0), uint64(0)
	for _, l := range held {
		low, high = min(low, l.Lease.Watermark), max(high, l.Lease.Watermark)
	}
	end, err := h.Conn.InboxEnd(ctx, h.Names)
	if err != nil || end >= high {
		return err
	}
	log := h.Log.Error().Uint64("end", end).Uint64("settled", high)
	if end > low {
		log.Msg("the inbox has lost its end, and one partition has more to read: messages may be skipped until the stream is as long again")
		return nil
	}
	log.Msg("the inbox has lost its end; it goes on behind what was settled")
	return h.Conn.AdvanceInbox(ctx, h.Names, high+cursorMargin)
}
