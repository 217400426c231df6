package natstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/bus"
)

// A Cluster is a number of servers with JetStream over all of them.
type Cluster struct {
	Nodes []*Server
}

// NewCluster starts a cluster and waits until its JetStream has a leader, which takes a second or
// so. Tests that need one are few.
func NewCluster(t testing.TB, nodes int) *Cluster {
	t.Helper()
	c := &Cluster{}
	ports := FreePorts(t, 2*nodes)
	var routes []string
	for _, port := range ports[:nodes] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	for i := range nodes {
		dir := t.TempDir()
		file := filepath.Join(dir, "nats.conf")
		text := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:%d\ncluster { name: c, listen: 127.0.0.1:%d, routes: [%s] }\n",
			i, ports[nodes+i], ports[i], strings.Join(routes, ", "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, start(t, bus.ServerConfig{Store: filepath.Join(dir, "store"), ConfigFile: file}))
	}
	conn := c.Conn(t)
	Await(t, "the cluster has a leader", func() bool {
		// Short attempts: a request that comes before there is a leader is not answered at all.
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, err := conn.JS.AccountInfo(ctx)
		return err == nil
	})
	return c
}

// Conn connects to any node, and to another one when that is killed.
func (c *Cluster) Conn(t testing.TB) *bus.Conn {
	t.Helper()
	var urls []string
	for _, node := range c.Nodes {
		urls = append(urls, node.URL())
	}
	return connect(t, bus.Config{URL: strings.Join(urls, ","), Name: t.Name()})
}

// Leader is the node that leads a stream.
func (c *Cluster) Leader(t testing.TB, conn *bus.Conn, stream string) *Server {
	t.Helper()
	var found *Server
	Await(t, "stream "+stream+" has a leader", func() bool {
		s, err := conn.JS.Stream(Context(t), stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		for _, node := range c.Nodes {
			if node.Name() == s.CachedInfo().Cluster.Leader {
				found = node
			}
		}
		return found != nil
	})
	return found
}

// FreePorts finds ports that nobody listens on, below those that systems give to connections: one of these could be
// taken before it is listened on.
func FreePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for tries := 0; len(ports) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err != nil && tries < 1000 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
