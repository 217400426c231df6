package natstest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// A Proxy stands between clients and servers. It can hold what comes, in both directions, or cut everybody off.
// It listens on a free port of the loopback interface.
type Proxy struct {
	listen  net.Listener
	servers []string // addresses; the first that answers is taken

	mu     sync.Mutex
	open   map[net.Conn]bool
	hold   chan struct{} // closed when what is held may go on; nil while nothing is held
	cut    bool
	closed bool
	copies sync.WaitGroup
}

// NewProxy starts a proxy for servers.
func NewProxy(t testing.TB, servers ...*Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listen: l, open: map[net.Conn]bool{}}
	for _, s := range servers {
		p.servers = append(p.servers, strings.TrimPrefix(s.URL(), "nats://"))
	}
	p.copies.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL is where clients connect to.
func (p *Proxy) URL() string { return "nats://" + p.listen.Addr().String() }

// Hold lets nothing through until Heal; the connections stay, and what was held comes late.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold == nil {
		p.hold = make(chan struct{})
	}
}

// Cut breaks all connections, with whatever is on its way, and makes none until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.drop()
}

// drop closes all connections. The caller holds p.mu.
func (p *Proxy) drop() {
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// Heal lets everything through again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.release()
}

func (p *Proxy) release() {
	if p.hold != nil {
		close(p.hold)
		p.hold = nil
	}
}

func (p *Proxy) close() {
	p.listen.Close()
	p.mu.Lock()
	p.closed = true
	p.release()
	p.drop()
	p.mu.Unlock()
	p.copies.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return // it is closed
		}
		p.copies.Go(func() { p.connect(client) })
	}
}

// connect takes a client to a server.
func (p *Proxy) connect(client net.Conn) {
	for _, address := range p.servers {
		server, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		if !p.keep(client, server) {
			break
		}
		p.copies.Go(func() { p.copy(server, client) })
		p.copy(client, server)
		return
	}
	client.Close()
}

// keep remembers a pair of connections, unless there may be none.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		server.Close()
		return false
	}
	p.open[client], p.open[server] = true, true
	return true
}

// copy copies until one end is closed, and closes both.
func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		hold := p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
