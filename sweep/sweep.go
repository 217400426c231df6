package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// A Config says what to remove. Store and Partitions are required.
type Config struct {
	Store      *store.Store
	Partitions int           // of the namespace
	Older      time.Duration // threads go that were terminated at least so long ago; 0: all terminated ones
	DryRun     bool          // only tell
	Archive    Archive       // gets each thread before it is removed; nil: nobody
	Removed    func(Removed) // is told of each thread, when it is gone or would be, one at a time; nil: nobody
	Now        func() time.Time
}

// A Removed is a thread that was removed.
type Removed struct {
	ID        actor.ID  `json:"id"`
	Parent    actor.ID  `json:"parent_agent_id"`
	Root      actor.ID  `json:"root_agent_id"`
	UpdatedAt time.Time `json:"updated_at"` // when it was terminated
}

// A Report says what a run did, or would do.
type Report struct {
	Threads int         `json:"threads"` // removed
	Kept    int         `json:"kept"`    // as old and terminated, but threads below them stay
	Busy    int         `json:"busy"`    // that a later run will remove: their last records may have to be sent again
	Marks   int         `json:"marks"`   // of threads that earlier runs removed
	Records int         `json:"records"` // of hosts of trees, which the hosts no longer need
	Swept   store.Swept `json:"swept"`
}

// A Sweeper makes one run at a time.
type Sweeper struct{ cfg Config }

// New makes a Sweeper. It asks the server nothing.
func New(cfg Config) (*Sweeper, error) {
	bad := ""
	switch {
	case cfg.Store == nil:
		bad = "store"
	case cfg.Partitions < 1:
		bad = "partitions"
	case cfg.Older < 0:
		bad = "older"
	}
	if bad != "" {
		return nil, &actor.Error{Op: "sweep.New", Kind: actor.SchemaViolation, Field: bad, Err: errors.New("is required, and not below zero")}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Sweeper{cfg}, nil
}

// Run removes threads, then records of hosts, then blobs. A dry run counts the blobs that nothing names now: those of the threads that it would
// remove are not among them.
func (s *Sweeper) Run(ctx context.Context) (Report, error) {
	began := s.cfg.Now()
	r := &run{Config: &s.cfg, cutoff: began.Add(-s.cfg.Older), table: newTable()}
	if err := r.survey(ctx); err != nil {
		return r.report, err
	}
	var err error
	if r.leases, err = r.settled(ctx); err != nil {
		return r.report, err
	}
	for _, generation := range r.table.generations() {
		if err := r.removeAll(ctx, generation); err != nil {
			return r.report, err
		}
	}
	r.report.Kept = r.table.kept()
	if err := r.trimHosts(ctx, began); err != nil {
		return r.report, err
	}
	if err := r.reclaim(ctx, began); err != nil {
		return r.report, err
	}
	if err := r.reclaim(ctx, began); err != nil {
		return r.report, err
	}
	marks, err := s.cfg.Store.Mark(ctx)
	if err != nil {
		return r.report, err
	}
	r.report.Swept, err = s.cfg.Store.Sweep(ctx, marks, began.Add(-store.BlobGrace), s.cfg.DryRun)
	return r.report, err
}

// A run is one run of a Sweeper.
type run struct {
	*Config
	cutoff time.Time
	leases map[int]store.Lease // as they were when the run began
	table  *table
	report Report
}

// survey reads the registry: who is below whom, and who is terminated. Marks of threads that were removed long ago it
// removes.
func (r *run) survey(ctx context.Context) error {
	return r.Store.Registry.Each(ctx, func(e store.Entry, removed time.Time) error {
		if !removed.IsZero() {
			if removed.After(r.cutoff) {
				return nil
			}
			r.report.Marks++
			if r.DryRun {
				return nil
			}
			return r.Store.Registry.Forget(ctx, e.Root, e.Parent, e.Child, e.Rev)
		}
		var entry struct {
			Status    string `json:"status"`
			UpdatedAt int64  `json:"updatedAt"`
		}
		if err := json.Unmarshal(e.Data, &entry); err != nil {
			return &actor.Error{Op: "sweep.Run", ID: e.Child, Kind: actor.RuntimeError, Err: fmt.Errorf("its registry entry: %w", err)}
		}
		r.table.add(e, entry.UpdatedAt, entry.Status == agent.StatusTerminated && !time.UnixMicro(entry.UpdatedAt).After(r.cutoff))
		return nil
	})
}

// settled reads what each partition has settled.
func (r *run) settled(ctx context.Context) (map[int]store.Lease, error) {
	held, err := r.Store.Leases.All(ctx)
	if err != nil {
		return nil, err
	}
	leases := make(map[int]store.Lease, len(held))
	for _, h := range held {
		leases[h.Partition] = h.Lease
	}
	return leases, nil
}

// removeAll removes threads none of which is below another. Of those that turn out to stay, nobody above goes.
func (r *run) removeAll(ctx context.Context, rows []int32) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	work := make(chan int32)
	var workers sync.WaitGroup
	for range min(len(rows), 4*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for row := range work {
				busy, err := r.remove(ctx, &r.table.rows[row])
				mu.Lock()
				switch {
				case err != nil:
					cancel(err)
				case busy:
					r.table.rows[row].busy = true
					r.report.Busy++
				default:
					r.report.Threads++
					r.tell(&r.table.rows[row])
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, row := range rows {
		if r.table.rows[row].stays {
			continue
		}
		select {
		case work <- row:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	workers.Wait()
	for _, row := range rows {
		if r.table.rows[row].busy {
			r.table.stay(row)
		}
	}
	return context.Cause(ctx)
}

func (r *run) tell(row *row) {
	if r.Removed != nil {
		r.Removed(Removed{row.id, row.parent, row.root, time.UnixMicro(row.updated).UTC()})
	}
}

// remove removes one thread. busy means that it must stay for now. A journal that is not there any more was removed by a
// run that ended here.
func (r *run) remove(ctx context.Context, row *row) (busy bool, err error) {
	st, self := r.Store, actor.Address{ID: row.id}
	last, err := st.Journal.Last(ctx, self)
	if err != nil && !errors.Is(err, actor.NotFound) {
		return false, err
	}
	if err == nil {
		standing, busy, err := r.examine(row, last)
		if busy || err != nil || r.DryRun {
			return busy, err
		}
		if r.Archive != nil {
			if err := r.archive(ctx, row, last, standing.Birth); err != nil {
				return false, err
			}
		}
	}
	if r.DryRun {
		return false, nil
	}
	if err := st.RemoveThread(ctx, row.id); err != nil {
		return false, err
	}
	if err := st.Journal.Remove(ctx, self); err != nil {
		return false, err
	}
	if row.id == row.root {
		if err := st.Journal.Remove(ctx, actor.Address{ID: row.id, Host: true}); err != nil {
			return false, err
		}
	}
	_, err = st.Registry.Remove(row.root, row.parent, row.id, row.rev).Wait(ctx)
	if errors.Is(err, actor.Conflict) { // it was written meanwhile: the next run will find it
		return false, nil
	}
	return false, err
}

// examine holds a thread's last record against what the registry says, and against what its partition has settled.
func (r *run) examine(row *row, last store.Message) (agent.Standing, bool, error) {
	record, err := agent.UnpackRecord(last.Data)
	var standing agent.Standing
	if err == nil {
		standing, err = agent.StandingOf(record)
	}
	if err != nil {
		return standing, false, &actor.Error{Op: "sweep.Run", ID: row.id, Kind: actor.KindOf(err), Err: err}
	}
	lease := r.leases[subjects.Partition(row.id, r.Partitions)]
	sent := record.Cursor.Ctl <= lease.Watermark && record.Cursor.Queue <= lease.Watermark
	for _, a := range lease.Stragglers {
		sent = sent && a.ID != row.id
	}
	return standing, !standing.Terminated || time.UnixMicro(standing.UpdatedAt).After(r.cutoff) || !sent, nil
}
