package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

// TestDomain: the streams lie in a JetStream domain, which is part of every API subject.
func TestDomain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := "listen: 127.0.0.1:-1\njetstream { domain: hub, store_dir: " + t.TempDir() + " }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := bus.StartServer(bus.ServerConfig{Store: t.TempDir(), ConfigFile: file})
	if err != nil {
		t.Fatalf("start a server with a domain: %v", err)
	}
	t.Cleanup(func() { _ = server.Close() })
	conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	names := natstest.Names(t)
	if _, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.NewWithDomain(conn.NC, "hub")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Config{NC: conn.NC, JS: js, Sender: conn, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	a, n := actor.Address{ID: "a"}, 0
	seqs := fill(t, &env{Store: s}, a, 50)
	err = s.Journal.Range(t.Context(), a, 1, seqs[49], func(store.Message) error { n++; return nil })
	if err != nil || n != 50 {
		t.Errorf("a range has %d of 50 records (%v)", n, err)
	}
	stored(t, "create", s.Registry.Put("r", "", "c", 0, nil))
	if tree, err := s.Registry.Tree(t.Context(), "r"); err != nil || len(tree) != 1 {
		t.Errorf("the tree has %d entries (%v), want 1", len(tree), err)
	}
	data := random(3<<20, 5)
	ref, err := s.Blobs.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Blobs.Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the blob has %d other bytes (%v)", len(got), err)
	}
	if _, err := s.IDs.Next(t.Context()); err != nil {
		t.Error(err)
	}
	set(t, &env{Store: s}, "space", "key", `1`)
	remembers(t, &env{Store: s}, "space", "key", `1`)
	if err := s.Env.Remove(t.Context(), "nobody"); err != nil {
		t.Error(err)
	}
}
