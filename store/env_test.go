package store_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// An env is a namespace on running servers, and a Store on it.
type env struct {
	names   subjects.Names
	server  *natstest.Server  // of a single
	cluster *natstest.Cluster // of a cluster
	conn    *bus.Conn
	nc      *nats.Conn
	js      jetstream.JetStream
	*store.Store
}

// single is one server without a cluster.
func single(t testing.TB) *env {
	t.Helper()
	e := &env{server: natstest.Start(t)}
	return e.open(t, natstest.Conn(t, e.server), 1)
}

// cluster is three servers in this process.
func cluster(t testing.TB) *env {
	t.Helper()
	e := &env{cluster: natstest.NewCluster(t, 3)}
	return e.open(t, e.cluster.Conn(t), 3)
}

// beside is a namespace of its own on the same servers, for what concerns a whole one.
func (e *env) beside(t testing.TB) *env {
	t.Helper()
	replicas := 1
	if e.cluster != nil {
		replicas = 3
	}
	return (&env{server: e.server, cluster: e.cluster}).open(t, e.conn, replicas)
}

func (e *env) open(t testing.TB, conn *bus.Conn, replicas int) *env {
	t.Helper()
	e.names, e.conn, e.nc, e.js = natstest.Names(t), conn, conn.NC, conn.JS
	if _, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: e.names, Replicas: replicas}); err != nil {
		t.Fatalf("create the streams: %v", err)
	}
	var err error
	if e.Store, err = store.New(store.Config{NC: e.nc, JS: e.js, Sender: conn, Names: e.names}); err != nil {
		t.Fatalf("New on a full Config: %v", err)
	}
	return e
}

// other is a Store on the same namespace that is configured otherwise.
func (e *env) other(t testing.TB, change func(c *store.Config)) *store.Store {
	t.Helper()
	c := store.Config{NC: e.nc, JS: e.js, Sender: e.conn, Names: e.names}
	change(&c)
	s, err := store.New(c)
	if err != nil {
		t.Fatalf("New on a full Config: %v", err)
	}
	return s
}

// raw is what a plain NATS client reads under a key of a bucket.
func (e *env) raw(t testing.TB, bucket, key string) string {
	t.Helper()
	kv, err := e.js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatalf("a plain NATS client must be able to bind to %s: %v", bucket, err)
	}
	entry, err := kv.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("a plain NATS client reads %s of %s: %v", key, bucket, err)
	}
	return string(entry.Value())
}

// spoil writes a value under a key of a bucket, as anybody could who may.
func (e *env) spoil(t testing.TB, bucket, key, value string) {
	t.Helper()
	if _, err := e.js.Publish(t.Context(), subjects.KVSubject(bucket, key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// consumers counts the consumers of a stream.
func (e *env) consumers(t testing.TB, stream string) int {
	t.Helper()
	s, err := e.js.Stream(natstest.Context(t), stream)
	if err != nil {
		t.Fatalf("info of stream %s: %v", stream, err)
	}
	return s.CachedInfo().State.Consumers
}

// noConsumers waits until a stream has none: other parts of the suite may be reading.
func noConsumers(t testing.TB, e *env, stream string) {
	t.Helper()
	natstest.Await(t, "stream "+stream+" has no consumers left", func() bool { return e.consumers(t, stream) == 0 })
}
