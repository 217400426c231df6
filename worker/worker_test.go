package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
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

// A worker that tells how it goes is at work, whichever host its thread is on, and also when the thread has left memory
// meanwhile. One that says nothing has made no progress.
func TestProgressIsASignOfLife(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.JoinHost(t, "second")
	s.serve(worker.Config{Running: 20, Serve: map[string]worker.Func{
		"model/talks": func(ctx context.Context, j *worker.Job) (*worker.Answer, error) {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for range 80 {
				select {
				case <-tick.C:
					j.Progress("still at it")
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &worker.Answer{Response: &work.Response{Done: true, Result: []byte(`{}`)}}, nil
		},
		"model/hangs": func(ctx context.Context, _ *worker.Job) (*worker.Answer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	var ids []string
	for range 12 { // on both hosts
		id := s.spawn(`"model":"worker/talks","idle_timeout_seconds":1`)
		s.delegate(id, `{}`)
		ids = append(ids, id)
	}
	hangs := s.spawn(`"model":"worker/hangs","idle_timeout_seconds":1`)
	s.delegate(hangs, `{}`)
	s.ends(hangs, "FAILED", "no progress for 1s")
	for _, id := range ids {
		s.ends(id, "COMPLETED")
	}
	s.noDeadLetters()
}

// A cap is the process's, whatever it serves; a service may have a lower one. With one place, every service has its turn.
func TestRunningIsOfTheProcess(t *testing.T) {
	t.Parallel()
	for running, of := range map[int]map[string]int{1: nil, 3: {"tool/render": 1}} {
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			t.Parallel()
			s := start(t, host.Config{})
			var all, renders, most, mostRenders atomic.Int32
			raise := func(n int32, top *atomic.Int32) {
				for old := top.Load(); n > old && !top.CompareAndSwap(old, n); old = top.Load() {
				}
			}
			do := func(ctx context.Context, j *worker.Job) (*worker.Answer, error) {
				raise(all.Add(1), &most)
				defer all.Add(-1)
				if j.Service.Name == "render" {
					raise(renders.Add(1), &mostRenders)
					defer renders.Add(-1)
				}
				brief := time.NewTimer(10 * time.Millisecond) // so that they would meet
				defer brief.Stop()
				<-brief.C
				if j.Service.Kind == work.Model {
					return &worker.Answer{Response: &work.Response{Done: true, Result: []byte(`{}`)}}, nil
				}
				return result(`"done"`)
			}
			s.serve(worker.Config{Running: running, RunningOf: of, Serve: map[string]worker.Func{"tool/render": do, "model/a": do, "model/b": do}})
			var ids []string
			for range 5 {
				ids = append(ids, s.calls("render", `{"text":"x"}`))
				for _, model := range []string{"worker/a", "worker/b"} {
					id := s.spawn(`"model":"` + model + `"`)
					s.delegate(id, `{}`)
					ids = append(ids, id)
				}
			}
			for _, id := range ids {
				s.ends(id, "COMPLETED")
			}
			if n := most.Load(); n > int32(running) {
				t.Errorf("%d jobs ran at a time, want %d at most", n, running)
			}
			if n := mostRenders.Load(); of != nil && n > 1 {
				t.Errorf("%d jobs of tool/render ran at a time, want one", n)
			}
		})
	}
}

// A merge asks the caller's model, also one that workers serve, and what it cost is the caller's; "custom:NAME" is a tool
// that workers serve, for a caller that may use it.
func TestMergesByWorkers(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{WorkCheck: 50 * time.Millisecond})
	cost := &work.Usage{InputTokens: 100, OutputTokens: 10}
	s.serve(worker.Config{Running: 3, Backoff: 1, Serve: map[string]worker.Func{
		"model/boss": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
			r := &work.Response{Usage: cost}
			switch last := len(j.Request.History) - 1; {
			case j.Request.Task.Name == "merge" && strings.Contains(j.Request.Task.Instruction, "one"):
				r.Done, r.Result = true, json.RawMessage(`{"output":"both of them"}`)
			case j.Step == 1:
				r.Calls = []work.Call{{ID: "c", Name: "subagent_merge", Arguments: json.RawMessage(j.Request.Task.Instruction)}}
			default:
				r.Done, r.Result = true, j.Request.History[last].Content
			}
			return &worker.Answer{Response: r}, nil
		},
		"tool/combine": func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
			if j.Attempt == 1 {
				return nil, &actor.Error{Kind: actor.Unavailable, Err: errors.New("later")}
			}
			return &worker.Answer{Result: j.Arguments}, nil
		},
	}})
	boss := s.spawn(`"model":"worker/boss","capabilities":["multi_agent","tools"],"tool_scope":"isolated","metadata":{"tools":["combine"]},"budget":{"tokens":1000}`)
	var ids []string
	for _, text := range []string{"one", "two"} {
		answer := s.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_SPAWN_REQ","parent_agent_id":%q,"agent":{"name":%q,"model":"builtin/script"}}`, boss, text))
		var got struct {
			ID string `json:"subagent_id"`
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || got.ID == "" {
			t.Fatalf("not spawned: %s", answer)
		}
		s.delegate(got.ID, fmt.Sprintf(`{"script":[{"result":%q}]}`, text))
		s.ends(got.ID, "COMPLETED")
		ids = append(ids, got.ID)
	}
	merges := func(strategy string, words ...string) {
		t.Helper()
		arguments := fmt.Sprintf(`{"subagent_ids":[%q,%q],"strategy":%q}`, ids[0], ids[1], strategy)
		task := fmt.Sprintf(`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":%q}}`, boss, arguments)
		if answer := s.Ask(t, "me", task); !strings.Contains(answer, `"accepted":true`) {
			t.Fatalf("not accepted: %s", answer)
		}
		s.ends(boss, "COMPLETED", words...)
	}
	merges("hierarchical_summary", `"summary":"both of them"`)
	natstest.Await(t, "what three steps cost, of which one is the merge's", func() bool {
		stored, err := s.Store.Registry.Tree(natstest.Context(t), "me")
		return err == nil && slices.ContainsFunc(stored, func(e store.Entry) bool { return strings.Contains(string(e.Data), `"input_tokens":300`) })
	})
	merges("custom:combine", `"sources":[`, `"name":"one"`, `"output":"two"`)
	merges("custom:hasty", "schema_violation", "custom:hasty")
	s.queueEmpties()
	s.noDeadLetters()
}
