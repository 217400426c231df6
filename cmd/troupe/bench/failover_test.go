package bench

import (
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
)

// The books of failover find what is lost and what comes twice, thread by thread: one does not make up for the other.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := &ledger{accepted: map[actor.ID]int{}, sessions: map[actor.ID]map[string]int{}, arrived: map[actor.ID]chan struct{}{}}
	for _, id := range []actor.ID{"good", "lost", "twice"} {
		l.add(id)
	}
	l.accepted["good"], l.accepted["lost"], l.accepted["twice"] = 2, 2, 1
	for _, m := range []bus.Mail{
		{From: "good", Session: "1"}, {From: "good", Session: "2"}, {From: "lost", Session: "1"},
		{From: "twice", Session: "1"}, {From: "twice", Session: "1"}, {From: "stranger", Session: "1"},
	} {
		l.take(m)
	}
	if accepted, lost, doubled := l.balance(); accepted != 5 || lost != 1 || doubled != 1 {
		t.Errorf("%d accepted, %d lost, %d doubled; want 5, 1, 1", accepted, lost, doubled)
	}
}
