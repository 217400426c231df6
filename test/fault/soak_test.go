package fault

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/sweep"
	"github.com/troupehq/troupe/test/history"
)

// A soak is a namespace that works for long while its processes are killed, in rounds. After each round all threads are
// terminated and removed, and what is left is compared with what was left after the first.
//
// TROUPE_SOAK is how long it goes on; without it there are a few short rounds.
type soak struct {
	*scene
	dir    string // of the server's store
	server *process
	steady *process // a host that is never killed: what it leaks shows
	web    string   // where that serves its metrics
	others []*process
	kills  int
	listen string
}

// A measure is what there is once everything is at rest.
type measure struct {
	goroutines, heap float64 // of the steady host
	memory           float64 // that is resident, of the steady host
	server           float64 // memory of the server that is resident; 0: not known
	consumers        int
	bytes            map[string]uint64 // by stream
	disk             int64
}

const (
	soakEvery = 20 * time.Second // between kills
	soakRound = 2 * time.Minute
	removing  = 10 * time.Minute // at most, all threads of a round
)

func TestSoak(t *testing.T) {
	t.Parallel()
	total, round, every := 6*time.Second, 3*time.Second, time.Second
	if text := os.Getenv("TROUPE_SOAK"); text != "" {
		var err error
		if total, err = time.ParseDuration(text); err != nil {
			t.Fatalf("TROUPE_SOAK: %v", err)
		}
		round, every = min(soakRound, total/3), soakEvery
	}
	s := newSoak(t)
	var all []measure
	for end := time.Now().Add(total); len(all) < 2 || time.Now().Before(end); {
		s.round(round, every)
		m := s.measure()
		all = append(all, m)
		t.Logf("round %d, %d kills, %d calls: %s", len(all), s.kills, s.Book.Len(), m)
		if t.Failed() {
			return
		}
	}
	first, last := all[0], all[len(all)-1]
	s.compare(first, last)
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{scene: newScene(t), dir: t.TempDir(), listen: freePort(t)}
	s.server = serverProcess(t, s.dir, s.listen)
	s.server.start()
	if !s.server.awaitUp() {
		t.FailNow()
	}
	host := func(name string, more ...string) *process {
		p := upProcess(t, name, append([]string{"--nats", "nats://" + s.listen, "--member", name, "--max-live", fmt.Sprint(maxLive)}, more...)...)
		p.start()
		return p
	}
	web := freePort(t)
	s.web = "http://" + web + "/metrics"
	s.steady = host("carl", "--http", web)
	s.others = []*process{host("anna"), host("bert")}
	for _, p := range append([]*process{s.steady}, s.others...) {
		if !p.awaitUp() {
			t.FailNow()
		}
	}
	s.connect(s.listen)
	return s
}

// round lets agents work while processes are killed, waits until nothing moves, and removes all threads.
func (s *soak) round(d, every time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	last, give := context.WithCancel(s.t.Context())
	defer give()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(patience, give) })()
	over := make(chan struct{})
	go func() {
		defer close(over)
		plan := history.NewPlan(history.PlanConfig{Seed: s.seed + uint64(s.Book.Len()), Agents: agents, Workers: workersOfAgent})
		crew := history.Crew{Plan: plan, Book: s.Book}
		crew.Work(ctx, last)
	}()
	for pause(ctx, every) {
		s.kill()
	}
	s.server.awaitUp()
	for _, p := range s.others {
		p.awaitUp()
	}
	<-over
	s.quiet()
	s.answered()
	s.remove()
	s.Book.Forget()
}

// quiet waits until nothing moves.
func (s *soak) quiet() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.Rest(ctx, 2*time.Second)
}

// kill kills a host, and every fifth time the server, and starts it again.
func (s *soak) kill() {
	p := s.others[s.kills%len(s.others)]
	if s.kills%5 == 4 {
		p = s.server
	}
	s.kills++
	p.kill()
	pause(context.Background(), s.between(0, time.Second))
	p.start()
}

// answered wants an answer to every call of the round.
func (s *soak) answered() {
	s.t.Helper()
	for n, c := range s.Book.Silent() {
		if n < 4 {
			s.t.Errorf("nobody has answered: %s", c)
		}
	}
}

// remove terminates all threads and removes what is left of them.
func (s *soak) remove() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), removing)
	defer cancel()
	var wg sync.WaitGroup
	places := make(chan struct{}, 16)
	for a := range agents {
		msg, err := s.Book.Ask(ctx, history.AgentID(a), &a2e.ListReq{ParentAgentID: history.AgentID(a)})
		list, ok := msg.(*a2e.ListResp)
		if !ok {
			s.t.Fatalf("list the threads of %s: %v, %v", history.AgentID(a), msg, err)
		}
		for list.Cursor != "" {
			msg, err := s.Book.Ask(ctx, history.AgentID(a), &a2e.ListReq{ParentAgentID: history.AgentID(a), Cursor: list.Cursor})
			more, ok := msg.(*a2e.ListResp)
			if !ok {
				s.t.Fatalf("list the threads of %s: %v, %v", history.AgentID(a), msg, err)
			}
			list.Subagents, list.Cursor = append(list.Subagents, more.Subagents...), more.Cursor
		}
		for _, one := range list.Subagents {
			if one.Status == a2e.Terminated {
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				s.terminate(ctx, history.AgentID(a), one.SubagentID)
			})
		}
	}
	wg.Wait()
	s.quiet()
	file, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	pause(ctx, 1100*time.Millisecond) // older than a second
	out, err := exec.CommandContext(ctx, file, "gc", "--terminated-older-than", "1s", "--nats", "nats://"+s.listen).CombinedOutput()
	if err != nil {
		s.t.Fatalf("gc: %v\n%s", err, out)
	}
	s.sweepLater(ctx)
	left := 0
	for a := range agents {
		entries, err := s.Store.Registry.Tree(ctx, history.AgentID(a))
		if err != nil {
			s.t.Fatal(err)
		}
		left += len(entries)
	}
	if left > 0 {
		s.t.Logf("gc: %s; %d threads are left for the next time", bytes.TrimSpace(out), left)
	}
}

// sweepLater does what gc does a day later: blobs and the records of hosts are kept for so long in any case. By then the
// answers under idempotency keys, which name blobs too, have expired.
func (s *soak) sweepLater(ctx context.Context) {
	s.t.Helper()
	layout, err := s.Conn.Layout(ctx, s.Names)
	if err != nil {
		s.t.Fatal(err)
	}
	keys, err := s.Conn.JS.Stream(ctx, subjects.KVStream(s.Names.KeysBucket()))
	if err == nil {
		err = keys.Purge(ctx)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	later := func() time.Time { return time.Now().Add(sweep.Grace + time.Hour) }
	sweeper, err := sweep.New(sweep.Config{Store: s.Store, Partitions: layout.Partitions, Now: later})
	if err == nil {
		_, err = sweeper.Run(ctx)
	}
	if err != nil {
		s.t.Fatalf("gc, a day later: %v", err)
	}
}

func (s *soak) terminate(ctx context.Context, a, id actor.ID) {
	s.t.Helper()
	if msg, err := s.Book.Ask(ctx, a, &a2e.TerminateReq{SubagentID: id}); err != nil {
		s.t.Errorf("terminate %s: %v, %v", id, msg, err)
	}
}

// measure waits a little, for caches are given up and memory is given back, and measures.
func (s *soak) measure() (m measure) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	streams, err := s.Conn.Streams(ctx, s.Names)
	for n := 0; err == nil && n < 40 && consumers(streams) > lasting; n++ { // those of scans that were cut off go after ten seconds
		pause(ctx, 500*time.Millisecond)
		streams, err = s.Conn.Streams(ctx, s.Names)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	m.consumers = consumers(streams)
	m.bytes = map[string]uint64{}
	for _, one := range streams {
		m.bytes[strings.Replace(one.Name, s.Names.Namespace()+"_", "", 1)] = one.Bytes
	}
	err = filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				m.disk += info.Size()
			}
		}
		return nil // files come and go
	})
	if err != nil {
		s.t.Fatal(err)
	}
	values := s.metrics()
	m.goroutines, m.heap, m.memory = values["go_goroutines"], values["go_memstats_heap_inuse_bytes"], values["process_resident_memory_bytes"]
	m.server = resident(s.server.cmd.Process.Pid)
	return m
}

// lasting is how many consumers there are while nothing happens: one for each partition, and that of jobs that are given up.
const lasting = 9

func consumers(streams []bus.StreamState) (n int) {
	for _, one := range streams {
		n += one.Consumers
	}
	return n
}

// metrics reads the metrics of the steady host.
func (s *soak) metrics() map[string]float64 {
	s.t.Helper()
	resp, err := http.Get(s.web)
	if err != nil {
		s.t.Fatalf("the metrics of %s: %v", s.steady.name, err)
	}
	defer resp.Body.Close()
	values := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = v
		}
	}
	return values
}

// resident is how much memory a process has, 0 where the system does not tell it so.
func resident(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseFloat(fields[1], 64); err == nil {
			return pages * float64(os.Getpagesize())
		}
	}
	return 0
}

const mib = 1 << 20

// compare wants the last measure to be as the first.
func (s *soak) compare(first, last measure) {
	s.t.Helper()
	for _, c := range []struct {
		what         string
		first, last  float64
		times, spare float64
		think        string
	}{
		{"goroutines of the host that was never killed", first.goroutines, last.goroutines, 1.2, 20, "something waits for ever"},
		{"bytes of heap of that host", first.heap, last.heap, 1.5, 24 * mib, "something is kept for every thread or request"},
		{"consumers", float64(first.consumers), float64(last.consumers), 1, 2, "consumers are made and never deleted"},
		{"bytes of journals after gc", float64(first.bytes["journal"]), float64(last.bytes["journal"]), 1.5, mib, "gc leaves what nobody needs"},
		{"bytes of blobs after gc", float64(first.bytes["OBJ_blobs"]), float64(last.bytes["OBJ_blobs"]), 1.5, 4 * mib, "gc leaves what nobody names"},
		{"bytes of scoped values after gc", float64(first.bytes["KV_env"]), float64(last.bytes["KV_env"]), 1.5, mib / 16, "values of requests or threads stay, which may be secrets"},
		{"bytes of mail after gc", float64(first.bytes["mail"]), float64(last.bytes["mail"]), 1.5, mib, "gc leaves what nobody needs"},
		{"bytes of the inbox stream", float64(first.bytes["inbox"]), float64(last.bytes["inbox"]), 1.5, mib, "the inbox is not compacted: some partition does not move its watermark"},
		{"bytes of timers", float64(first.bytes["timer"]), float64(last.bytes["timer"]), 1.5, 2 * mib, "timers of sessions that are over stay for longer than the hour that a fired one does"},
		{"bytes of jobs for workers", float64(first.bytes["work"]), float64(last.bytes["work"]), 1.5, mib / 4, "jobs that are over stay in the queue"},
	} {
		if most := c.first*c.times + c.spare; c.last > most {
			s.t.Errorf("%s: %.0f after the first round, %.0f after the last, want no more than %.0f: %s", c.what, c.first, c.last, most, c.think)
		}
	}
}

// String tells a measure to a reader.
func (m measure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.0f goroutines, heap %.1f MiB, resident %.1f MiB, server %.1f MiB, %d consumers, disk %.1f MiB:",
		m.goroutines, m.heap/mib, m.memory/mib, m.server/mib, m.consumers, float64(m.disk)/mib)
	names := make([]string, 0, len(m.bytes))
	for name := range m.bytes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if n := m.bytes[name]; n >= mib/100 {
			fmt.Fprintf(&b, " %s %.2f", name, float64(n)/mib)
		}
	}
	return b.String()
}
