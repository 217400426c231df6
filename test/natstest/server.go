package natstest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// patience is how long a test waits for what must come. It is long, for machines are shared.
const patience = 30 * time.Second

// A Server is an embedded server that can be stopped and started again on the same port and store.
type Server struct {
	*bus.Server
	cfg bus.ServerConfig
}

// Start starts a server with its store in a temporary directory. It listens on a free port of the
// loopback interface, so that a connection outlives a restart.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, bus.ServerConfig{Store: t.TempDir(), Listen: fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)[0])})
}

// StartWith starts a server with some lines of a nats-server configuration.
func StartWith(t testing.TB, lines string) *Server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\n%s\n", FreePorts(t, 1)[0], lines)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, bus.ServerConfig{Store: filepath.Join(dir, "store"), ConfigFile: file})
}

func start(t testing.TB, cfg bus.ServerConfig) *Server {
	t.Helper()
	if cfg.Sync == "" { // what a test kills it does not unplug; and nats-server 2.15.2 races with its own first sync
		cfg.Sync = "10m"
	}
	s := &Server{cfg: cfg}
	s.Restart(t)
	if cfg.ConfigFile == "" {
		s.cfg.Listen = strings.TrimPrefix(s.URL(), "nats://")
	}
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Stop stops the server. Stopping again does nothing.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("stop the server: %v", err)
	}
}

// Restart starts a server that was stopped.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	srv, err := bus.StartServer(s.cfg)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	s.Server = srv
}

// Conn connects to a server over TCP, so that the connection outlives a restart.
func Conn(t testing.TB, s *Server) *bus.Conn {
	t.Helper()
	return connect(t, bus.Config{URL: s.URL(), Name: t.Name()})
}

// InProcess connects to a server without a socket, as an embedded one is used. The connection does
// not outlive a restart.
func InProcess(t testing.TB, s *Server) *bus.Conn {
	t.Helper()
	return connect(t, bus.Config{Server: s.Server, Name: t.Name()})
}

func connect(t testing.TB, cfg bus.Config) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(Context(t), cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Names gives a namespace that no other test has.
func Names(t testing.TB) subjects.Names {
	t.Helper()
	sum := sha256.Sum256([]byte(t.Name()))
	names, err := subjects.New("t" + hex.EncodeToString(sum[:4]))
	if err != nil {
		t.Fatalf("names: %v", err)
	}
	return names
}

// Context ends with the test, or after a time in which everything must have happened.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Await looks again and again whether ok holds, for what gives no signal. The test fails when it
// does not come to hold, saying what was awaited.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}
