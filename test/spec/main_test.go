// Package spec tests, over a real connection, that a running host does what the Subagents Capability
// Specification of A2E says, and what docs and decisions say where that is silent. A test TestS0_<n>_…
// belongs to decision n; a test TestCase<n>_… is a sequence of events that broke systems like ours.
package spec

import (
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
