// Package spec tests, over a real connection, that a running host does what the Subagents Capability
// Specification of A2E (S0) and the Subagents page of Standard Agents (S1) say, and what docs and decisions say
// where these are silent. A test TestS0_<n>_… or TestS1Decision<n>_… belongs to decision n, a test
// TestS1_<clause>_… to a clause, which it quotes; a test TestCase<n>_… or TestS1Sequence… is a sequence of
// events that broke systems like ours.
package spec

import (
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
