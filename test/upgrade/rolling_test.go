package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/test/natstest"
)

// patience is how long one thing of the load may take while processes come and go. Machines are shared.
const patience = 90 * time.Second

// A load is work that goes on while processes are replaced. It keeps what each thread was given and has to end as.
type load struct {
	f    *fleet
	ctx  context.Context // ends when no more is to be begun
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	count   int
	threads map[actor.ID]*given
	kinds   map[string]int // how often each kind of work was done
}

// given is what a thread was given.
type given struct {
	sessions uint64
	results  []string // of each session; "" for one that was cancelled
}

// The agents of the load: an assistant that creates a researcher and hears of it, and two sides that talk.
var agents = []string{
	`{"name":"boss","sideA":{"prompt":{"text":"play","model":"builtin/script","metadata":{"script":[
		{"call":"subagent_create","arguments":{"agent":"research","name":"Ada","arguments":{"topic":"a"}}},{"sleep_ms":30},{"result":"$results"}]}},
		"subagents":[{"agent":"researcher","as":"research","blocking":true}]}}`,
	`{"name":"researcher","sideA":{"prompt":{"text":"{{topic}}","model":"builtin/script","metadata":{"script":[{"sleep_ms":40},{"result":"found"}]},
		"requiredSchema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}}}`,
	`{"name":"gate","sideA":{"human":true}}`,
}

func startLoad(f *fleet) *load {
	f.t.Helper()
	l := &load{f: f, threads: map[actor.ID]*given{}, kinds: map[string]int{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	for _, text := range agents {
		d, err := agent.ParseDefinition([]byte(text))
		if err != nil {
			f.t.Fatal(err)
		}
		data, err := json.Marshal(d)
		if err == nil {
			_, _, err = f.store.Agents.Apply(natstest.Context(f.t), d.Name, data)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	for kind, work := range map[string]func(context.Context, string) error{
		"task": l.task, "tasks": l.tasks, "family": l.family, "message": l.message, "cancel": l.cancel, "boss": l.boss, "person": l.person,
	} {
		l.wg.Go(func() { l.keep(kind, work) })
	}
	return l
}

// keep does one kind of work again and again.
func (l *load) keep(kind string, work func(context.Context, string) error) {
	for l.ctx.Err() == nil {
		l.mu.Lock()
		l.count++
		name := fmt.Sprintf("%s-%d", kind, l.count)
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := work(ctx, name)
		cancel()
		if err != nil {
			l.f.t.Errorf("%s: %v", name, err)
			return
		}
		l.mu.Lock()
		l.kinds[kind]++
		l.mu.Unlock()
	}
}

func (l *load) note(id actor.ID, result string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.threads[id]
	if g == nil {
		g = &given{}
		l.threads[id] = g
	}
	g.sessions++
	g.results = append(g.results, result)
}

func (l *load) spawn(ctx context.Context, name, script string) (actor.ID, error) {
	return l.f.c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{
		Name: name, Model: "builtin/script", Capabilities: []string{"tools", "multi_agent"}, Metadata: map[string]json.RawMessage{"script": json.RawMessage(script)},
	}})
}

// ends gives a task and waits for its end, which has to be what it is to be.
func (l *load) ends(ctx context.Context, id actor.ID, want a2e.Status, result string) error {
	resp, err := l.f.c.Await(ctx, id)
	if err != nil {
		return err
	}
	if resp.Status != want || result != "" && string(resp.Result) != result {
		return fmt.Errorf("%s ended %s with %s, want %s with %s", id, resp.Status, resp.Result, want, result)
	}
	l.note(id, string(resp.Result))
	return nil
}

func by(name string) string { return `{"by":"` + name + `"}` }

func (l *load) delegate(ctx context.Context, id actor.ID) error {
	resp, err := l.f.c.Delegate(ctx, id, a2e.TaskDefinition{Name: "t", Instruction: "go"})
	if err == nil && !resp.Accepted {
		err = fmt.Errorf("%s does not take a task: %+v", id, resp)
	}
	return err
}

func (l *load) task(ctx context.Context, name string) error {
	id, err := l.spawn(ctx, name, `[{"progress":"half"},{"sleep_ms":700},{"result":`+by(name)+`}]`)
	if err == nil {
		err = l.delegate(ctx, id)
	}
	if err != nil {
		return err
	}
	return l.ends(ctx, id, a2e.Completed, by(name))
}

// tasks are several, one after the other, of one thread.
func (l *load) tasks(ctx context.Context, name string) error {
	id, err := l.spawn(ctx, name, `[{"say":"1"},{"sleep_ms":50},{"say":"2"},{"result":`+by(name)+`}]`)
	for range 3 {
		if err == nil {
			err = l.delegate(ctx, id)
		}
		if err == nil {
			err = l.ends(ctx, id, a2e.Completed, by(name))
		}
	}
	return err
}

// family is a thread that spawns another by tools, gives it a task and awaits it.
func (l *load) family(ctx context.Context, name string) error {
	id, err := l.spawn(ctx, name, `[{"call":"subagent_spawn","arguments":{"agent":{"name":"child of `+name+`","model":"builtin/script","metadata":{"script":[{"sleep_ms":100},{"result":"child"}]}}}},
		{"call":"subagent_delegate","arguments":{"subagent_id":"$last.subagent_id","task":{"name":"t","instruction":"x"}}},
		{"call":"subagent_await","arguments":{"subagent_id":"$results.0.subagent_id"}},{"result":`+by(name)+`}]`)
	if err == nil {
		err = l.delegate(ctx, id)
	}
	if err != nil {
		return err
	}
	return l.ends(ctx, id, a2e.Completed, by(name))
}

// message is one to a thread at work, which stands in its history.
func (l *load) message(ctx context.Context, name string) error {
	id, err := l.spawn(ctx, name, `[{"sleep_ms":200},{"result":"$inbox"}]`)
	if err == nil {
		err = l.delegate(ctx, id)
	}
	if err == nil {
		_, err = l.f.c.Send(ctx, client.Message{To: id, Type: "note", Content: json.RawMessage(`"hello ` + name + `"`)})
	}
	if err != nil {
		return err
	}
	return l.ends(ctx, id, a2e.Completed, "")
}

func (l *load) cancel(ctx context.Context, name string) error {
	id, err := l.spawn(ctx, name, `[{"sleep_ms":600000}]`)
	if err == nil {
		err = l.delegate(ctx, id)
	}
	if err == nil {
		_, err = l.f.c.Cancel(ctx, id)
	}
	if err != nil {
		return err
	}
	return l.ends(ctx, id, a2e.Cancelled, "")
}

func (l *load) composed(ctx context.Context, name, definition string) (actor.ID, error) {
	c := l.f.c.WithKey(name)
	id, err := c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: name}, Definition: definition})
	for errors.Is(err, actor.Timeout) && ctx.Err() == nil {
		// A host of f04bdcb that has to end says so of what it is busy with. It may be asked again under the same id.
		id, err = c.Spawn(ctx, client.SpawnRequest{Agent: a2e.SubagentConfig{Name: name}, Definition: definition})
	}
	if err == nil {
		err = l.delegate(ctx, id)
	}
	return id, err
}

func (l *load) boss(ctx context.Context, name string) error {
	id, err := l.composed(ctx, name, "boss")
	if err != nil {
		return err
	}
	return l.ends(ctx, id, a2e.Completed, "")
}

// person is a turn that a person answers.
func (l *load) person(ctx context.Context, name string) error {
	id, err := l.composed(ctx, name, "gate")
	if err != nil {
		return err
	}
	for {
		entries, err := l.f.c.Entries(ctx, "")
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.SubagentID == id && e.Awaiting != nil {
				if err := l.f.c.Answer(ctx, e.Awaiting.Request, json.RawMessage(`"`+name+`"`)); err != nil {
					return err
				}
				return l.ends(ctx, id, a2e.Completed, "")
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody was asked: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rounds is how often all are replaced, forth and back.
func rounds(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TROUPE_UPGRADE")
	if text == "" {
		return 0 // once
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("TROUPE_UPGRADE: %v", err)
	}
	return d
}

// Three hosts of the previous version are replaced one by one by this one, under load, and this one by the previous one: nothing
// is lost, nothing comes twice, nobody is stuck, and each reads what the other wrote.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	before, now := program(t, oldProgram), program(t, newProgram)
	f := newFleet(t)
	names := []string{"anna", "bert", "carl"}
	up := func(file, name string) *process {
		return launch(t, file, name, nil, "--nats", f.srv.URL(), "--log-level", "warn", "--max-live", "100000")
	}
	hosts := map[string]*process{}
	for _, name := range names {
		hosts[name] = up(before, name)
	}
	shared := func() {
		natstest.Await(t, "all partitions are owned, and everybody has some", func() bool {
			all := 0
			for _, name := range names {
				n := f.owned(name)
				if n == 0 {
					return false
				}
				all += n
			}
			return all == partitions
		})
	}
	shared()
	l := startLoad(f)
	replace := func(file string) {
		for _, name := range names {
			hosts[name].stop()
			hosts[name] = up(file, name)
			shared()
		}
	}
	for until := time.Now().Add(rounds(t)); ; {
		replace(now)
		replace(before)
		if time.Now().After(until) {
			break
		}
	}
	l.rests()
	l.again("the previous version, after the way back")
	for _, name := range names {
		hosts[name].stop()
	}
	up(now, "dora")
	l.again("this version, after the way forth again")
	l.once()
	l.journals()
}
