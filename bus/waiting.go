package bus

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/subjects"
)

// Waiting counts the messages of a partition of the inbox above a sequence: with that of the lease's watermark, those
// that are not known to be settled. The server counts, and reads none of them; a replica that lags may count too few.
func (c *Conn) Waiting(ctx context.Context, names subjects.Names, partition int, above uint64) (uint64, error) {
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	stream := names.InboxStream()
	consumer, err := c.JS.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: names.InboxPartition(partition), DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: above + 1,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: idleConsumer,
	})
	if err != nil {
		return 0, wrap("bus.Waiting", "count in "+stream, err)
	}
	info := consumer.CachedInfo()
	_ = c.JS.DeleteConsumer(ctx, stream, info.Name) // else it goes by itself
	return info.NumPending, nil
}
