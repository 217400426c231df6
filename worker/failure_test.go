package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/worker"
)

// A worker that falls silent loses its job to another within the lease; its own late answer changes nothing.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	id := s.calls("render", `{"text":"x"}`)
	_, lost := s.take(s.taker("tool/render", 5))
	s.serve(worker.Config{Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		return result(fmt.Sprintf(`{"attempt":%d,"same":%v}`, j.Attempt, j.ID == lost.ID))
	})})
	s.ends(id, "COMPLETED", `"attempt":2`, `"same":true`)
	s.answer(lost, `"result":"late"`)
	s.ends(id, "COMPLETED", `"attempt":2`)
	s.queueEmpties()
	s.noDeadLetters()
}

// Answers that come twice, from one worker or two, count once; the worker that has the job then is told to stop.
func TestDuplicateAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	id := s.spawn(`"model":"builtin/script","capabilities":["tools"],"tool_scope":"isolated","metadata":{"tools":["render"]}`)
	s.delegate(id, `{"script":[{"call":"render","arguments":{"text":"a"}},{"call":"render","arguments":{"text":"b"}},{"result":"$results"}]}`)
	taker := s.taker("tool/render", 5)
	taken, first := s.take(taker)
	for i := range 3 {
		s.answer(first, fmt.Sprintf(`"result":"first %d"`, i))
	}
	again, second := s.take(taker)
	if second.ID == first.ID {
		t.Fatalf("the job that was answered is given to a worker again: %s", first.ID)
	}
	s.answer(first, `"error":{"message":"no"}`)
	s.answer(second, `"result":"second"`)
	s.answer(first, `"result":"first again"`)
	if err := again.Done(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	s.ends(id, "COMPLETED", `["first 0","second"]`)
	s.queueEmpties() // also of the first, which its worker never acknowledged
	if err := taken.Done(natstest.Context(t)); err != nil {
		t.Logf("acknowledging what is gone: %v", err)
	}
	s.noDeadLetters()
}

// A job that workers take again and again and never answer is given up; its owner is told.
func TestExhaustedJob(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	id := s.spawn(`"model":"worker/local"`)
	s.delegate(id, `{}`)
	tool := s.calls("render", `{"text":"x"}`)
	ctx, cancel := context.WithCancel(natstest.Context(t))
	defer cancel()
	for _, service := range []string{"model/local", "tool/render"} {
		taker := s.taker(service, 2)
		go func() {
			for {
				if _, err := taker.Take(ctx); err != nil {
					return
				}
			}
		}()
	}
	s.ends(id, "FAILED", "as often as it may be")
	s.ends(tool, "COMPLETED", `"code":"runtime_error"`, "as often as it may be")
	natstest.Await(t, "the owner's mail", func() bool { return s.count(s.Names.MailStream(), s.Names.MailAgent("me")) == 2 })
	s.queueEmpties()
	s.noDeadLetters()
}

// A job that workers acknowledge and never answer is queued again, a few times, and then given up.
func TestAcknowledgedAndForgotten(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{WorkCheck: 50 * time.Millisecond})
	id := s.calls("render", `{"text":"x"}`)
	taker := s.taker("tool/render", 5)
	for n := range 3 {
		taken, job := s.take(taker)
		if job.ID != id+".2" || taken.Attempt != 1 {
			t.Errorf("round %d: job %s at attempt %d", n, job.ID, taken.Attempt)
		}
		if err := taken.Done(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
	}
	s.ends(id, "COMPLETED", `"code":"runtime_error"`, "never answered")
	s.queueEmpties()
}

// A job that stays long with its worker is looked for, and left there.
func TestLongJobIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{WorkCheck: 20 * time.Millisecond})
	finish := make(chan struct{})
	began := make(chan string, 10)
	s.serve(worker.Config{Serve: tools(func(_ context.Context, j *worker.Job) (*worker.Answer, error) {
		began <- j.ID
		<-finish
		return result(`"done"`)
	})})
	fired := make(chan string, 100)
	id := s.calls("render", `{"text":"x"}`)
	stop, err := s.Conn.Subscribe(s.Names.Timer(threadOf(id), "work-2"), func(string, []byte) { fired <- "set" })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 4 { // looked for that often
		s.next(fired, "a timer for the job")
	}
	close(finish)
	s.ends(id, "COMPLETED", `"done"`)
	if len(began) != 1 {
		t.Errorf("the job was done %d times, want once", len(began))
	}
	s.queueEmpties()
}

// What is no answer, or not from whom the job is for, is a dead letter and an event, and crashes nothing. If it says
// which job it is for, that job has failed.
func TestMalformedAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	id := s.calls("render", `{"text":"x"}`)
	told := s.events(id, "dead_letter") // in the thread's own name: whose tree it is in may not be known
	_, job := s.take(s.taker("tool/render", 5))
	thread := threadOf(id)
	render, other := s.Names.Inbox(thread, actor.LaneJob, "tool/render"), s.Names.Inbox(thread, actor.LaneJob, "tool/other")
	garbage := []struct{ subject, text string }{
		{render, `{`}, {render, `[]`}, {render, ``}, {render, `{"v":1,"result":1}`}, {render, `{"v":1,"id":"sub_00000000.2","result":1}`},
		{render, "\xff\xfe"}, {other, fmt.Sprintf(`{"v":1,"id":%q,"result":"forged"}`, job.ID)},
	}
	for _, g := range garbage {
		s.publish(g.subject, g.text)
	}
	late := fmt.Sprintf(`{"v":1,"id":"%s.99","result":"never asked"}`, id)
	s.publish(render, late)
	s.answer(job, `"response":{"text":"I am no model"}`)
	s.ends(id, "COMPLETED", `"code":"runtime_error"`, "can't be used")
	n := len(garbage) + 1
	for range n {
		s.next(told, "an event for each dead letter")
	}
	if dead := s.dead(); dead != uint64(n) {
		t.Errorf("%d dead letters, want %d", dead, n)
	}
	s.queueEmpties()
}

// A result that names a blob which is not there, or somebody else's bucket, is refused.
func TestForgedReference(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	for _, bucket := range []string{"troupe_blobs", "other"} {
		id := s.calls("render", `{"text":"x"}`)
		taken, job := s.take(s.taker("tool/render", 5))
		sum := strings.Repeat("00", 32)
		s.answer(job, fmt.Sprintf(`"result":{"$blob":{"bucket":%q,"name":"sha256-%s","digest":"SHA-256=%s=","size":7}}`, bucket, sum, strings.Repeat("A", 43)))
		if err := taken.Done(natstest.Context(t)); err != nil {
			t.Fatal(err)
		}
		s.ends(id, "COMPLETED", `"code":"runtime_error"`, "can't be used")
	}
}

// The partition moves while a worker has a job: the job is not queued a second time, nobody else gets it, and its
// answer reaches the thread where it is now. So it is whether the old owner goes long after the job was queued or
// right then.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"at once", "later"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			s := start(t, host.Config{})
			stored := make(chan string, 100)
			stop, err := s.Conn.Subscribe(s.Names.WorkFilter(), func(subject string, _ []byte) { stored <- subject })
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			timer := make(chan string, 100)
			id := s.calls("render", `{"text":"x"}`)
			stopTimer, err := s.Conn.Subscribe(s.Names.Timer(threadOf(id), "work-2"), func(string, []byte) { timer <- "set" })
			if err != nil {
				t.Fatal(err)
			}
			defer stopTimer()
			taken, job := s.take(s.taker("tool/render", 5))
			if when == "later" {
				s.next(timer, "the timer of the job, with which this process no longer needs to know of it")
			}
			s.StopHost(t)
			if n := s.queued(); n != 1 {
				t.Errorf("%d jobs are in the queue after the owner left, want 1: it must not withdraw what goes on", n)
			}
			s.StartHost(t)
			if when == "at once" {
				s.next(stored, "the job")
				s.next(stored, "another try to queue it, by the new owner")
			}
			if n := s.queued(); n != 1 {
				t.Errorf("%d jobs are in the queue after the takeover, want 1", n)
			}
			if err := taken.Extend(); err != nil {
				t.Fatal(err)
			}
			s.answer(job, `"result":"from before"`)
			if err := taken.Done(natstest.Context(t)); err != nil {
				t.Fatal(err)
			}
			s.ends(id, "COMPLETED", "from before")
			s.queueEmpties()
			s.noDeadLetters()
		})
	}
}

// Jobs that are cancelled while they are being queued are not left in the queue.
func TestCancelledWhileQueued(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	var all []string
	for range 40 {
		all = append(all, s.spawn(`"model":"worker/local"`))
	}
	for _, id := range all {
		for _, request := range []string{
			`{"type":"SUBAGENT_DELEGATE_REQ","subagent_id":%q,"task":{"name":"t","instruction":"go"}}`, `{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`,
		} {
			if err := s.Conn.Publish(s.Names.A2E("me"), fmt.Appendf(nil, request, id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range all { // one whose cancel came first goes on
		s.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`, id))
	}
	s.queueEmpties()
	s.StopHost(t)
	if n := s.queued(); n > 0 {
		t.Errorf("%d jobs were queued after their end", n)
	}
}

// What looks for blobs that are still named reads the queue beside the workers that take from it.
func TestQueueIsRead(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	for range 40 {
		s.delegate(s.spawn(`"model":"worker/local"`), `{}`)
	}
	natstest.Await(t, "the jobs are queued", func() bool { return s.queued() == 40 })
	s.take(s.taker("model/local", 5))
	if _, err := s.Store.Mark(natstest.Context(t)); err != nil {
		t.Errorf("the queue can't be read: %v", err)
	}
}
