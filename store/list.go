package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
)

// A message that is read by its subject costs some 45 µs wherever it stands. A consumer costs some
// 0.12 µs for each message of the bucket, matching or not, and 6 µs for each that matches. So few
// keys are read one by one, which keeps the cost of a small tree that of the tree.
const (
	fewKeys       = 64
	fewKeysIn     = 300 // or one in so many
	readsInFlight = 16
)

// list gives the newest message of every key that matches, without those that are deleted, in the
// order in which they were written. Every key that had a value before the call and still has one is
// among them, as it was at some moment during the call. (With one exception, for lists of many keys
// on a replicated stream: a key that is written twice meanwhile may come as it was before, if the
// consumer sits on a replica that lags and both writes reach it between two deliveries.)
func (b bucket) list(ctx context.Context, filter string) ([]stored, error) {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	filter = b.subject(filter)
	info, err := b.info(ctx, filter, math.MaxInt32) // no subjects, only their number
	if err != nil {
		return nil, err
	}
	found := map[string]stored{}
	if info.Total <= max(fewKeys, info.State.Messages/fewKeysIn) {
		err = b.missing(ctx, filter, found)
	} else {
		err = b.all(ctx, filter, found)
	}
	if err != nil {
		return nil, err
	}
	live := make([]stored, 0, len(found))
	for _, m := range found {
		if !m.deleted() {
			live = append(live, m)
		}
	}
	slices.SortFunc(live, func(x, y stored) int { return cmp.Compare(x.Seq, y.Seq) })
	return live, nil
}

// info asks the leader which subjects match, from the offset-th on, in alphabetical order.
func (s stream) info(ctx context.Context, filter string, offset int) (answer, error) {
	return s.ask(ctx, "STREAM.INFO.", struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset"`
	}{filter, offset})
}

// all reads what matches through a consumer. If messages are still coming when it has caught up, a
// key that was overwritten before it was read may be among them: what was missed then is read from
// the leader, rather than running after the writers.
func (b bucket) all(ctx context.Context, filter string, found map[string]stored) error {
	goal, err := b.get(ctx, query{Last: filter})
	if errors.Is(err, errNoMessage) {
		return nil
	}
	sc := scan{filter, 1, everything, smallMessages}
	for err == nil && sc.from <= goal.Seq {
		err = b.follow(ctx, sc, false, func(m stored, pending uint64) error {
			sc.from = m.Seq + 1
			found[m.Subject] = m
			if m.Seq >= goal.Seq && pending == 0 {
				return errCaughtUp
			}
			return nil
		})
		if !errors.Is(err, errCaughtUp) && !errors.Is(err, errBroken) {
			return err
		}
		var complete bool
		if complete, err = b.complete(ctx, sc); complete {
			return nil
		}
		if sc.from <= goal.Seq {
			pause(ctx, retryPause)
		}
	}
	if err != nil {
		return err
	}
	return b.missing(ctx, filter, found)
}

// complete reports whether the leader has nothing behind what was read. A consumer cannot say that:
// it may sit on a replica that lags, and does not count a message while it moves.
func (b bucket) complete(ctx context.Context, sc scan) (bool, error) {
	last, err := b.get(ctx, query{Last: sc.filter})
	if errors.Is(err, errNoMessage) {
		return true, nil
	}
	return err == nil && last.Seq < sc.from, err
}

// missing reads the keys that match and are not in found.
func (b bucket) missing(ctx context.Context, filter string, found map[string]stored) error {
	var subjects []string
	for offset := 0; ; {
		info, err := b.info(ctx, filter, offset)
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			if _, ok := found[subject]; !ok {
				subjects = append(subjects, subject)
			}
		}
		offset += len(info.State.Subjects)
		if len(info.State.Subjects) == 0 || offset >= info.Total {
			return b.each(ctx, subjects, found)
		}
	}
}

// each reads the last message of every subject, several at a time.
func (b bucket) each(ctx context.Context, subjects []string, found map[string]stored) error {
	ask := make(chan string)
	var mu sync.Mutex
	var failed error
	var readers sync.WaitGroup
	for range min(readsInFlight, len(subjects)) {
		readers.Go(func() {
			for subject := range ask {
				m, err := b.get(ctx, query{Last: subject})
				mu.Lock()
				switch {
				case err == nil:
					found[subject] = m
				case !errors.Is(err, errNoMessage): // it may have aged out meanwhile
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for _, subject := range subjects {
		ask <- subject
	}
	close(ask)
	readers.Wait()
	return failed
}
