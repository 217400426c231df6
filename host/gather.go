package host

import (
	"context"
	"slices"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// gatherSlack is by how much the threads' patience outlasts the caller's, so that it is the caller's that
// ends first.
const gatherSlack = time.Second

// gather waits for several threads in the caller's place. If this process dies the caller's request
// gets no answer, and has to be made again.
func (v *visit) gather(ctx context.Context, m *a2e.AwaitReq, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ids := slices.Compact(slices.Sorted(slices.Values(m.SubagentIDs)))
	answers := make(chan []byte, len(ids))
	inbox := v.h.Conn.NewInbox()
	stop, err := v.h.Conn.Subscribe(inbox, func(_ string, data []byte) { answers <- slices.Clone(data) })
	if err != nil {
		return err
	}
	defer stop()
	one := *v
	one.reply, one.asker = inbox, actor.Asker{Reply: inbox}
	body := agent.Await{Until: time.Now().Add(wait + gatherSlack).UnixMicro()}
	for _, id := range ids {
		if err := one.send(ctx, v.h.Names.Inbox(id, actor.LaneA, v.caller), v.caller, agent.KindAwait, nil, &body); err != nil {
			return err
		}
	}
	need := agent.Needed(m, len(ids))
	var got [][]byte
	for {
		select {
		case data := <-answers:
			got = append(got, data)
		case <-ctx.Done():
			return &actor.Error{Kind: actor.Timeout, Err: ctx.Err()}
		}
		if done, resp := agent.Gathered(m.Mode, got, len(ids)-len(got), need); done {
			resp.Envelope = a2e.Answer(v.env, time.Now())
			v.answer(resp)
			return nil
		}
	}
}
