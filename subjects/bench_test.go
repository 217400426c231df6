package subjects_test

import (
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// TestHotPathAllocations is not parallel: allocations are counted for the whole process.
func TestHotPathAllocations(t *testing.T) {
	n := names(t, "")
	stored := n.StoredInbox(7, "parent_1", actor.LaneA, "sub_1f0c22aa")
	for _, c := range []struct {
		what string
		want float64
		run  func()
	}{
		{"building an inbox subject", 1, func() { _ = n.Inbox("sub_1f0c22aa", actor.LaneA, "parent_1") }},
		{"building one with escapes", 1, func() { _ = n.Inbox("Ada 🎭", actor.LaneA, "a.b") }},
		{"building a stored subject", 1, func() { _ = n.StoredInbox(4711, "sub_1f0c22aa", actor.LaneA, "parent_1") }},
		{"building a journal subject", 1, func() { _ = n.Journal(actor.Address{ID: "sub_1f0c22aa", Host: true}) }},
		{"building a registry key", 1, func() { _ = subjects.RegistryKey("parent_1", "parent_1", "sub_1f0c22aa") }},
		{"parsing a stored subject", 0, func() { _, _, _ = n.ParseStoredInbox(stored) }},
		{"a partition", 0, func() { _ = subjects.Partition("sub_1f0c22aa", 8) }},
		{"encoding a plain token", 0, func() { _ = subjects.EncodeToken("sub_1f0c22aa") }},
		{"decoding a plain token", 0, func() { _, _ = subjects.DecodeToken("sub_1f0c22aa") }},
	} {
		if got := testing.AllocsPerRun(100, c.run); got > c.want {
			t.Errorf("%s allocates %v times, want %v: it is done for every envelope", c.what, got, c.want)
		}
	}
}

func BenchmarkInbox(b *testing.B) {
	n := names(b, "")
	b.ReportAllocs()
	for b.Loop() {
		n.Inbox("sub_1f0c22aa", actor.LaneA, "parent_1")
	}
}

func BenchmarkParseStoredInbox(b *testing.B) {
	n := names(b, "")
	s := n.StoredInbox(7, "sub_1f0c22aa", actor.LaneA, "parent_1")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := n.ParseStoredInbox(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPartition(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		subjects.Partition("sub_1f0c22aa", 8)
	}
}
