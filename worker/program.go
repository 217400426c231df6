package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/work"
)

const (
	maxLine   = 64 << 20        // bytes of a line of a program
	logLine   = 4 << 10         // bytes of a line of its stderr that are logged
	closeWait = 2 * time.Second // from the end of its input until it is killed
)

// A ProgramConfig says which program does the work. Command is required.
type ProgramConfig struct {
	Command []string // the program and its arguments
	Dir     string   // where it runs; "" is here
	Env     []string // NAME=value: all of its environment
	Log     zerolog.Logger
}

// A Program does jobs in processes of another program, in whatever language. Each process gets one job at a time as a
// line of JSON on stdin: {"id", "kind", "name", "thread", "session", "step", "attempt", …} with "arguments" (a
// tool's) or "request" (a model's). It answers with lines of JSON on stdout: any number of {"id", "progress": text},
// then one of {"id", "result": any}, {"id", "response": {…}} and {"id", "error": text or {"message", "retryable"}}.
// What it writes to stderr is logged.
//
// Processes are started as they are needed and kept for the next job. One that ends, or says what it must not, while
// it has a job is replaced, and the job is given back to the queue. One whose job is over before it has answered is
// killed, with what it has started. None outlives the process that this is, however that ends, where the system can do
// that (Linux); what it has started itself may then.
type Program struct {
	ProgramConfig

	mu     sync.Mutex
	idle   []*process
	closed bool
}

// NewProgram checks the configuration. It starts nothing.
func NewProgram(cfg ProgramConfig) (*Program, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, &actor.Error{Op: "worker.NewProgram", Kind: actor.SchemaViolation, Field: "Command", Err: errors.New("is required")}
	}
	if _, err := exec.LookPath(cfg.Command[0]); err != nil {
		return nil, &actor.Error{Op: "worker.NewProgram", Kind: actor.SchemaViolation, Field: "Command", Err: err}
	}
	if cfg.Env == nil {
		cfg.Env = []string{} // nil would be all of this process's
	}
	return &Program{ProgramConfig: cfg}, nil
}

// Close ends the processes that have no job, and returns when they have ended. Those that have one end with it.
func (p *Program) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, one := range idle {
		all.Go(one.end)
	}
	all.Wait()
}

// Do is a [Func].
func (p *Program) Do(ctx context.Context, j *Job) (*Answer, error) {
	one, err := p.get()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, one.kill)
	a, err := one.do(j)
	if !stop() { // it was killed
		one.wait()
		return nil, &actor.Error{Op: "worker.Do", Kind: actor.RuntimeError, Err: context.Cause(ctx)}
	}
	var large *largeError
	if errors.As(err, &large) { // it would be as large again
		one.kill()
		_ = one.wait() // it was killed
		return nil, &actor.Error{Op: "worker.Do", Kind: actor.TooLarge, Err: large}
	}
	var broken *brokenError
	if errors.As(err, &broken) {
		one.kill()
		if ended := one.wait(); ended != nil {
			broken.why += ": " + ended.Error()
		}
		return nil, &actor.Error{Op: "worker.Do", Kind: actor.Unavailable, Err: broken}
	}
	p.put(one)
	return a, err
}

// get takes a process that is idle, or starts one.
func (p *Program) get() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		one := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if !one.ended() {
			return one, nil
		}
	}
	return p.start()
}

func (p *Program) put(one *process) {
	p.mu.Lock()
	if !p.closed {
		p.idle = append(p.idle, one)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	one.end()
}

func (p *Program) start() (*process, error) {
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	ownGroup(cmd)
	cmd.WaitDelay = closeWait // for output that what it has started holds open
	stderr := &logger{log: p.Log.With().Str("program", p.Command[0]).Logger()}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, &actor.Error{Op: "worker.Do", Kind: actor.Unavailable, Err: err}
	}
	out, inward := io.Pipe()
	cmd.Stdout = inward
	one := &process{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), pipe: out, over: make(chan struct{}), log: p.Log}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the program ends with the thread that has started it, where the system does that
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		one.err = cmd.Wait()
		killGroup(cmd) // what it left behind
		inward.CloseWithError(io.EOF)
		close(one.over)
	}()
	if err := <-started; err != nil {
		return nil, &actor.Error{Op: "worker.Do", Kind: actor.Unavailable, Err: err}
	}
	return one, nil
}

// A process does one job at a time.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	pipe *io.PipeReader
	log  zerolog.Logger
	over chan struct{} // closed when it has ended
	err  error         // how, then
}

func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	if !p.ended() {
		killGroup(p.cmd)
	}
}

// wait returns when it has ended; what it still says is not read.
func (p *process) wait() error {
	p.pipe.Close()
	<-p.over
	return p.err
}

// end lets it end by itself, and kills it if it does not.
func (p *process) end() {
	_ = p.in.Close() // it fails only if the process has ended
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-p.over:
	case <-t.C:
		p.kill()
	}
	_ = p.wait() // how it ended matters to nobody
}

// A brokenError says that a process can't be used any more.
type brokenError struct{ why string }

func (e *brokenError) Error() string { return e.why }

// A largeError says that an answer is larger than any may be. The process can't be used any more, either.
type largeError struct{ why string }

func (e *largeError) Error() string { return e.why }

func broken(format string, args ...any) error { return &brokenError{fmt.Sprintf(format, args...)} }

// told is a job as a program gets it.
type told struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Thread    actor.ID        `json:"thread"`
	Session   uint64          `json:"session"`
	Step      int             `json:"step,omitempty"`
	Call      string          `json:"call,omitempty"`
	Attempt   int             `json:"attempt"`
	Deadline  *time.Time      `json:"deadline,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Request   *work.Request   `json:"request,omitempty"`
}

// said is a line of a program.
type said struct {
	ID       string          `json:"id"`
	Progress *string         `json:"progress"`
	Result   json.RawMessage `json:"result"`
	Response *work.Response  `json:"response"`
	Error    json.RawMessage `json:"error"`
}

func (p *process) do(j *Job) (*Answer, error) {
	line := told{
		ID: j.ID, Kind: j.Service.Kind, Name: j.Service.Name, Thread: j.Thread, Session: j.Session, Step: j.Step, Call: j.Call,
		Attempt: j.Attempt, Arguments: j.Arguments, Request: j.Request,
	}
	if !j.Deadline.IsZero() {
		line.Deadline = &j.Deadline
	}
	data, err := json.Marshal(&line)
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(data, '\n')); err != nil {
		return nil, broken("the program does not read its jobs")
	}
	for {
		text, err := readLine(p.out)
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, &largeError{fmt.Sprintf("the program wrote a line of more than %d bytes", maxLine)}
		}
		if err != nil {
			return nil, broken("the program ended without an answer")
		}
		if len(strings.TrimSpace(string(text))) == 0 {
			continue
		}
		var s said
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, broken("the program wrote what is not a line of JSON: %.100q", text)
		}
		if s.ID != j.ID {
			return nil, broken("the program answers a job %.100q that it does not have", s.ID)
		}
		if s.Progress != nil {
			j.Progress(*s.Progress)
			continue
		}
		return s.answer()
	}
}

// answer is what the line comes to.
func (s *said) answer() (*Answer, error) {
	switch {
	case s.Error != nil && string(s.Error) != "null":
		var f work.Failure
		if json.Unmarshal(s.Error, &f.Message) != nil && json.Unmarshal(s.Error, &f) != nil || f.Message == "" {
			return nil, broken("the program tells of an error without a message: %.100q", s.Error)
		}
		if f.Retryable {
			return nil, &actor.Error{Op: "worker.Do", Kind: actor.Unavailable, Err: errors.New(f.Message)}
		}
		return nil, errors.New(f.Message)
	case s.Response != nil:
		return &Answer{Response: s.Response}, nil
	case s.Result != nil:
		return &Answer{Result: s.Result}, nil
	}
	return nil, broken("the program answered with neither result, response nor error")
}

// readLine reads a line of at most maxLine bytes.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, bufio.ErrTooLong
		}
		if err == nil || err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// A logger writes lines of a program's stderr into the log.
type logger struct {
	log  zerolog.Logger
	rest []byte
}

// Write logs whole lines and keeps the rest.
func (l *logger) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		line, rest, ok := strings.Cut(string(l.rest), "\n")
		if !ok && len(l.rest) <= logLine {
			return len(data), nil
		}
		l.rest = []byte(rest)
		l.log.Info().Msg(strings.ToValidUTF8(line[:min(len(line), logLine)], "�"))
	}
}
