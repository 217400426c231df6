package fault

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/test/history"
	"github.com/troupehq/troupe/test/natstest"
)

// upLine begins the line that a process writes to its output once it is up.
const upLine = "troupe is up:"

// patience is how long a process may take to be up, and the load to come to rest. Machines are shared.
const patience = 60 * time.Second

// A process is started, killed and started again, with the same arguments.
type process struct {
	t    *testing.T
	name string
	log  string // the file of everything that it ever wrote to stderr
	make func() *exec.Cmd

	cmd    *exec.Cmd
	up     chan struct{} // closed when it is up
	ended  chan struct{} // closed when it has ended
	starts int
}

func newProcess(t *testing.T, name string, command func() *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, make: command, log: filepath.Join(t.TempDir(), name+".log")}
	t.Cleanup(func() {
		p.kill()
		p.tell()
	})
	return p
}

// upProcess is "troupe up" with arguments.
func upProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return newProcess(t, name, func() *exec.Cmd {
		return exec.Command(file, append([]string{"up", "--log-level", "warn"}, args...)...)
	})
}

// serverProcess is a server without a host.
func serverProcess(t *testing.T, store, listen string) *process {
	t.Helper()
	return newProcess(t, "server", func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverStore+"="+store, serverListen+"="+listen)
		return cmd
	})
}

// start starts the process and does not wait until it is up.
func (p *process) start() {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Errorf("%s: %v", p.name, err)
		return
	}
	defer log.Close()
	cmd := p.make()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Errorf("start %s: %v", p.name, err)
		return
	}
	p.cmd, p.up, p.ended = cmd, make(chan struct{}), make(chan struct{})
	p.starts++
	go func(up, ended chan struct{}) {
		defer close(ended)
		isUp := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !isUp && strings.HasPrefix(lines.Text(), upLine) {
				isUp = true
				close(up)
			}
		}
		_ = cmd.Wait() // it is killed: how it ended says nothing
	}(p.up, p.ended)
}

// awaitUp returns once the process is up, or has ended by itself, which fails the test.
func (p *process) awaitUp() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.up:
		return true
	case <-p.ended:
		p.t.Errorf("%s ended by itself; its log ends with:\n%s", p.name, p.tail())
	case <-time.After(patience):
		p.t.Errorf("%s was not up within %v; its log ends with:\n%s", p.name, patience, p.tail())
	}
	return false
}

// kill ends the process as a power switch would, and waits until it is gone.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
	p.cmd = nil
}

// signal fails when the process has ended already, which is no matter.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// tail is the end of the log, without the panics that scripts ask for and what every kill leads to.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, history.ScriptedPanic) && !strings.Contains(line, "nats: ") && !strings.Contains(line, "Filestore [") {
			lines = append(lines, strings.TrimSpace(line[:min(len(line), 300)]))
		}
	}
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// tell complains about what must not stand in a log, and shows the end of it when the test has failed.
func (p *process) tell() {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return // it was never started
	}
	for _, bad := range []string{"DATA RACE", "a decision panicked", "fatal error:", "goroutine 1 [", "an effect can't be sent", "can't be read"} {
		if at := bytes.Index(data, []byte(bad)); at >= 0 {
			p.t.Errorf("the log of %s says %q:\n%s", p.name, bad, data[max(0, at-200):min(len(data), at+3000)])
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s was started %d times; its log ends with:\n%s", p.name, p.starts, p.tail())
	}
}

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", natstest.FreePorts(t, 1)[0])
}
