package history

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

const (
	leaseTerm = 500 * time.Millisecond
	maxLive   = 6
	tryTime   = 400 * time.Millisecond
)

// A world is a namespace with hosts in this process, each behind a proxy of its own.
type world struct {
	t       *testing.T
	cluster *natstest.Cluster // nil on one server
	nodes   []*natstest.Server
	source  *Source
	layout  bus.Layout
	members []*member
	log     logs
	gone    sync.WaitGroup // hosts that were killed and have not ended yet

	restarting sync.Mutex
}

// A member is a host that dies and comes back.
type member struct {
	w     *world
	name  string
	proxy *natstest.Proxy

	mu   sync.Mutex // held by whoever does something to it
	conn *bus.Conn
	stop context.CancelFunc // nil while it is dead
	done chan struct{}
}

// logs keeps what the hosts log.
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

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newWorld starts nodes servers, 1 or 3, and as many hosts as are wanted.
func newWorld(t *testing.T, nodes, hosts int) *world {
	t.Helper()
	w := &world{t: t}
	var conn *bus.Conn
	if nodes == 1 {
		w.nodes = []*natstest.Server{natstest.Start(t)}
		conn = natstest.Conn(t, w.nodes[0])
	} else {
		w.cluster = natstest.NewCluster(t, nodes)
		w.nodes = w.cluster.Nodes
		conn = w.cluster.Conn(t)
	}
	names := natstest.Names(t)
	var err error
	if w.layout, err = conn.Ensure(t.Context(), bus.Layout{Names: names, Partitions: 4, Replicas: nodes}); err != nil {
		t.Fatal(err)
	}
	st := w.store(conn)
	if err := Define(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	book, err := Open(conn, names, tryTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(book.Close)
	w.source = &Source{Conn: conn, Store: st, Names: names, Book: book, MaxLive: maxLive}
	for n := range hosts {
		m := &member{w: w, name: fmt.Sprintf("host%d", n), proxy: natstest.NewProxy(t, w.nodes...)}
		w.members = append(w.members, m)
		m.start()
	}
	t.Cleanup(func() {
		for _, m := range w.members {
			m.kill()
		}
		w.gone.Wait()
	})
	return w
}

func (w *world) store(conn *bus.Conn) *store.Store {
	st, err := store.New(store.Config{NC: conn.NC, JS: conn.JS, Sender: conn, Names: w.names()})
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

func (w *world) names() subjects.Names { return w.layout.Names }

// start starts the host, as soon as there is a server.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		return // another fault has killed it, too, and brought it back
	}
	m.proxy.Heal()
	cfg := bus.Config{URL: m.proxy.URL(), Name: m.name, Options: []nats.Option{nats.IgnoreDiscoveredServers()}}
	natstest.Await(m.w.t, m.name+" is connected", func() (ok bool) {
		var err error
		m.conn, err = bus.Connect(context.Background(), cfg)
		return err == nil
	})
	h, err := host.New(host.Config{
		Conn: m.conn, Store: m.w.store(m.conn), Names: m.w.names(), Partitions: m.w.layout.Partitions, Member: m.name, Version: "0.1.0",
		Limits: host.Limits{MaxLive: maxLive}, LeaseTerm: leaseTerm, Log: zerolog.New(&m.w.log).With().Timestamp().Str("host", m.name).Logger(),
	})
	if err != nil {
		m.w.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.done = stop, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		if err := h.Serve(ctx); err != nil && ctx.Err() == nil {
			m.w.t.Errorf("%s ended by itself: %v", m.name, err)
		}
	}(m.done)
}

// kill ends the host as a power switch would: nothing more that it says arrives.
func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		return
	}
	m.stop() // first: a closed connection is an end by itself
	m.proxy.Cut()
	m.conn.Close()
	m.stop = nil
	done := m.done
	m.w.gone.Go(func() { <-done })
}
