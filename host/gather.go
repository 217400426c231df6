package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// gatherSlack is by how much the threads' patience outlasts the caller's, so that it is the caller's that
// ends first.
const gatherSlack = time.Second

// An answered is what one of the threads said, on the subject that is its own.
type answered struct {
	subject string
	data    []byte
}

// gather waits for several threads in the caller's place. If this process dies the caller's request
// gets no answer, and has to be made again.
func (v *visit) gather(ctx context.Context, m *a2e.AwaitReq, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ids := slices.Compact(slices.Sorted(slices.Values(m.SubagentIDs)))
	if len(ids) > agent.MaxAwaits {
		return &actor.Error{Kind: actor.SchemaViolation, Field: "subagent_ids", Err: fmt.Errorf("has more than %d subagents", agent.MaxAwaits)}
	}
	answers := make(chan answered)
	inbox := v.h.Conn.NewInbox()
	stop, err := v.h.Conn.Subscribe(inbox+".*", func(subject string, data []byte) {
		select {
		case answers <- answered{subject, slices.Clone(data)}:
		case <-ctx.Done():
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	defer cancel() // before stop, which waits for the function above
	one := *v
	body := agent.Await{Until: time.Now().Add(wait + gatherSlack).UnixMicro()}
	for i, id := range ids {
		one.reply = inbox + "." + strconv.Itoa(i)
		one.asker = actor.Asker{Reply: one.reply}
		if err := one.send(ctx, v.h.Names.Inbox(id, actor.LaneQueue, v.caller), v.caller, agent.KindAwait, nil, &body); err != nil {
			return err
		}
	}
	need := agent.Needed(m, len(ids))
	var got [][]byte
	heard := map[string]bool{} // an answer may come again
	for {
		select {
		case a := <-answers:
			if heard[a.subject] {
				continue
			}
			heard[a.subject] = true
			got = append(got, a.data)
		case <-ctx.Done():
			return &actor.Error{Kind: actor.Timeout, Err: errors.New("the time allowed for waiting is over")}
		}
		if done, resp := agent.Gathered(m.Mode, got, len(ids)-len(got), need); done {
			resp.Envelope = a2e.Answer(v.env, time.Now())
			v.answer(resp)
			return nil
		}
	}
}
