package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/work"
	"github.com/troupehq/troupe/worker"
)

// A tool call goes to a worker and its result comes back; nothing is left in the queue.
func TestToolRoundTrip(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	jobs := make(chan worker.Job, 1)
	s.serve(worker.Config{Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		jobs <- *j
		return result(`{"rendered":true}`)
	})})
	id := s.calls("render", `{"text":"hello"}`)
	s.ends(id, "COMPLETED", `"rendered":true`)
	j := <-jobs
	if string(j.Arguments) != `{"text":"hello"}` || j.Thread != threadOf(id) || j.Session != 1 || j.Step != 1 || j.Call == "" || j.Attempt != 1 || j.Last {
		t.Errorf("the worker was told %+v", j)
	}
	s.queueEmpties()
	s.noDeadLetters()
}

// A model that a worker serves is asked as a local one is, step by step.
func TestModelRoundTrip(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	requests := make(chan *work.Request, 2)
	s.serve(worker.Config{Serve: map[string]worker.Func{"model/local": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		requests <- j.Request
		if j.Step == 1 {
			return &worker.Answer{Response: &work.Response{Text: "I look.", Calls: []work.Call{{ID: "c1", Name: "nothing"}}, Usage: &work.Usage{InputTokens: 3, OutputTokens: 4}}}, nil
		}
		return &worker.Answer{Response: &work.Response{Done: true, Result: []byte(`{"seen":1}`)}}, nil
	}}})
	id := s.spawn(`"model":"worker/local","role":"looks","timeout_seconds":600`)
	s.delegate(id, `{}`)
	s.ends(id, "COMPLETED", `"seen":1`)
	first, second := <-requests, <-requests
	if first.Task == nil || first.Task.Instruction != "go" || first.Config.Role != "looks" || len(first.History) != 1 {
		t.Errorf("the first request is %+v", first)
	}
	var kinds []string
	for _, e := range second.History {
		kinds = append(kinds, e.Kind+" "+e.Role)
	}
	if got := strings.Join(kinds, ", "); got != "task user, say assistant, call assistant, result user" {
		t.Errorf("the history of the second step is %s", got)
	}
	s.queueEmpties()
	s.noDeadLetters()
}

// What a worker says of a failure is read by the model, or ends the session: at once, without another try.
func TestFailureIsTold(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	var calls atomic.Int32
	fails := func(context.Context, *worker.Job) (*worker.Answer, error) {
		calls.Add(1)
		return nil, errors.New("no ink")
	}
	s.serve(worker.Config{Serve: map[string]worker.Func{"tool/render": fails, "model/local": fails}})
	s.ends(s.calls("render", `{"text":"x"}`), "COMPLETED", `"code":"runtime_error"`, "no ink")
	id := s.spawn(`"model":"worker/local"`)
	s.delegate(id, `{}`)
	s.ends(id, "FAILED", "no ink")
	if n := calls.Load(); n != 2 {
		t.Errorf("%d tries, want one for each job", n)
	}
	s.queueEmpties()
}

// Arguments that do not fit never reach a worker, and a tool that the subagent may not use does not either.
func TestRefusedBeforeTheQueue(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.ends(s.calls("render", `{"text":7}`), "COMPLETED", `"code":"schema_violation"`)
	id := s.spawn(`"model":"builtin/script","capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["hasty"]}`)
	s.delegate(id, `{"script":[{"call":"render","arguments":{"text":"x"}},{"result":"$results.0"}]}`)
	s.ends(id, "COMPLETED", `"code":"not_found"`)
	if n := s.queued(); n > 0 {
		t.Errorf("%d jobs were queued that must not be done", n)
	}
}

// A result of any size arrives: inline up to the limit, then by reference, and never cut.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.serve(worker.Config{Serve: map[string]worker.Func{
		"tool/render": func(context.Context, *worker.Job) (*worker.Answer, error) {
			return result(`"` + strings.Repeat("x", 5<<20) + `"`)
		},
		"model/local": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
			size := 0
			for _, e := range j.Request.History {
				size += len(e.Content)
			}
			return &worker.Answer{Response: &work.Response{Done: true, Result: fmt.Appendf(nil, `{"size":%d}`, size)}}, nil
		},
	}})
	s.ends(s.calls("render", `{"text":"x"}`), "COMPLETED", `"$blob"`, fmt.Sprintf(`"size":%d`, 5<<20+len(`{"output":""}`)))

	// Seven messages of 100 KiB and one of 300 KiB: the request travels as a blob, the large one by reference.
	id := s.spawn(`"model":"worker/local"`)
	total := 0
	for _, size := range []int{100, 100, 100, 100, 100, 100, 100, 300} {
		text := strings.Repeat("y", size<<10)
		s.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_MESSAGE_REQ","from_subagent_id":"me","to_subagent_id":%q,"message":{"type":"note","content":%q}}`, id, text))
		total += len(text) + 2
	}
	s.delegate(id, `{}`)
	answer := s.ends(id, "COMPLETED")
	var n int
	if _, err := fmt.Sscanf(answer[strings.Index(answer, `"size":`):], `"size":%d`, &n); err != nil || n < total {
		t.Errorf("the model saw %d bytes of history, want %d and the task: %s", n, total, answer)
	}
	s.noDeadLetters()
}

// A cancelled subagent's job is taken out of the queue and its worker stops; what the worker says after that changes
// nothing.
func TestCancelReachesTheWorker(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	began, ended := make(chan struct{}), make(chan error, 1)
	s.serve(worker.Config{Serve: tools(func(ctx context.Context, _ *worker.Job) (*worker.Answer, error) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return result(`"too late"`)
	})})
	id := s.calls("render", `{"text":"x"}`)
	<-began
	s.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`, id))
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "nobody waits") {
			t.Errorf("the job ended because of %v", err)
		}
	case <-natstest.Context(t).Done():
		t.Fatal("the worker was not told that the job is over")
	}
	s.queueEmpties()
	s.publish(s.Names.Inbox(threadOf(id), actor.LaneJob, "tool/render"), fmt.Sprintf(`{"v":1,"id":"%s.2","result":"too late"}`, id))
	s.ends(id, "CANCELLED")
	s.noDeadLetters()
}

// A job that fails at every try is answered after the last, and the owner is told.
func TestPoisonedJob(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	var tries atomic.Int32
	s.serve(worker.Config{MaxDeliver: 3, Backoff: 10 * time.Millisecond, Serve: map[string]worker.Func{
		"model/local": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
			if n := tries.Add(1); int(n) != j.Attempt || j.Last != (n == 3) {
				t.Errorf("try %d is told as attempt %d, last %v", n, j.Attempt, j.Last)
			}
			panic("poison")
		},
	}})
	id := s.spawn(`"model":"worker/local"`)
	s.delegate(id, `{}`)
	s.ends(id, "FAILED", "poison")
	if n := tries.Load(); n != 3 {
		t.Errorf("%d tries, want 3", n)
	}
	natstest.Await(t, "the owner's mail", func() bool {
		return s.count(s.Names.MailStream(), s.Names.MailAgent("me")) == 1
	})
	s.queueEmpties()
}

// A worker that has to go gives back what it can't finish in time, and another has it at once.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	began := make(chan struct{})
	stop := s.serve(worker.Config{AckWait: time.Minute, Drain: -1, Serve: tools(func(ctx context.Context, _ *worker.Job) (*worker.Answer, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	id := s.calls("render", `{"text":"x"}`)
	<-began
	stop()
	s.serve(worker.Config{Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		return result(fmt.Sprintf(`{"attempt":%d}`, j.Attempt))
	})})
	s.ends(id, "COMPLETED", `"attempt":2`) // long before its lease would have ended
}

// A Func that ignores the end of its context does not hold a worker up that has to go: another has the job at once.
func TestDrainLeavesTheDeafBehind(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	began, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	stop := s.serve(worker.Config{AckWait: time.Minute, Drain: -1, Serve: tools(func(context.Context, *worker.Job) (*worker.Answer, error) {
		close(began)
		<-end
		return nil, nil
	})})
	id := s.calls("render", `{"text":"x"}`)
	<-began
	stop()
	s.serve(worker.Config{Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		return result(fmt.Sprintf(`{"attempt":%d}`, j.Attempt))
	})})
	s.ends(id, "COMPLETED", `"attempt":2`)
}

// A worker that has to go finishes what it can.
func TestDrainFinishes(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	began, finish := make(chan struct{}), make(chan struct{})
	stop := s.serve(worker.Config{Serve: tools(func(ctx context.Context, _ *worker.Job) (*worker.Answer, error) {
		close(began)
		select {
		case <-finish:
			return result(`"finished"`)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})})
	id := s.calls("render", `{"text":"x"}`)
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(finish)
	s.ends(id, "COMPLETED", "finished")
	<-stopped
}

// The progress of a job is told to watchers while it runs.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	told := s.events("me", "progress")
	finish := make(chan struct{})
	s.serve(worker.Config{Serve: map[string]worker.Func{"model/local": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		j.Progress("half way")
		<-finish
		return &worker.Answer{Response: &work.Response{Done: true, Result: []byte(`{}`)}}, nil
	}}})
	id := s.spawn(`"model":"worker/local"`)
	s.delegate(id, `{}`)
	event := s.next(told, "the progress")
	for _, want := range []string{`"half way"`, `"session":1`, `"step":1`, id} {
		if !strings.Contains(event, want) {
			t.Errorf("the event is %s, want %s in it", event, want)
		}
	}
	close(finish)
	s.ends(id, "COMPLETED")
	if err := s.Conn.Publish(s.Names.JobProgress(threadOf(id), 1), []byte(`{"progress":"after the end"}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Conn.Publish(s.Names.JobProgress(threadOf(id), 1), []byte(`nonsense`)); err != nil {
		t.Fatal(err)
	}
	s.calls("render", `{"text":"x"}`) // queued after it, by the same connection
	natstest.Await(t, "the job is queued", func() bool { return s.queued() == 1 })
	if len(told) > 0 {
		t.Errorf("of a job that is over was told: %s", <-told)
	}
}

// A call that no worker answers in the tool's time has that as its result, and is no longer in the queue.
func TestToolTimeout(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.ends(s.calls("hasty", `{}`), "COMPLETED", `"code":"timeout"`)
	s.queueEmpties()
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	ok := tools(func(context.Context, *worker.Job) (*worker.Answer, error) { return result("1") })
	for name, cfg := range map[string]worker.Config{
		"no connection": {Names: s.Names, Serve: ok},
		"nothing":       {Conn: s.Conn, Names: s.Names},
		"no namespace":  {Conn: s.Conn, Serve: ok},
		"no service":    {Conn: s.Conn, Names: s.Names, Serve: map[string]worker.Func{"render": ok["tool/render"]}},
		"no function":   {Conn: s.Conn, Names: s.Names, Serve: map[string]worker.Func{"tool/render": nil}},
		"below zero":    {Conn: s.Conn, Names: s.Names, Serve: ok, Running: -1},
	} {
		if _, err := worker.New(cfg); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%s: %v, want a schema_violation", name, err)
		}
	}
}
