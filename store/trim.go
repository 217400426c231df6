package store

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe/actor"
)

// Hosts calls fn with the root of every tree whose host has a journal, and with the number of records in it, and stops
// at fn's error, which it returns as it is. Journals that begin or end meanwhile may be among them or not.
func (j *Journal) Hosts(ctx context.Context, fn func(root actor.ID, records int) error) error {
	const op = "store.Journal.Hosts"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	filter := j.names.JournalFilters()[1]
	for offset := 0; ; {
		page, err := j.log.info(ctx, filter, offset)
		if err != nil {
			return fault(op, "", err)
		}
		for subject, records := range page.State.Subjects {
			a, err := j.names.ParseJournal(subject)
			if err != nil {
				return fault(op, "", err)
			}
			if err := fn(a.ID, records); err != nil {
				return err
			}
		}
		offset += len(page.State.Subjects)
		if len(page.State.Subjects) == 0 || offset >= page.Total {
			return nil
		}
	}
}

// Since gives a sequence that every record stored at t or later has reached, and no record stored before has, by the
// clock of the server, as long as that was not set back.
func (j *Journal) Since(ctx context.Context, t time.Time) (uint64, error) {
	const op = "store.Journal.Since"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	info, err := j.log.info(ctx, "", 0)
	if err != nil {
		return 0, fault(op, "", err)
	}
	low, high := info.State.First, info.State.Last+1 // what is looked for lies in between
	for low < high {
		middle := low + (high-low)/2
		m, err := j.log.get(ctx, query{Seq: middle, Next: ">"})
		switch {
		case errors.Is(err, errNoMessage) || err == nil && (m.Seq >= high || !m.Time.Before(t)):
			high = middle
		case err != nil:
			return 0, fault(op, "", err)
		default:
			low = m.Seq + 1
		}
	}
	return low, nil
}

// Trim removes the records of a's journal below a sequence, the oldest first, and gives their number. upto is a record
// of a's that is there.
func (j *Journal) Trim(ctx context.Context, a actor.Address, below, upto uint64) (removed int, err error) {
	const op = "store.Journal.Trim"
	enough := errors.New("enough")
	for more := true; more; {
		bite, after := 0, below
		err := j.Range(ctx, a, 1, upto, func(m Message) error {
			if m.Seq >= below || bite == purgeBite {
				after = min(m.Seq, below)
				return enough
			}
			bite++
			return nil
		})
		if err != nil && err != enough {
			return removed, err
		}
		if more = bite == purgeBite; bite == 0 {
			return removed, nil
		}
		purged, cancel := within(ctx, callDeadline)
		err = j.log.purge(purged, purge{Filter: j.names.Journal(a), Below: after})
		cancel()
		if err != nil {
			return removed, fault(op, a.ID, err)
		}
		removed += bite
	}
	return removed, nil
}
