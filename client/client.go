package client

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// DefaultTimeout is how long a request may take whose context has no deadline.
const DefaultTimeout = 30 * time.Second

// A Config says who asks, and where. Conn, Names and Agent are required.
type Config struct {
	Conn  *bus.Conn
	Names subjects.Names
	// Agent is who asks: any text for a program or a person, the id of a thread for a thread.
	Agent actor.ID
	// Root is the root of the agent's tree. Empty is the agent itself, which is right for all agents
	// but threads.
	Root actor.ID
	// Timeout is how long a request may take, with all its tries, whose context has no deadline.
	// 0 is DefaultTimeout.
	Timeout time.Duration
}

func (c *Config) validate() error {
	const op = "client.New"
	for _, required := range []struct {
		field   string
		missing bool
	}{{"conn", c.Conn == nil}, {"names", c.Names == subjects.Names{}}} {
		if required.missing {
			return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: required.field, Err: errors.New("is required")}
		}
	}
	if c.Root == "" {
		c.Root = c.Agent
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	for _, id := range []struct {
		field string
		id    actor.ID
	}{{"agent", c.Agent}, {"root", c.Root}} {
		if err := subjects.ValidID(id.id); err != nil {
			return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: id.field, Err: errors.Unwrap(err)}
		}
	}
	return nil
}

// A Client asks in the name of one agent. It may be used from any number of goroutines, and holds
// nothing that needs closing; the connection is its owner's.
type Client struct {
	cfg   Config
	store *store.Store
	key   string
}

// New makes a Client. It asks nothing of the server.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := store.New(store.Config{NC: cfg.Conn.NC, JS: cfg.Conn.JS, Sender: cfg.Conn, Names: cfg.Names})
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, store: st}, nil
}

// Agent is who asks.
func (c *Client) Agent() actor.ID { return c.cfg.Agent }

// WithKey gives a Client for one logical request, whose idempotency key is the caller's own: made
// again, also by another process, it has the same answer and is not done twice. A key counts for each
// agent and type of message by itself. The same key with another request is a Conflict.
func (c *Client) WithKey(key string) *Client {
	keyed := *c
	keyed.key = key
	return &keyed
}

// newKey draws an idempotency key.
func newKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
