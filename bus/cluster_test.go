package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

// On a cluster of three, the leader of the inbox stream is killed while a Reader runs, and when it is
// back the server that runs the Reader's consumer. Nothing is lost, nothing comes twice, all in order.
func TestClusterServerKilled(t *testing.T) {
	t.Parallel()
	cluster := natstest.NewCluster(t, 3)
	conn := cluster.Conn(t)
	r := furnish(t, nil, conn, bus.Layout{Names: natstest.Names(t), Partitions: 2, Replicas: 3})
	if l, err := conn.Layout(natstest.Context(t), r.names); err != nil || l.Replicas != 3 {
		t.Fatalf("layout %+v, %v; want 3 replicas", l, err)
	}
	rd := r.read(t, "sub_1", 0)
	ctx := natstest.Context(t)
	sent := 0
	for _, victim := range []string{"leader", "consumer"} {
		sent += flood(ctx, t, r, sent, 300)
		node := cluster.Leader(t, conn, r.names.InboxStream())
		if victim == "consumer" {
			node = consumerNode(t, cluster, r)
		}
		begin := time.Now()
		node.Stop(t)
		sent += flood(ctx, t, r, sent, 300)
		rd.distinct(t, sent)
		t.Logf("%v from the end of the %s's server until all was delivered", time.Since(begin), victim)
		node.Restart(t)
	}
	natstest.Await(t, "the watermark reaches the end", func() bool {
		seq, idle, err := rd.CaughtUp(ctx)
		return err == nil && idle && seq >= uint64(sent)
	})
}

// consumerNode is the server that runs a Reader's consumer.
func consumerNode(t *testing.T, cluster *natstest.Cluster, r room) (found *natstest.Server) {
	t.Helper()
	ctx := natstest.Context(t)
	natstest.Await(t, "the reader has a consumer", func() bool {
		s, err := r.conn.JS.Stream(ctx, r.names.InboxStream())
		if err != nil {
			return false
		}
		for info := range s.ListConsumers(ctx).Info() {
			for _, node := range cluster.Nodes {
				if info.Cluster != nil && info.Cluster.Leader == node.Name() {
					found = node
				}
			}
		}
		return found != nil
	})
	return found
}

// flood stores n numbered messages one after the other, sending each until it is acknowledged, which
// may store it twice: at least once is all that a sender can have while leaders change.
func flood(ctx context.Context, t *testing.T, r room, first, n int) int {
	t.Helper()
	for i := first; i < first+n; i++ {
		natstest.Await(t, fmt.Sprintf("message %d is stored", i), func() bool {
			_, err := r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), fmt.Append(nil, i)).Wait(ctx)
			return err == nil
		})
	}
	return n
}

// distinct takes deliveries until n different texts have come since the beginning: sequences rise,
// and a text comes again only under another sequence, right behind itself.
func (rd *reading) distinct(t *testing.T, n int) {
	t.Helper()
	for want := len(rd.texts); want < n; {
		d := next(t, fmt.Sprintf("message %d", want), rd.got)
		if d.Seq <= rd.seq {
			t.Fatalf("sequence %d after %d: repeated or out of order", d.Seq, rd.seq)
		}
		rd.seq = d.Seq
		switch string(d.Data) {
		case fmt.Sprint(want):
			rd.texts = append(rd.texts, string(d.Data))
			want++
		case fmt.Sprint(want - 1): // its sender did not learn that it was stored
		default:
			t.Fatalf("delivered %q where %d was due: lost or out of order", d.Data, want)
		}
	}
}

// Two Ensures at once on a cluster, and a Reader that starts before there is a leader to ask.
func TestClusterEnsure(t *testing.T) {
	t.Parallel()
	cluster := natstest.NewCluster(t, 3)
	names := natstest.Names(t)
	errs := make(chan error, 3)
	for range cap(errs) {
		conn := cluster.Conn(t)
		go func() {
			_, err := conn.Ensure(natstest.Context(t), bus.Layout{Names: names, Replicas: 3})
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := next(t, "Ensure", errs); err != nil {
			t.Errorf("Ensure: %v", err)
		}
	}
}
