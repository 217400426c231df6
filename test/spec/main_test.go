// Package spec tests, over a real connection, that a running host does what the Subagents Capability
// Specification of A2E says, and what docs and decisions say where that is silent. A test TestS0_<n>_…
// belongs to decision n; a test TestCase<n>_… is a sequence of events that broke systems like ours.
package spec

import (
	"testing"

	"go.uber.org/goleak"
)

// A server that is stopped while it sets up the sourcing of one stream by another leaves a goroutine
// behind that waits half a minute for an answer. It is nats-server's, and ends by itself.
const sourceSetup = "github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(sourceSetup)) }
