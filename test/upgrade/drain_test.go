package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// A fleet is a server alone, and a client of whatever hosts there are.
type fleet struct {
	t     *testing.T
	srv   *natstest.Server
	conn  *bus.Conn
	names subjects.Names
	store *store.Store
	c     *client.Client
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	srv := natstest.Start(t)
	names, err := subjects.New("")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, srv: srv, conn: natstest.Conn(t, srv), names: names}
	if f.store, err = store.New(store.Config{NC: f.conn.NC, JS: f.conn.JS, Sender: f.conn, Names: names}); err != nil {
		t.Fatal(err)
	}
	if f.c, err = client.New(client.Config{Conn: f.conn, Names: names, Agent: "cli"}); err != nil {
		t.Fatal(err)
	}
	return f
}

// owned counts the partitions of a member.
func (f *fleet) owned(member string) int {
	f.t.Helper()
	return natstest.Owned(f.t, f.store, member)
}

// partitions is how many a namespace has by default.
const partitions = 8

// A provider is a server of models that answers when the test says so, and counts what it was asked.
type provider struct {
	url string

	mu    sync.Mutex
	asked map[string]int // by the mark in the task
	free  chan struct{}
}

var mark = regexp.MustCompile(`mark-[a-z0-9-]+`)

const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1700000000,"model":"held","choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{asked: map[string]int{}, free: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		p.mu.Lock()
		p.asked[mark.FindString(string(body))]++
		free := p.free
		p.mu.Unlock()
		select {
		case <-free:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk) // whoever asked may be gone
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	p.url = srv.URL + "/v1"
	return p
}

// release lets all answers go, and holds those to come.
func (p *provider) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.free)
	p.free = make(chan struct{})
}

// open lets all answers go, also those to come.
func (p *provider) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.free)
}

// count tells how often each mark was asked for.
func (p *provider) count() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]int{}
	for m, n := range p.asked {
		all[m] = n
	}
	return all
}

// begins spawns threads with a step each that is held, and returns once all are.
func (f *fleet) begins(p *provider, kind string, n int) (marks []string, ids []actor.ID) {
	f.t.Helper()
	ctx := natstest.Context(f.t)
	for i := range n {
		m := fmt.Sprintf("mark-%s-%d", kind, i)
		id, err := f.c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: m, Model: "openai/held"}})
		if err == nil {
			_, err = f.c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: m})
		}
		if err != nil {
			f.t.Fatal(err)
		}
		marks, ids = append(marks, m), append(ids, id)
	}
	natstest.Await(f.t, "every step has begun", func() bool {
		all := p.count()
		return !slices.ContainsFunc(marks, func(m string) bool { return all[m] == 0 })
	})
	return marks, ids
}

func (f *fleet) completes(ids []actor.ID) {
	f.t.Helper()
	for _, id := range ids {
		resp, err := f.c.Await(natstest.Context(f.t), id)
		if err != nil || resp.Status != a2e.Completed {
			f.t.Fatalf("%s ended as %+v, %v; want COMPLETED", id, resp, err)
		}
	}
}

// busy lets short tasks come all the time, until stop; each has to complete.
func (f *fleet) busy() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				id, err := f.c.Spawn(natstest.Context(f.t), client.SpawnRequest{Agent: a2e.SubagentConfig{Name: "short", Model: "builtin/script", Metadata: map[string]json.RawMessage{
					"script": json.RawMessage(`[{"say":"1"},{"sleep_ms":20},{"say":"2"},{"result":1}]`),
				}}})
				if err == nil {
					_, err = f.c.Delegate(natstest.Context(f.t), id, a2e.TaskDefinition{Name: "t", Instruction: "go"})
				}
				var resp *a2e.AwaitResp
				if err == nil {
					resp, err = f.c.Await(natstest.Context(f.t), id)
				}
				if err != nil || resp.Status != a2e.Completed {
					f.t.Errorf("a short task: %+v, %v; want COMPLETED", resp, err)
					return
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		return done
	}
}

// A process that is told to end under load gives its partitions to the other at once, sooner than a killed one loses them.
// Steps that end while it drains count and are taken once; those that do not are taken again.
func TestDrain(t *testing.T) {
	t.Parallel()
	f, p := newFleet(t), newProvider(t)
	env := []string{"OPENAI_BASE_URL=" + p.url, "OPENAI_API_KEY="}
	up := func(name, drain string) *process {
		return launch(t, program(t, newProgram), name, env, "--nats", f.srv.URL(), "--drain", drain, "--log-level", "warn", "--max-live", "100000")
	}
	anna := up("anna", "1m")
	up("bert", "1m")
	natstest.Await(t, "both have their share", func() bool { return f.owned("anna") == partitions/2 && f.owned("bert") == partitions/2 })
	stop := f.busy()
	moved := func(from string) time.Duration {
		began := time.Now()
		natstest.Await(t, "bert owns everything", func() bool { return f.owned("bert") == partitions })
		took := time.Since(began)
		t.Logf("what %s had moved within %v", from, took)
		return took
	}

	marks, ids := f.begins(p, "lent", 12)
	anna.signal(syscall.SIGTERM)
	termed := moved("a process that was told to end")
	more, moreIDs := f.begins(p, "later", 3) // threads go on at the other meanwhile
	if out, err := run("", program(t, newProgram), "members", "--nats", f.srv.URL()); err != nil || !regexp.MustCompile(`anna .* leaving`).MatchString(out) {
		t.Errorf("members does not show that anna is leaving (%v):\n%s", err, out)
	}
	p.release()
	if err := anna.wait(); err != nil {
		t.Fatalf("anna ended with %v", err)
	}
	f.completes(append(ids, moreIDs...))
	for _, m := range append(marks, more...) {
		if n := p.count()[m]; n != 1 {
			t.Errorf("the step of %s was taken %d times, though it ended while its process drained; want once", m, n)
		}
	}

	anna = up("anna", "200ms")
	natstest.Await(t, "anna has its share again", func() bool { return f.owned("anna") == partitions/2 })
	marks, ids = f.begins(p, "cut", 12)
	anna.stop()
	natstest.Await(t, "the steps that were given back are taken again", func() bool {
		again := 0
		for _, m := range marks {
			again += p.count()[m] - 1
		}
		return again > 0
	})
	moved("a process that had no time")
	p.open()
	f.completes(ids)
	once, twice := 0, 0
	for _, m := range marks {
		switch p.count()[m] {
		case 1:
			once++
		case 2:
			twice++
		default:
			t.Errorf("the step of %s was taken %d times", m, p.count()[m])
		}
	}
	if once == 0 || twice == 0 {
		t.Errorf("%d steps were taken once and %d twice; those of the process that ended are to be taken again, and no others", once, twice)
	}

	anna = up("anna", "1m")
	natstest.Await(t, "anna has its share again", func() bool { return f.owned("anna") == partitions/2 })
	anna.signal(syscall.SIGKILL)
	killed := moved("a process that was killed")
	_ = anna.wait() // it was killed
	if termed >= killed {
		t.Errorf("partitions moved within %v after SIGTERM and %v after SIGKILL: leaving has to be faster than dying", termed, killed)
	}
	if done := stop(); done == 0 {
		t.Error("no short task was done meanwhile")
	} else {
		t.Logf("%d short tasks were done meanwhile", done)
	}
}

// The second signal ends a process that drains.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	f, p := newFleet(t), newProvider(t)
	env := []string{"OPENAI_BASE_URL=" + p.url, "OPENAI_API_KEY="}
	anna := launch(t, program(t, newProgram), "anna", env, "--nats", f.srv.URL(), "--drain", "10m")
	_, ids := f.begins(p, "held", 2)
	anna.signal(syscall.SIGTERM)
	natstest.Await(t, "anna has given everything back", func() bool { return f.owned("anna") == 0 })
	anna.signal(syscall.SIGTERM)
	if err := anna.wait(); err == nil {
		t.Error("it ended well, with steps under way and ten minutes for them")
	}
	launch(t, program(t, newProgram), "bert", env, "--nats", f.srv.URL())
	natstest.Await(t, "the steps of the process that died are taken again", func() bool {
		all := p.count()
		return all["mark-held-0"] == 2 && all["mark-held-1"] == 2
	})
	p.release()
	f.completes(ids)
}

// A second process under a name that is in use is refused, and says why.
func TestSecondProcessOfAName(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	launch(t, program(t, newProgram), "anna", nil, "--nats", f.srv.URL())
	out, err := run("", program(t, newProgram), "up", "--member", "anna", "--nats", f.srv.URL())
	if err == nil || !regexp.MustCompile(`anna is process \d+ .*give each process a name of its own`).MatchString(err.Error()) {
		t.Errorf("a second process named anna said %q and ended with %v; want to be told that there is one", out, err)
	}
	if n := f.owned("anna"); n != partitions {
		t.Errorf("the first has %d partitions after the second was refused, want %d", n, partitions)
	}
}
