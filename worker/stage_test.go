package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/tool"
	"github.com/troupehq/troupe/work"
	"github.com/troupehq/troupe/worker"
)

// mode is the variable that makes this test program one that does jobs: the tests run it as one.
const mode = "TROUPE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(mode) {
	case "":
	case "worker":
		os.Exit(beWorker())
	default:
		os.Exit(beProgram())
	}
	natstest.Main(m)
}

// lease is short enough to wait for, and long enough for a slow machine to extend.
const lease = time.Second

// A stage is a running host whose tools "render" and "hasty" workers serve.
type stage struct {
	*natstest.Troupe
	t *testing.T
}

func start(t *testing.T, cfg host.Config) *stage {
	t.Helper()
	var err error
	cfg.Tools, err = tool.New(tool.Config{Remotes: []tool.Remote{
		{Name: "render", Description: "renders", Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)},
		{Name: "hasty", Timeout: 300 * time.Millisecond},
		{Name: "combine"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &stage{natstest.StartTroupe(t, cfg), t}
}

// serve starts a worker on a connection of its own, and gives what stops it.
func (s *stage) serve(cfg worker.Config) (stop func()) {
	s.t.Helper()
	cfg.Conn, cfg.Names = natstest.InProcess(s.t, s.Server), s.Names
	cfg.Log = zerolog.New(zerolog.NewTestWriter(s.t)).Level(zerolog.WarnLevel)
	if cfg.AckWait == 0 {
		cfg.AckWait = lease
	}
	w, err := worker.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("a worker ended with %v", err)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// taker takes jobs by hand, as a worker of somebody else's would.
func (s *stage) taker(service string, most int) *bus.Taker {
	s.t.Helper()
	of, err := work.ParseService(service)
	if err != nil {
		s.t.Fatal(err)
	}
	taker, err := bus.NewTaker(bus.TakerConfig{Conn: s.Conn, Names: s.Names, Kind: of.Kind, Name: of.Name, AckWait: lease, MaxDeliver: most})
	if err != nil {
		s.t.Fatal(err)
	}
	return taker
}

func (s *stage) take(taker *bus.Taker) (*bus.Taken, *work.Job) {
	s.t.Helper()
	taken, err := taker.Take(natstest.Context(s.t))
	if err != nil {
		s.t.Fatalf("no job came: %v", err)
	}
	job, err := work.DecodeJob(taken.Data)
	if err != nil {
		s.t.Fatalf("what came is not a job: %v\n%s", err, taken.Data)
	}
	return taken, job
}

// answer publishes an answer by hand; text is what stands in it beside version and id.
func (s *stage) answer(job *work.Job, text string) {
	s.t.Helper()
	s.publish(job.Reply, fmt.Sprintf(`{"v":1,"id":%q,%s}`, job.ID, text))
}

func (s *stage) publish(subject, text string) {
	s.t.Helper()
	if _, err := s.Conn.Send(subject, []byte(text)).Wait(natstest.Context(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

// calls has a new subagent call a tool with arguments, and end with what comes of that.
func (s *stage) calls(name, arguments string) (id string) {
	s.t.Helper()
	id = s.spawn(`"model":"builtin/script","capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["render","hasty"]}`)
	s.delegate(id, fmt.Sprintf(`{"script":[{"call":%q,"arguments":%s},{"result":"$results.0"}]}`, name, arguments))
	return id
}

func (s *stage) spawn(fields string) (id string) {
	s.t.Helper()
	answer := s.Ask(s.t, "me", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"child",`+fields+`}}`)
	var got struct {
		ID string `json:"subagent_id"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.ID == "" {
		s.t.Fatalf("not spawned: %s", answer)
	}
	return got.ID
}

func (s *stage) delegate(id, metadata string) {
	s.t.Helper()
	answer := s.Ask(s.t, "me", fmt.Sprintf(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go","metadata":%s}}`, id, metadata))
	if !strings.Contains(answer, `"accepted":true`) {
		s.t.Fatalf("not accepted: %s", answer)
	}
}

// ends waits for a subagent's session to end, and checks its status and that its outcome has some words.
func (s *stage) ends(id, status string, words ...string) string {
	s.t.Helper()
	answer := s.Ask(s.t, "me", fmt.Sprintf(`{"type":"SUBAGENT_AWAIT_REQ","subagent_id":%q}`, id))
	for _, want := range append(words, fmt.Sprintf(`"status":%q`, status)) {
		if !strings.Contains(answer, want) {
			s.t.Errorf("%s ended with %s\nwant %s in it", id, answer, want)
		}
	}
	return answer
}

// count counts the messages of a stream that match.
func (s *stage) count(stream, filter string) (n uint64) {
	s.t.Helper()
	st, err := s.Conn.JS.Stream(natstest.Context(s.t), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := st.Info(natstest.Context(s.t), jetstream.WithSubjectFilter(filter))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, count := range info.State.Subjects {
		n += count
	}
	return n
}

// queued counts the jobs in the queue, those that workers have included.
func (s *stage) queued() uint64 { return s.count(s.Names.WorkStream(), s.Names.WorkFilter()) }

func (s *stage) queueEmpties() {
	s.t.Helper()
	natstest.Await(s.t, "the queue is empty", func() bool { return s.queued() == 0 })
}

func (s *stage) dead() uint64 { return s.count(s.Names.DeadStream(), s.Names.DeadFilter()) }

func (s *stage) noDeadLetters() {
	s.t.Helper()
	if n := s.dead(); n > 0 {
		s.t.Errorf("%d dead letters, want none", n)
	}
}

// events gives the contents of the events of a name, of a tree.
func (s *stage) events(root, name string) <-chan string {
	s.t.Helper()
	got := make(chan string, 1000)
	stop, err := s.Conn.Subscribe(s.Names.EventTree(threadOf(root)), func(subject string, data []byte) {
		if strings.HasSuffix(subject, "."+name) {
			got <- string(data)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stop)
	return got
}

func (s *stage) next(got <-chan string, what string) string {
	s.t.Helper()
	select {
	case text := <-got:
		return text
	case <-natstest.Context(s.t).Done():
		s.t.Fatalf("waited in vain for %s", what)
		return ""
	}
}

func tools(do worker.Func) map[string]worker.Func { return map[string]worker.Func{"tool/render": do} }

func result(text string) (*worker.Answer, error) {
	return &worker.Answer{Result: json.RawMessage(text)}, nil
}

// threadOf is the id as the runtime's code has it.
func threadOf(id string) actor.ID { return actor.ID(id) }
