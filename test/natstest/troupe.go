package natstest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// A Troupe is a running host on a server of its own, in the default namespace, with a connection for
// whoever asks it. The host has a connection to itself, as a host elsewhere would.
type Troupe struct {
	Server *Server
	Conn   *bus.Conn // the test's
	Store  *store.Store
	Names  subjects.Names
	Host   *host.Host // the one that runs

	cfg  host.Config
	seal *store.Seal
	logs logs
	conn *bus.Conn          // the host's
	stop context.CancelFunc // nil while no host runs
	done chan error
}

// StartTroupe starts a host as cfg says; the fields that wire it together are filled in here.
func StartTroupe(t testing.TB, cfg host.Config) *Troupe {
	t.Helper()
	return StartSealed(t, cfg, nil)
}

// StartSealed is StartTroupe with a seal for the scoped variables.
func StartSealed(t testing.TB, cfg host.Config, seal *store.Seal) *Troupe {
	t.Helper()
	return startTroupe(t, Start(t), cfg, seal)
}

// OpenTroupe is StartTroupe on a store directory that is there.
func OpenTroupe(t testing.TB, dir string, cfg host.Config) *Troupe {
	t.Helper()
	return startTroupe(t, start(t, bus.ServerConfig{Store: dir, Listen: fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)[0])}), cfg, nil)
}

func startTroupe(t testing.TB, srv *Server, cfg host.Config, seal *store.Seal) *Troupe {
	t.Helper()
	names, err := subjects.New("")
	if err != nil {
		t.Fatalf("names: %v", err)
	}
	conn := InProcess(t, srv)
	layout, err := conn.Ensure(Context(t), bus.Layout{Names: names})
	if err != nil {
		t.Fatalf("lay the namespace out: %v", err)
	}
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: names, Seal: seal})
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	tr := &Troupe{Server: srv, Conn: conn, Store: st, Names: names, seal: seal}
	cfg.Names, cfg.Partitions, cfg.Member, cfg.Version = names, layout.Partitions, srv.Member(), "0.1.0"
	warnings := &zerolog.FilteredLevelWriter{Writer: zerolog.LevelWriterAdapter{Writer: zerolog.NewTestWriter(t)}, Level: zerolog.WarnLevel}
	cfg.Log = zerolog.New(zerolog.MultiLevelWriter(warnings, &tr.logs))
	tr.cfg = cfg
	tr.StartHost(t)
	return tr
}

// logs keeps what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Logs is all that the hosts have logged so far, at every level.
func (tr *Troupe) Logs() string {
	tr.logs.mu.Lock()
	defer tr.logs.mu.Unlock()
	return tr.logs.text.String()
}

// StartHost starts the host again after StopHost, as the same member.
func (tr *Troupe) StartHost(t testing.TB) {
	t.Helper()
	tr.conn = InProcess(t, tr.Server)
	tr.stop, tr.done = tr.serve(t, tr.conn, tr.cfg.Member)
	t.Cleanup(func() { tr.StopHost(t) }) // before its connection is closed
}

// JoinHost starts another host, which takes its share and stays until the test ends.
func (tr *Troupe) JoinHost(t testing.TB, member string) {
	t.Helper()
	stop, done := tr.serve(t, InProcess(t, tr.Server), member)
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the host %s ended with: %v", member, err)
		}
	})
}

// serve starts a host and returns once it is ready.
func (tr *Troupe) serve(t testing.TB, conn *bus.Conn, member string) (stop context.CancelFunc, done chan error) {
	t.Helper()
	cfg := tr.cfg
	cfg.Conn, cfg.Member, cfg.Sole = conn, member, member == tr.Server.Member()
	st, err := store.New(store.Config{NC: cfg.Conn.NC, JS: cfg.Conn.JS, Sender: cfg.Conn, Names: cfg.Names, Seal: tr.seal})
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	cfg.Store = st
	h, err := host.New(cfg)
	if err != nil {
		t.Fatalf("make the host: %v", err)
	}
	tr.Host = h
	ctx, stop := context.WithCancel(context.Background())
	done = make(chan error, 1)
	go func() { done <- h.Serve(ctx) }()
	select {
	case <-h.Ready():
	case err := <-done:
		stop()
		t.Fatalf("the host ended before it was ready: %v", err)
	case <-Context(t).Done():
		stop()
		<-done
		t.Fatalf("the host was not ready within %v", patience)
	}
	return stop, done
}

// StopHost stops the host and returns when it has given its partitions back. Stopping again does nothing.
func (tr *Troupe) StopHost(t testing.TB) {
	t.Helper()
	if tr.stop == nil {
		return
	}
	tr.stop()
	tr.stop = nil
	if err := <-tr.done; err != nil {
		t.Errorf("the host ended with: %v", err)
	}
}

// KillHost cuts the host off from the server without a word, and ends it: it gives nothing back, and what it had not
// recorded is lost.
func (tr *Troupe) KillHost(t testing.TB) {
	t.Helper()
	if tr.stop == nil {
		return
	}
	tr.conn.Close()
	tr.stop()
	tr.stop = nil
	<-tr.done // with the error that it has no server
}

// Ask sends a request as an agent and gives the answer.
func (tr *Troupe) Ask(t testing.TB, agent, request string) string {
	t.Helper()
	answer, err := tr.Conn.Request(Context(t), tr.Names.A2E(actor.ID(agent)), []byte(request))
	if err != nil {
		t.Fatalf("as %s: %.500s\nno answer: %v", agent, request, err)
	}
	return string(answer)
}

// Owned counts the partitions that a member owns.
func Owned(t testing.TB, st *store.Store, member string) (n int) {
	t.Helper()
	all, err := st.Leases.All(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Lease.Owner == member {
			n++
		}
	}
	return n
}
