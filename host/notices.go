package host

import (
	"context"
	"sync"

	"github.com/troupehq/troupe/actor"
)

// notices carries what threads of this process tell the hosts of their trees. While one message to a
// host is under way, what comes meanwhile waits and goes together in the next.
type notices struct {
	h *Host

	mu    sync.Mutex
	trees map[actor.ID]*outgoing
}

// outgoing is what waits to go to one host, in the order in which it came.
type outgoing struct{ chunks []*chunk }

// A chunk is one message to a host, and the acknowledgement of everything in it.
type chunk struct {
	envs []actor.Envelope
	done chan struct{}
	seq  uint64
	err  error
}

// Wait blocks until the message that the notice is part of is stored.
func (c *chunk) Wait(ctx context.Context) (uint64, error) {
	select {
	case <-c.done:
		return c.seq, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// maxNotices is how many envelopes go in one message.
const maxNotices = 500

func newNotices(h *Host) *notices { return &notices{h: h, trees: map[actor.ID]*outgoing{}} }

// send puts envs on their way to the host of root's tree, together.
func (n *notices) send(root actor.ID, envs []actor.Envelope) actor.Ack {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.trees[root]
	if o == nil {
		o = &outgoing{}
		n.trees[root] = o
		n.h.background.Go(func() { n.run(root, o) })
	}
	if len(o.chunks) == 0 || len(o.chunks[len(o.chunks)-1].envs) >= maxNotices {
		o.chunks = append(o.chunks, &chunk{done: make(chan struct{})})
	}
	last := o.chunks[len(o.chunks)-1]
	last.envs = append(last.envs, envs...)
	return last
}

// run sends what waits for one tree until nothing does.
func (n *notices) run(root actor.ID, o *outgoing) {
	subject := n.h.Names.Inbox(root, actor.LaneHost, runtimeID)
	for {
		n.mu.Lock()
		if len(o.chunks) == 0 {
			delete(n.trees, root)
			n.mu.Unlock()
			return
		}
		c := o.chunks[0]
		o.chunks = o.chunks[1:]
		n.mu.Unlock()
		c.seq, c.err = n.h.Conn.Send(subject, seal(c.envs)).Wait(context.Background())
		close(c.done)
	}
}

// runtimeID is the sender of messages that carry envelopes of several threads.
const runtimeID actor.ID = "runtime"
