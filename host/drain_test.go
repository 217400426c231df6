package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

// A fleet is a server with hosts that join and leave. Their model test/held begins steps and ends each when the test says
// so, and notes which member began which.
type fleet struct {
	t      *testing.T
	srv    *natstest.Server
	conn   *bus.Conn
	layout bus.Layout
	store  *store.Store
	c      *client.Client
	free   chan struct{} // closed: steps end
	begun  chan began

	mu   sync.Mutex
	logs map[string]*bytes.Buffer
}

type began struct {
	member string
	thread actor.ID
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	srv := natstest.Start(t)
	f := &fleet{t: t, srv: srv, conn: natstest.Conn(t, srv), free: make(chan struct{}), begun: make(chan began, 1000), logs: map[string]*bytes.Buffer{}}
	var err error
	if f.layout, err = f.conn.Ensure(natstest.Context(t), bus.Layout{Names: natstest.Names(t)}); err != nil {
		t.Fatal(err)
	}
	if f.store, err = store.New(store.Config{NC: f.conn.NC, JS: f.conn.JS, Sender: f.conn, Names: f.layout.Names}); err != nil {
		t.Fatal(err)
	}
	if f.c, err = client.New(client.Config{Conn: f.conn, Names: f.layout.Names, Agent: "parent_1"}); err != nil {
		t.Fatal(err)
	}
	return f
}

// held is the model of a member. A deaf one does not hear that its context has ended.
type held struct {
	f      *fleet
	member string
	deaf   bool
}

// Step implements model.Model.
func (h held) Step(ctx context.Context, r *model.Request) (*model.Response, error) {
	h.f.begun <- began{h.member, r.Thread}
	done := ctx.Done()
	if h.deaf {
		done = nil
	}
	select {
	case <-h.f.free:
		return &model.Response{Result: json.RawMessage(fmt.Sprintf(`{"by":%q}`, h.member)), Done: true}, nil
	case <-done:
		return nil, ctx.Err()
	}
}

// Write keeps what a member logs; its name is in each line.
func (f *fleet) log(member string) *zerolog.Logger {
	log := zerolog.New(zerolog.MultiLevelWriter(writerTo{f, member}, zerolog.NewTestWriter(f.t)))
	return &log
}

type writerTo struct {
	f      *fleet
	member string
}

func (w writerTo) Write(p []byte) (int, error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.f.logs[w.member] == nil {
		w.f.logs[w.member] = &bytes.Buffer{}
	}
	return w.f.logs[w.member].Write(p)
}

func (f *fleet) logged(member string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.logs[member]; b != nil {
		return b.String()
	}
	return ""
}

func (f *fleet) join(member string, drain time.Duration, deaf bool) (stop func()) {
	f.t.Helper()
	models, err := model.New(model.Config{Models: map[string]model.Model{"test/held": held{f, member, deaf}}})
	if err != nil {
		f.t.Fatal(err)
	}
	return joinAs(f.t, natstest.InProcess(f.t, f.srv), f.layout, host.Config{Member: member, Models: models, Drain: drain, Log: *f.log(member)})
}

// spawns makes threads with a task each, and waits until the step of every one has begun.
func (f *fleet) spawns(n int) (ids []actor.ID, by map[actor.ID]string) {
	f.t.Helper()
	ctx := natstest.Context(f.t)
	for i := range n {
		id, err := f.c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: fmt.Sprint("child ", i), Model: "test/held"}})
		if err == nil {
			_, err = f.c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "x"})
		}
		if err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	by = map[actor.ID]string{}
	for range ids {
		b := f.next("a step")
		by[b.thread] = b.member
	}
	return ids, by
}

func (f *fleet) next(what string) began {
	f.t.Helper()
	select {
	case b := <-f.begun:
		return b
	case <-natstest.Context(f.t).Done():
		f.t.Fatalf("%s did not begin in time", what)
		return began{}
	}
}

// owned counts the partitions of a member.
func (f *fleet) owned(member string) int {
	f.t.Helper()
	return natstest.Owned(f.t, f.store, member)
}

func (f *fleet) ends(ids []actor.ID) (by map[actor.ID]string) {
	f.t.Helper()
	by = map[actor.ID]string{}
	for _, id := range ids {
		resp, err := f.c.Await(natstest.Context(f.t), id)
		if err != nil || resp.Status != a2e.Completed {
			f.t.Fatalf("%s ended as %+v, %v; want COMPLETED", id, resp, err)
		}
		var result struct{ By string }
		if err := json.Unmarshal(resp.Result, &result); err != nil {
			f.t.Fatal(err)
		}
		by[id] = result.By
	}
	mailed(natstest.Context(f.t), f.t, f.c, ids)
	return by
}

func begin(f func()) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// A host that has to end gives its partitions back while its steps go on; what they answer counts, and nobody begins them
// again. Threads in its partitions go on at the other.
func TestDrainLendsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.join("one", time.Minute, false)
	ids, by := f.spawns(20)
	defer f.join("two", time.Minute, false)() // it takes its share, and leaves the steps where they are
	more, _ := f.spawns(4)
	stopped := begin(one)
	natstest.Await(t, "the other owns everything while the steps go on", func() bool { return f.owned("two") == f.layout.Partitions })
	select {
	case <-stopped:
		t.Fatal("the host has ended with 20 steps under way, and a minute to drain")
	default:
	}
	late, lateBy := f.spawns(3)
	for id, member := range lateBy {
		if member != "two" {
			t.Errorf("the step of %s, which came later, was begun by %s; that one is leaving", id, member)
		}
	}
	close(f.free)
	<-stopped
	ended := f.ends(slices.Concat(ids, more, late))
	for _, id := range ids {
		if ended[id] != by[id] {
			t.Errorf("the step of %s was begun by %s, and %s has its answer", id, by[id], ended[id])
		}
	}
	if n := len(f.begun); n > 0 {
		t.Errorf("%d steps were begun twice", n)
	}
}

// What is not done in time is given back at once, and done again.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.join("one", 300*time.Millisecond, false)
	ids, _ := f.spawns(6)
	defer f.join("two", time.Minute, false)()
	one()
	again := map[actor.ID]bool{}
	for range ids {
		b := f.next("a step that was given back")
		if b.member != "two" || again[b.thread] {
			t.Errorf("a step of %s was begun by %s; every one has to be begun again by two, once", b.thread, b.member)
		}
		again[b.thread] = true
	}
	close(f.free)
	for id, by := range f.ends(ids) {
		if by != "two" {
			t.Errorf("%s has an answer of %s, which had no time for it", id, by)
		}
	}
}

// The only host of a namespace records what was done in its last moments, and goes on when it is back.
func TestDrainAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.join("one", time.Minute, false)
	ids, _ := f.spawns(5)
	stopped := begin(one)
	natstest.Await(t, "nobody owns anything", func() bool { return f.owned("one") == 0 })
	close(f.free)
	<-stopped
	defer f.join("one", time.Minute, false)()
	f.ends(ids)
	if n := len(f.begun); n > 0 {
		t.Errorf("%d steps that had ended were begun again after the restart", n)
	}
}

// A request that a host is busy with when it has to end is another's: nobody who asks gets to know.
func TestLeavingHostRefusesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	text := []byte(`{"name":"gate","sideA":{"human":true}}`)
	d, err := agent.ParseDefinition(text)
	if err == nil {
		text, err = json.Marshal(d)
	}
	if err == nil {
		_, _, err = f.store.Agents.Apply(natstest.Context(t), "gate", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.join("two", time.Minute, false)()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range 8 {
		c, err := client.New(client.Config{Conn: f.conn, Names: f.layout.Names, Agent: actor.ID(fmt.Sprint("asker_", n))})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				id, err := c.Spawn(natstest.Context(t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "n"}, Definition: "gate"})
				if err == nil {
					_, err = c.Terminate(natstest.Context(t), id)
				}
				if err != nil {
					t.Errorf("a request while hosts come and go: %v", err)
					return
				}
			}
		})
	}
	for range 8 {
		f.join("one", time.Minute, false)()
	}
	cancel()
	wg.Wait()
}

// A step that ignores the end of its context holds nobody up: its thread is cancelled at once, it is told of, and the
// host ends without it.
func TestDeafStep(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	defer close(f.free)
	one := f.join("one", 200*time.Millisecond, true)
	ids, _ := f.spawns(2)
	if _, err := f.c.Cancel(natstest.Context(t), ids[0]); err != nil {
		t.Fatalf("cancel a thread whose step is deaf: %v", err)
	}
	if resp, err := f.c.Await(natstest.Context(t), ids[0]); err != nil || resp.Status != a2e.Cancelled {
		t.Errorf("the thread ended as %+v, %v; want CANCELLED", resp, err)
	}
	natstest.Await(t, "the log tells of the step that goes on", func() bool {
		return strings.Contains(f.logged("one"), "keeps its place")
	})
	one()
	text := f.logged("one")
	for _, id := range ids {
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.Contains(line, "left behind") && strings.Contains(line, string(id))
		}) {
			t.Errorf("the log does not say that the step of %s was left behind:\n%s", id, text)
		}
	}
	if f.owned("one") > 0 {
		t.Error("a host that has ended still owns partitions")
	}
}

// A name is one process's as long as that lives.
func TestNameIsTaken(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	stop := f.join("one", 0, false)
	before := f.epochs()
	conn := natstest.InProcess(t, f.srv)
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: f.layout.Names})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Conn: conn, Store: st, Names: f.layout.Names, Partitions: f.layout.Partitions, Member: "one", Version: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	err = h.Serve(natstest.Context(t))
	if actor.KindOf(err) != actor.Conflict || !strings.Contains(err.Error(), "a name of its own") {
		t.Errorf("a second host of the same name ended with %v; want a conflict that says what to do", err)
	}
	if after := f.epochs(); !slices.Equal(before, after) {
		t.Errorf("the epochs of the leases went from %v to %v: a host that was refused has taken some", before, after)
	}
	ids, _ := f.spawns(1)
	close(f.free)
	f.ends(ids)
	stop()
	f.join("one", 0, false)() // free again
}

func (f *fleet) epochs() (all []uint64) {
	f.t.Helper()
	all = make([]uint64, f.layout.Partitions)
	held, err := f.store.Leases.All(natstest.Context(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range held {
		all[l.Partition] = l.Lease.Epoch
	}
	return all
}

// Of many that claim one name at once, one has it.
func TestNameIsClaimedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var ready, refused atomic.Int32
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 4 {
		conn := natstest.InProcess(t, f.srv)
		st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: f.layout.Names})
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(host.Config{Conn: conn, Store: st, Names: f.layout.Names, Partitions: f.layout.Partitions, Member: "one", Version: "0.1.0"})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := h.Serve(ctx); actor.KindOf(err) == actor.Conflict {
				refused.Add(1)
			}
		})
		wg.Go(func() {
			select {
			case <-h.Ready():
				ready.Add(1)
			case <-ctx.Done():
			}
		})
	}
	natstest.Await(t, "one of four has the name and three are refused", func() bool { return ready.Load() == 1 && refused.Load() == 3 })
	cancel()
	wg.Wait()
	if ready.Load() != 1 {
		t.Errorf("%d hosts of one name were ready", ready.Load())
	}
}
