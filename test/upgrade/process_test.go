package upgrade_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

// previous is the commit whose program runs beside this one. It is moved on when a version is released.
const previous = "f04bdcbefa084a3302c472396c69cd0d7cc486e2"

var builds string // the directory of what is built; removed at the end

func TestMain(m *testing.M) {
	var err error
	if builds, err = os.MkdirTemp("", "troupe-upgrade-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	natstest.Main(m, func() error { return os.RemoveAll(builds) })
}

// newProgram builds this version, once.
var newProgram = sync.OnceValues(func() (string, error) { return compile(filepath.Join("..", ".."), "new") })

// oldProgram builds the previous version from the repository, once. A clone that does not have it asks where it came from.
// Where that has no history either, as a copy of the files alone, hosts of this version are replaced by others of it, which
// "make upgrade" does not put up with.
var oldProgram = sync.OnceValues(func() (string, error) {
	if _, err := run("", "git", "cat-file", "-e", previous+"^{commit}"); err != nil {
		if _, fetch := run("", "git", "fetch", "--quiet", "--depth", "1", "origin", previous); fetch != nil {
			if os.Getenv("TROUPE_UPGRADE") == "" {
				fmt.Fprintf(os.Stderr, "commit %s is not to be had: hosts are replaced by others of the same version\n", previous)
				return newProgram()
			}
			return "", fmt.Errorf("commit %s, whose program has to run beside this one, is not in this clone, and could not be fetched: "+
				"the test needs a full clone (git fetch --unshallow; fetch-depth: 0 in CI): %w", previous, errors.Join(err, fetch))
		}
	}
	dir := filepath.Join(builds, "source")
	root, err := run("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	archive := filepath.Join(builds, "source.tar")
	if _, err = run(strings.TrimSpace(root), "git", "archive", "--format=tar", "-o", archive, previous); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if _, err := run(dir, "tar", "-xf", archive); err != nil {
		return "", err
	}
	return compile(dir, "old")
})

func compile(dir, name string) (string, error) {
	file := filepath.Join(builds, name)
	_, err := run(dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", file, "./cmd/troupe")
	return file, err
}

func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out), nil
}

// program gives what a function built.
func program(t *testing.T, build func() (string, error)) string {
	t.Helper()
	file, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A process is a running "troupe up".
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string
	wait func() error // for its end; again gives the same
}

// launch starts a program as a host and returns once it is up.
func launch(t *testing.T, file, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, log: filepath.Join(t.TempDir(), name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(file, append([]string{"up", "--member", name}, args...)...)
	p.cmd.Stderr = log
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p.wait = sync.OnceValue(p.cmd.Wait)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended already, or ends now
		_ = p.wait()
		p.tell()
	})
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // "" says that it ended
		said <- line
	}()
	select {
	case line := <-said:
		if !strings.HasPrefix(line, "troupe is up:") {
			t.Fatalf("%s ended before it was up; its log:\n%s", name, p.logged())
		}
	case <-natstest.Context(t).Done():
		t.Fatalf("%s was not up in time; its log:\n%s", name, p.logged())
	}
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// stop asks it to end, which it has to do well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		p.t.Fatalf("%s ended with %v after SIGTERM; its log:\n%s", p.name, err, p.logged())
	}
}

func (p *process) logged() string {
	text, err := os.ReadFile(p.log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}

// tell complains about what must not stand in a log.
func (p *process) tell() {
	text := p.logged()
	for _, bad := range []string{"panic", "DATA RACE", "newer_version", "can't be read", "an effect can't be sent", "left behind"} {
		if strings.Contains(text, bad) {
			p.t.Errorf("the log of %s says %q:\n%s", p.name, bad, text)
			return
		}
	}
	if p.t.Failed() {
		p.t.Logf("the log of %s:\n%s", p.name, text[max(0, len(text)-3000):])
	}
}
