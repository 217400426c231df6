package bus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

func startServer(t *testing.T, cfg bus.ServerConfig) *bus.Server {
	t.Helper()
	srv, err := bus.StartServer(cfg)
	if err != nil {
		t.Fatalf("StartServer: %v", err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func TestServerInProcessOnly(t *testing.T) {
	t.Parallel()
	srv := startServer(t, bus.ServerConfig{Store: t.TempDir()})
	if srv.URL() != "" {
		t.Errorf("URL is %q, want none: nothing was to listen", srv.URL())
	}
	conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.JS.AccountInfo(natstest.Context(t)); err != nil {
		t.Errorf("JetStream is not up when StartServer returns: %v", err)
	}
	if conn.MaxPayload() != 1<<20 {
		t.Errorf("MaxPayload is %d, want the server's default of 1 MiB", conn.MaxPayload())
	}
}

func TestServerStoreAdmitsOne(t *testing.T) {
	t.Parallel()
	cfg := bus.ServerConfig{Store: t.TempDir()}
	srv := startServer(t, cfg)
	_, err := bus.StartServer(cfg)
	wantKind(t, "a second server on a store directory", err, actor.Conflict)
	if want := fmt.Sprintf("process %d on ", os.Getpid()); !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say who holds the store directory: %v", err)
	}
	member := srv.Member()
	if len(member) != 16 {
		t.Errorf("member id %q, want 16 hex digits", member)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	again := startServer(t, cfg)
	if again.Member() != member {
		t.Errorf("member id %q after a restart, want %q as before", again.Member(), member)
	}
	if other := startServer(t, bus.ServerConfig{Store: t.TempDir()}); other.Member() == member {
		t.Error("two store directories have the same member id")
	}
}

func TestServerRefusesBadConfig(t *testing.T) {
	t.Parallel()
	busy := natstest.Start(t)
	bad := filepath.Join(t.TempDir(), "bad.conf")
	if err := os.WriteFile(bad, []byte("cluster {"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  bus.ServerConfig
		want actor.Kind
	}{
		"no store":           {bus.ServerConfig{}, actor.SchemaViolation},
		"sync is no time":    {bus.ServerConfig{Store: t.TempDir(), Sync: "often"}, actor.SchemaViolation},
		"sync below zero":    {bus.ServerConfig{Store: t.TempDir(), Sync: "-1s"}, actor.SchemaViolation},
		"listen has no port": {bus.ServerConfig{Store: t.TempDir(), Listen: "localhost"}, actor.SchemaViolation},
		"no such file":       {bus.ServerConfig{Store: t.TempDir(), ConfigFile: "/no/such/file"}, actor.SchemaViolation},
		"a broken file":      {bus.ServerConfig{Store: t.TempDir(), ConfigFile: bad}, actor.SchemaViolation},
		"the port is taken": {bus.ServerConfig{Store: t.TempDir(),
			Listen: strings.TrimPrefix(busy.URL(), "nats://")}, actor.Unavailable},
	} {
		srv, err := bus.StartServer(c.cfg)
		wantKind(t, name, err, c.want)
		if srv != nil {
			t.Errorf("%s: a server beside an error", name)
		}
	}
}

func TestServerSync(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"", "always", "1s"} {
		srv := startServer(t, bus.ServerConfig{Store: t.TempDir(), Sync: sync})
		conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: srv})
		if err != nil {
			t.Fatal(err)
		}
		r := furnish(t, nil, conn, bus.Layout{Names: natstest.Names(t)})
		r.send(t, "sub_1", "x")
		conn.Close()
	}
}

func TestServerConfigFileWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("server_name: given\nlisten: 127.0.0.1:-1\nmax_payload: 2MB\njetstream { store_dir: %q }\n"+
		"authorization { user: u, password: s3cret }\n", filepath.Join(dir, "js"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := startServer(t, bus.ServerConfig{Store: filepath.Join(dir, "store"), ConfigFile: file, Name: "other", Listen: "127.0.0.1:1"})
	if srv.Name() != "given" {
		t.Errorf("the server's name is %q, want the file's", srv.Name())
	}
	if _, err := os.Stat(filepath.Join(dir, "js", "jetstream")); err != nil {
		t.Errorf("the streams are not where the file says: %v", err)
	}
	at := strings.Replace(srv.URL(), "nats://", "nats://u:s3cret@", 1)
	conn, err := bus.Connect(natstest.Context(t), bus.Config{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.MaxPayload() != 2_000_000 && conn.MaxPayload() != 2<<20 {
		t.Errorf("MaxPayload is %d, want the file's 2 MB", conn.MaxPayload())
	}
	_, err = bus.Connect(natstest.Context(t), bus.Config{URL: strings.Replace(at, "s3cret", "wr0ng", 1)})
	wantKind(t, "a wrong password", err, actor.Unavailable)
	if strings.Contains(err.Error(), "wr0ng") || !strings.Contains(err.Error(), srv.URL()) {
		t.Errorf("the error must name the URL without its password: %v", err)
	}
}

func TestConnectFails(t *testing.T) {
	t.Parallel()
	ctx := natstest.Context(t)
	_, err := bus.Connect(ctx, bus.Config{URL: "nats://me:s3cret@127.0.0.1:1"})
	wantKind(t, "nobody listens", err, actor.Unavailable)
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "nats://127.0.0.1:1") {
		t.Errorf("the error must name the URL without its password: %v", err)
	}
	_, err = bus.Connect(ctx, bus.Config{URL: "nats://me:s3cret@[::1"})
	wantKind(t, "a malformed URL", err, actor.Unavailable)
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows the password: %v", err)
	}
	_, err = bus.Connect(ctx, bus.Config{URL: "nats://127.0.0.1:1", Context: "x"})
	wantKind(t, "two places at once", err, actor.SchemaViolation)
	_, err = bus.Connect(ctx, bus.Config{Context: "there-is-no-such-context"})
	wantKind(t, "an unknown context", err, actor.Unavailable)
}

func TestConnectOptionsOverride(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn, err := bus.Connect(natstest.Context(t), bus.Config{URL: srv.URL(), Options: []nats.Option{nats.Name("mine")}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.NC.Opts.Name != "mine" {
		t.Errorf("the connection is called %q, want the caller's option to win", conn.NC.Opts.Name)
	}
}

// A saved context is an absolute file name here, which natscontext takes as well.
func TestConnectContext(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	file := filepath.Join(t.TempDir(), "here.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"url":%q,"inbox_prefix":"_INBOX_me"}`, srv.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(natstest.Context(t), bus.Config{Context: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	r := furnish(t, srv, conn, bus.Layout{Names: natstest.Names(t), Partitions: 1})
	rd := r.read(t, "sub_1", 0)
	r.send(t, "sub_1", "0")
	rd.inOrder(t, 0, 1)
}
