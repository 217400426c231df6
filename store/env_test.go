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
