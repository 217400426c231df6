package natstest

import (
	"testing"

	"go.uber.org/goleak"
)

// serverOwn are goroutines of a server that was stopped which end by themselves, later: one that waits half a
// minute for an answer when the server was stopped while one stream began to source another, and the
// writers of streams' states.
var serverOwn = []string{"(*stream).trySetupSourceConsumer.func3", "(*fileStore).flushStreamStateLoop"}

// Main runs a package's tests and fails if they leave a goroutine behind.
func Main(m *testing.M, opts ...goleak.Option) {
	for _, f := range serverOwn {
		opts = append(opts, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server."+f))
	}
	goleak.VerifyTestMain(m, opts...)
}
