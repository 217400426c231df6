package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/test/natstest"
)

// program is the built binary that the tests run.
var program string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troupe-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "troupe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// An outcome is what a run of the program left.
type outcome struct {
	out, err string
	code     int
}

// command is a run of the program, with nothing of the environment in it that would change what it does.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(natstest.Context(t), program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "NATS_URL=nats://127.0.0.1:1"}
	return cmd
}

// troupe runs the program and waits for its end.
func troupe(t testing.TB, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, args...))
}

func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("troupe %s: %v", strings.Join(cmd.Args[1:], " "), err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// succeeds wants exit code 0 and gives what was printed, without the line's end.
func (o outcome) succeeds(t testing.TB) string {
	t.Helper()
	if o.code != exitOK {
		t.Fatalf("exit code %d, want 0\nstdout: %.2000s\nstderr: %.2000s", o.code, o.out, o.err)
	}
	return strings.TrimSuffix(o.out, "\n")
}

// fails wants an exit code, and one line on stderr that has the words in it.
func (o outcome) fails(t testing.TB, code int, words ...string) {
	t.Helper()
	if o.code != code {
		t.Fatalf("exit code %d, want %d\nstdout: %.2000s\nstderr: %.2000s", o.code, code, o.out, o.err)
	}
	line := strings.TrimSuffix(o.err, "\nRun \"troupe --help\", or a command with --help, for how it is used.\n")
	line = strings.TrimSuffix(line, "\n")
	if !strings.HasPrefix(line, "troupe: ") || strings.Contains(line, "\n") {
		t.Fatalf("stderr is %q, want one line that begins with \"troupe: \"", o.err)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Fatalf("stderr is %q, want %q in it", line, word)
		}
	}
}

// A fleet is a running "troupe up".
type fleet struct {
	t    testing.TB
	url  string
	said string // the line that it said that it is up with
	cmd  *exec.Cmd
	log  *lines
	wait func() error // for its end; again gives the same
}

// up starts "troupe up" and returns when it says that it is ready.
func up(t testing.TB, args ...string) *fleet {
	t.Helper()
	return upWith(t, nil, args...)
}

// upWith is up with variables beside those that are here.
func upWith(t testing.TB, env []string, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, log: &lines{}}
	f.cmd = exec.Command(program, append([]string{"up"}, args...)...)
	f.cmd.Env = append(os.Environ(), env...)
	f.cmd.Stderr = f.log
	stdout, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.wait = sync.OnceValue(f.cmd.Wait)
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // it has ended already, or ends now
		_ = f.wait()
		if t.Failed() {
			t.Logf("the log of up:\n%s", f.log)
		}
	})
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n') // "" says that it ended
		ready <- line
	}()
	select {
	case line := <-ready:
		rest, ok := strings.CutPrefix(line, "troupe is up: ")
		if !ok {
			t.Fatalf("up said %q, want that it is up\n%s", line, f.log)
		}
		f.said = rest
		f.url, _, _ = strings.Cut(rest, ",")
	case <-natstest.Context(t).Done():
		t.Fatalf("up was not ready in time\n%s", f.log)
	}
	return f
}

// start starts an up with a store of its own, on any free port.
func start(t testing.TB, args ...string) *fleet {
	t.Helper()
	return up(t, append([]string{"--listen", "127.0.0.1:0", "--store", t.TempDir()}, args...)...)
}

// kill ends it without a word.
func (f *fleet) kill() {
	f.t.Helper()
	if err := f.cmd.Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.wait(); err == nil {
		f.t.Fatal("up was killed and ended well all the same")
	}
}

// stop asks it to end, which it has to do well.
func (f *fleet) stop() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
	if err := f.wait(); err != nil {
		f.t.Fatalf("up ended with %v after SIGTERM, want exit code 0\n%s", err, f.log)
	}
}

// ask runs a command against it.
func (f *fleet) ask(args ...string) outcome {
	f.t.Helper()
	return troupe(f.t, append(args, "--nats", f.url)...)
}

// spawn makes a subagent that plays a script at each task, and gives its id.
func (f *fleet) spawn(script string) string {
	f.t.Helper()
	return f.ask("spawn", "player", "--model", "builtin/script", "--metadata", "script="+script).succeeds(f.t)
}

// lines is a buffer that a process writes to while the test reads.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// eventually waits until the lines have a word in them.
func (l *lines) eventually(t testing.TB, word string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := natstest.Context(t); !strings.Contains(l.String(), word); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%q never came:\n%s", word, l)
		}
	}
}
