package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
	"github.com/troupehq/troupe/work"
	"github.com/troupehq/troupe/worker"
)

// beProgram does what the argument "text" of each job says.
func beProgram() int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var job struct {
			ID        string
			Attempt   int
			Arguments struct{ Text string }
		}
		if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
			return 9
		}
		say := func(format string, args ...any) {
			fmt.Printf(`{"id":%q,`+format+"}\n", append([]any{job.ID}, args...)...)
		}
		switch text := job.Arguments.Text; {
		case text == "pid":
			say(`"result":%d`, os.Getpid())
		case text == "die once" && job.Attempt == 1, text == "die":
			fmt.Fprintln(os.Stderr, "I die")
			return 7
		case text == "die once":
			say(`"result":{"attempt":%d}`, job.Attempt)
		case text == "hang":
			child := exec.Command("sleep", "600") // it is to end with its parent
			if child.Start() != nil {
				return 8
			}
			say(`"progress":"%d"`, child.Process.Pid)
			select {}
		case text == "large":
			fmt.Printf(`{"id":%q,"result":"`, job.ID)
			part := bytes.Repeat([]byte("x"), 1<<20)
			for range 65 {
				if _, err := os.Stdout.Write(part); err != nil {
					return 0
				}
			}
			fmt.Println(`"}`)
		case text == "deaf":
			say(`"progress":"%d"`, os.Getpid())
			select {}
		case text == "env":
			env, _ := json.Marshal(os.Environ())
			say(`"result":%s`, env)
		case text == "error":
			say(`"error":"no ink"`)
		case text == "error later" && job.Attempt < 3:
			say(`"error":{"message":"no ink yet","retryable":true}`)
		case text == "error later":
			say(`"result":{"attempt":%d}`, job.Attempt)
		default:
			fmt.Println(strings.ReplaceAll(text, "ID", job.ID))
		}
	}
	return 0
}

func program(t *testing.T, env ...string) *worker.Program {
	t.Helper()
	p, err := worker.NewProgram(worker.ProgramConfig{Command: []string{os.Args[0]}, Env: append(env, mode+"=1")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// does has a program do a job, as a tool's call with a text.
func does(p *worker.Program, text string, attempt int) (string, error) {
	arguments, _ := json.Marshal(map[string]string{"text": text})
	a, err := p.Do(context.Background(), &worker.Job{ID: "sub_1.2", Service: work.Service{Kind: "tool", Name: "render"}, Arguments: arguments, Attempt: attempt})
	if err != nil {
		return "", err
	}
	return string(a.Result), nil
}

// A process is kept for the next job, and replaced when it ends. Its environment is what it is given.
func TestProgramProcesses(t *testing.T) {
	t.Parallel()
	p := program(t, "GIVEN=yes")
	first, err := does(p, "pid", 1)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := does(p, "pid", 1); again != first || err != nil {
		t.Errorf("the second job went to process %s, the first to %s; %v", again, first, err)
	}
	if _, err := does(p, "die", 1); !errors.Is(err, actor.Unavailable) || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a program that dies: %v, want unavailable and how it ended", err)
	}
	if other, err := does(p, "pid", 1); other == first || err != nil {
		t.Errorf("after its end the process %s does a job; %v", other, err)
	}
	env, err := does(p, "env", 1)
	var vars []string
	if err != nil || json.Unmarshal([]byte(env), &vars) != nil {
		t.Fatal(env, err)
	}
	slices.Sort(vars)
	if got := strings.Join(vars, " "); got != "GIVEN=yes "+mode+"=1" {
		t.Errorf("the program's environment is %s", got)
	}
}

// What a program must not say ends its process and gives the job back; it is never taken for an answer.
func TestProgramSaysNonsense(t *testing.T) {
	t.Parallel()
	p := program(t)
	for _, text := range []string{"nonsense", `{"id":"sub_9.9","result":1}`, `{"id":"ID"}`, `{"id":"ID","error":{}}`, `{"id":"ID","error":7}`, `[1]`} {
		if got, err := does(p, text, 1); !errors.Is(err, actor.Unavailable) {
			t.Errorf("%s: taken as %q, %v", text, got, err)
		}
	}
	if _, err := does(p, "error", 1); err == nil || errors.Is(err, actor.Unavailable) || err.Error() != "no ink" {
		t.Errorf("an error that it tells: %v", err)
	}
	if _, err := worker.NewProgram(worker.ProgramConfig{Command: []string{"/nowhere/to/be/found"}}); !errors.Is(err, actor.SchemaViolation) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// A program serves tools: its death costs a try, its retryable errors too.
func TestProgramServes(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.serve(worker.Config{Backoff: 1, Serve: tools(program(t).Do)})
	s.ends(s.calls("render", `{"text":"die once"}`), "COMPLETED", `"attempt":2`)
	s.ends(s.calls("render", `{"text":"error"}`), "COMPLETED", `"code":"runtime_error"`, "no ink")
	s.ends(s.calls("render", `{"text":"die"}`), "COMPLETED", `"code":"runtime_error"`, "exit status 7")
	s.ends(s.calls("render", `{"text":"error later"}`), "COMPLETED", `"attempt":3`)
	s.queueEmpties()
}

// A program whose job is cancelled is killed, and what it has started with it.
func TestProgramIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	told := s.events("me", "progress")
	s.serve(worker.Config{Serve: tools(program(t, "PATH="+os.Getenv("PATH")).Do)})
	id := s.calls("render", `{"text":"hang"}`)
	event := s.next(told, "the id of the process that the program has started")
	var e struct{ Content struct{ Text string } }
	var pid int
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(e.Content.Text, &pid); err != nil || pid < 2 {
		t.Fatalf("the event has no process id: %s", event)
	}
	s.Ask(t, "me", fmt.Sprintf(`{"type":"SUBAGENT_CANCEL_REQ","subagent_id":%q}`, id))
	s.ends(id, "CANCELLED")
	natstest.Await(t, "the program's child ends with it", func() bool { return ended(pid) })
	s.queueEmpties()
}

// ended reports whether a process is gone, or dead and not yet buried.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// beWorker is a process whose program does a job that has no end: it tells which process that is, on stdout.
func beWorker() int {
	p, err := worker.NewProgram(worker.ProgramConfig{Command: []string{os.Args[0]}, Env: []string{mode + "=1"}})
	if err != nil {
		return 1
	}
	j := &worker.Job{ID: "sub_1.2", Service: work.Service{Kind: "tool", Name: "render"}, Arguments: json.RawMessage(`{"text":"deaf"}`), Attempt: 1}
	j.OnProgress(func(text string) { fmt.Println(text) })
	_, _ = p.Do(context.Background(), j)
	return 2
}

// A worker that is killed takes its program with it, also one that does not read its stdin.
func TestProgramEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{mode + "=worker"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil || pid < 2 {
		t.Fatalf("the worker does not tell of its program: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if runtime.GOOS == "linux" {
		natstest.Await(t, "the program ends with the worker", func() bool { return ended(pid) })
	} else {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// An answer that is larger than any may be is told as that, and not tried again: it would be as large.
func TestProgramSaysTooMuch(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	var tries atomic.Int32
	p := program(t)
	s.serve(worker.Config{Backoff: 1, Serve: tools(func(ctx context.Context, j *worker.Job) (*worker.Answer, error) {
		tries.Add(1)
		return p.Do(ctx, j)
	})})
	s.ends(s.calls("render", `{"text":"large"}`), "COMPLETED", `"code":"too_large"`, "more than 67108864 bytes")
	if n := tries.Load(); n != 1 {
		t.Errorf("the job was tried %d times, want once", n)
	}
	s.queueEmpties()
}

// What a worker in Go answers that can't be an answer is told as that, with its code; so is a model that gives nothing.
// What a step cost that failed counts.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	s := start(t, host.Config{})
	s.serve(worker.Config{Backoff: 1, Serve: map[string]worker.Func{
		"tool/render": func(context.Context, *worker.Job) (*worker.Answer, error) {
			return &worker.Answer{Result: json.RawMessage(`not JSON`)}, nil
		},
		"model/mute": worker.Model(modelFunc(func() (*model.Response, error) { return nil, nil }), ""),
		"model/dear": worker.Model(modelFunc(func() (*model.Response, error) {
			return &model.Response{Usage: &model.Usage{InputTokens: 70, OutputTokens: 7}}, errors.New("it broke")
		}), ""),
	}})
	s.ends(s.calls("render", `{"text":"x"}`), "COMPLETED", `"code":"schema_violation"`, "the result is not JSON")
	mute := s.spawn(`"model":"worker/mute"`)
	s.delegate(mute, `{}`)
	s.ends(mute, "FAILED", "returned nothing")
	dear := s.spawn(`"model":"worker/dear"`)
	s.delegate(dear, `{}`)
	s.ends(dear, "FAILED", "it broke")
	natstest.Await(t, "the registry tells what the step cost", func() bool {
		stored, err := s.Store.Registry.Tree(natstest.Context(t), "me")
		return err == nil && slices.ContainsFunc(stored, func(e store.Entry) bool { return strings.Contains(string(e.Data), `"input_tokens":70`) })
	})
	s.noDeadLetters()
}

type modelFunc func() (*model.Response, error)

func (f modelFunc) Step(context.Context, *model.Request) (*model.Response, error) { return f() }
