package history

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/natstest"
)

// TestNobodyWaitsInSilence: a request that was stored, but can't be decided as the journal takes no more, is answered
// with an error that asks for another try; once there is room, the same request is done, once.
func TestNobodyWaitsInSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.source.Agents = []actor.ID{AgentID(0)}
	conn, ctx := w.source.Conn, natstest.Context(t)
	stream, err := conn.JS.Stream(ctx, w.names().JournalStream())
	if err != nil {
		t.Fatal(err)
	}
	usual := stream.CachedInfo().Config
	full := usual
	full.Discard, full.MaxBytes = jetstream.DiscardNew, 1
	if _, err := conn.JS.UpdateStream(ctx, full); err != nil {
		t.Fatal(err)
	}
	data, err := a2e.Encode(&a2e.SpawnReq{
		Envelope: a2e.Envelope{ID: "once"}, Agent: a2e.SubagentConfig{Name: "only", Model: "builtin/echo"}.WithDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() a2e.Message {
		answer, err := conn.RequestWith(ctx, w.names().A2E(AgentID(0)), nil, data)
		if err != nil {
			return nil // the first may come to its end just before it is told
		}
		msg, err := a2e.DecodeAnswer(answer)
		if err != nil {
			t.Errorf("an answer that is none: %s", answer)
		}
		return msg
	}
	natstest.Await(t, "the request is answered though nothing is stored", func() bool {
		e, ok := ask().(*a2e.Error)
		if ok && e.Code != actor.Unavailable {
			t.Fatalf("it is answered with %v, which asks for no other try", e)
		}
		return ok
	})
	if _, err := conn.JS.UpdateStream(ctx, usual); err != nil {
		t.Fatal(err)
	}
	var born actor.ID
	natstest.Await(t, "the request is done once there is room", func() bool {
		resp, ok := ask().(*a2e.SpawnResp)
		if ok {
			born = resp.SubagentID
		}
		return ok
	})
	listed, err := w.source.list(ctx)
	if err != nil || len(listed) != 1 || listed[born] != a2e.Ready {
		t.Errorf("there are %v (%v), want %s alone", listed, err, born)
	}
}
