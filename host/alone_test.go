package host_test

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/subjects"
	"github.com/troupehq/troupe/test/natstest"
)

// A message that ten owners have died over is not decided again: it is a dead letter, whoever asked is told, and what
// was sent before and after it goes its way. Nine are not enough: something else may have killed them.
func TestDeathsOverOneMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		deaths int
		dead   uint64
	}{
		{"the ninth", 8, 0},
		{"the tenth", 9, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := natstest.StartTroupe(t, host.Config{})
			ctx := natstest.Context(t)
			answer := tr.Ask(t, "parent_1", `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/echo"}}`)
			_, id, _ := strings.Cut(answer, `"subagent_id":"`)
			id, _, _ = strings.Cut(id, `"`)
			tr.StopHost(t)

			asks, err := tr.Conn.NC.SubscribeSync(tr.Conn.NC.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			var seqs []uint64
			for _, text := range []string{"first", "second", "third"} {
				env := actor.Envelope{
					From: "parent_1", Kind: agent.KindDelegate, Asker: actor.Asker{Reply: asks.Subject},
					Body: agent.Pack(&agent.Delegate{Name: text, Task: actor.Value{JSON: []byte(`{"name":"` + text + `","instruction":"` + text + `"}`)}}),
				}
				seq, err := tr.Conn.Send(tr.Names.Inbox(actor.ID(id), actor.LaneQueue, "parent_1"), agent.Pack(&env)).Wait(ctx)
				if err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, seq)
			}
			layout, err := tr.Conn.Layout(ctx, tr.Names)
			if err != nil {
				t.Fatal(err)
			}
			n := subjects.Partition(actor.ID(id), layout.Partitions)
			lease, rev, err := tr.Store.Leases.Get(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			lease.Owner, lease.Takeovers, lease.Deciding, lease.Deaths = tr.Host.Member, 12, seqs[1], tt.deaths
			if _, err := tr.Store.Leases.Write(ctx, n, lease, rev); err != nil {
				t.Fatal(err)
			}

			tr.StartHost(t)
			var accepted, refused int
			for range seqs {
				m, err := asks.NextMsgWithContext(ctx)
				switch {
				case err != nil:
					t.Fatal(err)
				case strings.Contains(string(m.Data), `"accepted":true`):
					accepted++
				case strings.Contains(string(m.Data), `"runtime_error"`) && strings.Contains(string(m.Data), "died"):
					refused++
				default:
					t.Errorf("an answer is %s", m.Data)
				}
			}
			if accepted != len(seqs)-int(tt.dead) || refused != int(tt.dead) {
				t.Errorf("%d tasks were accepted and %d refused, want %d refused", accepted, refused, tt.dead)
			}
			natstest.Await(t, "the lease to forget the message", func() bool {
				lease, _, err := tr.Store.Leases.Get(ctx, n)
				return err == nil && lease.Watermark >= seqs[2] && lease.Takeovers == 0 && lease.Deciding == 0 && lease.Deaths == 0
			})
			s, err := tr.Conn.JS.Stream(ctx, tr.Names.DeadStream())
			if err != nil || s.CachedInfo().State.Msgs != tt.dead {
				t.Errorf("%d dead letters (%v), want %d", s.CachedInfo().State.Msgs, err, tt.dead)
			}
		})
	}
}
