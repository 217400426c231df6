package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// PartName is the hidden command of the program by which a bench runs [ServePart] in a process of its own.
const PartName = "bench-part"

// patience is how long a process may take to be up, and a load to come to rest. Machines are shared.
const patience = 2 * time.Minute

// A Part is what a process of its own does for a bench: with a Store it is a NATS server without a host, with a URL a
// host without a server. Both tell how much memory they hold, which no running "troupe up" does.
type Part struct {
	Store, Listen string // of the server
	URL, Member   string // of the host
	Partitions    int
}

// A memory is what a process holds: what is reachable in its heap, and what the system gives it.
type memory struct {
	Heap     int64 `json:"heap"`
	Resident int64 `json:"resident"`
}

// partUp begins the first line that a part writes. That of a server goes on with its member id, which a host on the same
// store directory has.
const partUp = "up "

// ServePart runs a part until ctx or in ends, so that no part outlives its bench. It writes a line once it is up, and
// answers each line of in with what memory it then holds.
func ServePart(ctx context.Context, p Part, in io.Reader, out io.Writer) error {
	member, stop, err := p.start(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, partUp+member)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	tell := json.NewEncoder(out)
	for {
		select {
		case _, ok := <-asked:
			if !ok {
				return stop()
			}
			if err := tell.Encode(memory{int64(heap()), resident()}); err != nil {
				return errors.Join(err, stop())
			}
		case <-ctx.Done():
			return stop()
		}
	}
}

func (p Part) start(ctx context.Context) (member string, stop func() error, err error) {
	if p.Store != "" {
		server, err := bus.StartServer(bus.ServerConfig{Store: p.Store, Listen: p.Listen})
		if err != nil {
			return "", nil, err
		}
		return server.Member(), server.Close, nil
	}
	conn, err := bus.Connect(ctx, bus.Config{URL: p.URL})
	if err != nil {
		return "", nil, err
	}
	h, err := newHost(ctx, conn, p.Partitions, p.Member)
	if err != nil {
		conn.Close()
		return "", nil, err
	}
	halt, err := serve(h)
	return p.Member, func() error { return errors.Join(halt(), closed(conn)) }, err
}

func closed(conn *bus.Conn) error {
	conn.Close()
	return nil
}

// newHost makes a host of the default namespace, which it creates if there is none. Its trees have no limit.
func newHost(ctx context.Context, conn *bus.Conn, partitions int, member string) (*host.Host, error) {
	names, err := subjects.New("")
	if err != nil {
		return nil, err
	}
	layout, err := conn.Ensure(ctx, bus.Layout{Names: names, Partitions: partitions})
	if err != nil {
		return nil, err
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names})
	if err != nil {
		return nil, err
	}
	return host.New(host.Config{
		Conn: conn, Store: st, Names: names, Partitions: layout.Partitions, Member: member, Version: "0.0.0",
		Limits: host.Limits{MaxLive: 1 << 30}, MaxQueued: 1 << 30,
	})
}

// serve runs a host, and returns once it is ready. stop ends it and waits.
func serve(h *host.Host) (stop func() error, err error) {
	serving, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(serving) }()
	stop = func() error {
		cancel()
		return <-ended
	}
	select {
	case <-h.Ready():
		return stop, nil
	case err := <-ended:
		cancel()
		return func() error { return nil }, err
	}
}

// resident is the process's resident memory, or 0 where the system does not tell.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A child is a process that the bench has started.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it writes to its output
	said  string      // its first line, behind what said that it is up
	once  sync.Once
	err   error
}

// startChild runs the program with arguments, and returns once it has written a line that begins with up.
func startChild(ctx context.Context, o Options, up string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(o.Binary, args...), lines: make(chan string, 16)}
	c.cmd.Stderr = os.Stderr
	endsWithUs(c.cmd)
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	line, err := c.line(ctx)
	if err == nil && !strings.HasPrefix(line, up) {
		err = fmt.Errorf("it said %q", line)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("troupe %s: %w", strings.Join(args, " "), err), c.kill())
	}
	c.said = strings.TrimPrefix(line, up)
	return c, nil
}

// line gives the next line of the child's output.
func (c *child) line(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "", errors.New("it has ended by itself")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// memory asks a part what it holds.
func (c *child) memory(ctx context.Context) (m memory, err error) {
	if _, err := fmt.Fprintln(c.in); err != nil {
		return m, err
	}
	line, err := c.line(ctx)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(line), &m)
}

// kill ends the child as a crash would, with SIGKILL, and waits for it. Killing again does nothing.
func (c *child) kill() error {
	c.once.Do(func() { c.err = c.end(c.cmd.Process.Kill()) })
	return c.err
}

// interrupt ends the child as an operator would, and waits for it.
func (c *child) interrupt() error {
	c.once.Do(func() { c.err = c.end(c.cmd.Process.Signal(os.Interrupt)) })
	return c.err
}

// clockTick is the unit in which Linux tells processor times.
const clockTick = 10 * time.Millisecond

// cpuSoFar is the processor time that a running child has taken, or 0 where the system does not tell.
func (c *child) cpuSoFar() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, found := strings.Cut(string(data), ") ") // behind the name, which may hold anything
	fields := strings.Fields(rest)
	if err != nil || !found || len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// cpu is the processor time that a child took which has ended.
func (c *child) cpu() time.Duration {
	if c.cmd.ProcessState == nil {
		return 0
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

func (c *child) end(signalled error) error {
	if signalled != nil && !errors.Is(signalled, os.ErrProcessDone) {
		return signalled
	}
	for range c.lines { // Wait closes the pipe that is read here
	}
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func partServer(ctx context.Context, o Options, dir, listen string) (*child, error) {
	return startChild(ctx, o, partUp, PartName, "--store", dir, "--listen", listen)
}

func partHost(ctx context.Context, o Options, listen, member string) (*child, error) {
	return startChild(ctx, o, partUp, PartName, "--nats", "nats://"+listen, "--member", member, "--partitions", strconv.Itoa(o.Partitions))
}

// upChild is a "troupe up", with more arguments.
func upChild(ctx context.Context, o Options, args ...string) (*child, error) {
	args = append([]string{"up", "--max-live", strconv.Itoa(1 << 30), "--partitions", strconv.Itoa(o.Partitions), "--log-level", "error"}, args...)
	return startChild(ctx, o, "troupe is up", args...)
}
