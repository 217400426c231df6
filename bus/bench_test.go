package bus_test

import (
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

func benchRoom(b *testing.B) room {
	srv := natstest.Start(b)
	return furnish(b, srv, natstest.InProcess(b, srv), bus.Layout{Names: natstest.Names(b), Partitions: 1})
}

// BenchmarkSend publishes as fast as it can, with some thousand under way.
func BenchmarkSend(b *testing.B) {
	r := benchRoom(b)
	subject, data := r.names.Inbox("sub_1", actor.LaneA, "me"), make([]byte, 256)
	ctx := natstest.Context(b)
	acks := make(chan actor.Ack, 4096)
	take := func() {
		if _, err := (<-acks).Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(acks) == cap(acks) {
			take()
		}
		acks <- r.conn.Send(subject, data)
	}
	for len(acks) > 0 {
		take()
	}
}

// BenchmarkSendAwaited publishes one by one.
func BenchmarkSendAwaited(b *testing.B) {
	r := benchRoom(b)
	ctx := natstest.Context(b)
	for b.Loop() {
		if _, err := r.conn.Send(r.names.Inbox("sub_1", actor.LaneA, "me"), nil).Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReader delivers what is stored already: how fast a partition is read after a restart.
func BenchmarkReader(b *testing.B) {
	r := benchRoom(b)
	subject, data := r.names.Inbox("sub_1f0c22aa", actor.LaneA, "sub_0b1e55ed"), make([]byte, 256)
	var last actor.Ack
	for range b.N {
		last = r.conn.Send(subject, data)
	}
	stored(b, last)
	done, n := make(chan struct{}), 0
	reader, err := bus.NewReader(bus.ReaderConfig{
		Conn: r.conn, Names: r.names, Partition: subjects.Partition("sub_1f0c22aa", 1),
		Deliver: func(bus.Delivery) {
			if n++; n == b.N {
				close(done)
			}
		},
		OnBad: func(string, []byte) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	serve(b, reader.Serve)
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkHop is one message from Send to Deliver, one at a time.
func BenchmarkHop(b *testing.B) {
	r := benchRoom(b)
	rd := r.read(b, "sub_1", 0)
	subject := r.names.Inbox("sub_1", actor.LaneA, "me")
	for b.Loop() {
		r.conn.Send(subject, nil)
		<-rd.got
	}
}

// BenchmarkCaughtUp is how dear it is to move an idle partition's watermark.
func BenchmarkCaughtUp(b *testing.B) {
	r := benchRoom(b)
	rd := r.read(b, "sub_1", 0)
	ctx := natstest.Context(b)
	for b.Loop() {
		if _, _, err := rd.CaughtUp(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTimer sets timers and reports how late the latest one fired.
func BenchmarkTimer(b *testing.B) {
	r := benchRoom(b)
	rd := r.read(b, "sub_1", 0)
	timers := r.conn.Timers(r.names)
	const n = 200
	var worst time.Duration
	for b.Loop() {
		begin := time.Now()
		for i := range n {
			at := begin.Add(300*time.Millisecond + time.Duration(i)*10*time.Millisecond)
			timers.SetTimer("sub_1", at.Format("150405.000000"), at, []byte(at.Format(time.RFC3339Nano)))
		}
		for range n {
			at, err := time.Parse(time.RFC3339Nano, string((<-rd.got).Data))
			if err != nil {
				b.Fatal(err)
			}
			worst = max(worst, time.Since(at))
		}
	}
	b.ReportMetric(worst.Seconds(), "worst-s")
}
