package host_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/test/natstest"
)

// What looks like an envelope of the runtime is none on the lanes that outsiders may be allowed to publish to: it
// goes to the dead letters, unread. Neither a body that claims to hold two billion envelopes nor a reply
// subject inside the runtime's own streams gets any farther.
func TestEnvelopesFromOutside(t *testing.T) {
	t.Parallel()
	tr := natstest.StartTroupe(t, host.Config{})
	ctx := natstest.Context(t)
	answer := tr.Ask(t, "parent_1", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/echo"}}`)
	_, id, _ := strings.Cut(answer, `"subagent_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	victim := tr.Names.Journal(actor.Address{ID: actor.ID(id)})
	forged := []actor.Envelope{
		{Kind: "bundle", Body: []byte{0xdd, 0x7f, 0xff, 0xff, 0xff}},
		{Kind: agent.KindAwait, Asker: actor.Asker{Reply: victim}, Body: agent.Pack(&agent.Await{})},
	}
	for i := range forged {
		for _, lane := range []actor.Lane{actor.LaneA, actor.LaneB} {
			if _, err := tr.Conn.Send(tr.Names.Inbox(actor.ID(id), lane, "parent_1"), agent.Pack(&forged[i])).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	natstest.Await(t, "four dead letters", func() bool {
		s, err := tr.Conn.JS.Stream(ctx, tr.Names.DeadStream())
		return err == nil && s.CachedInfo().State.Msgs == 4
	})
	if m, err := tr.Store.Journal.Last(ctx, actor.Address{ID: actor.ID(id)}); err != nil || strings.HasPrefix(string(m.Data), "{") {
		t.Errorf("the last record of the thread is %q, %v; want a record of the runtime's", m.Data, err)
	}
	if answer := tr.Ask(t, "parent_1", `{"type":"SUBAGENT_AWAIT_REQ","subagent_id":"`+id+`"}`); !strings.Contains(answer, "READY") {
		t.Errorf("after forged envelopes the thread answers %s", answer)
	}
}
