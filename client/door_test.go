package client_test

import (
	"context"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/subjects"
)

// serveDoor answers requests as a host would, in the words of answer.
func serveDoor(ctx context.Context, conn *bus.Conn, names subjects.Names, answer func(a2e.Envelope) a2e.Message) error {
	return conn.ServeA2E(ctx, names, "0.0.1", func() {}, func(r bus.Request) {
		data, err := a2e.Encode(answer(a2e.DecodeEnvelope(r.Data)))
		if err == nil {
			err = conn.Publish(r.Reply, data)
		}
		if err != nil {
			panic(err)
		}
	})
}
