package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// The names of timers. That of a tool call is timerCall and the call's key.
const (
	timerTimeout = "timeout"
	timerIdle    = "idle"
	timerBudget  = "budget"
	timerSleep   = "sleep"
	timerCall    = "call-"
)

// A turn is one decision under way.
type turn struct {
	*Thread
	now       int64 // microseconds
	env       *actor.Envelope
	out       actor.Turn
	dirty     bool   // the registry entry is no longer true
	spilled   int    // bytes of results that became completions
	notified  int    // what the parent was told of in the turn
	told      int    // bytes of answers that tell of the end of the session
	sign      int64  // when a job that runs here last gave a sign of life; microseconds
	recall    uint64 // the reservation that the host asks back
	overtimed bool   // the session ends with the time that a budget gives it
	most      int    // messages that may be queued; 0: without limit
}

// Decide takes the envelopes in order, then starts what became possible.
func (t *Thread) Decide(in actor.Input) actor.Turn {
	x := &turn{Thread: t, now: in.Now.UnixMicro(), most: in.Queued}
	if !in.Alive.IsZero() {
		x.sign = in.Alive.UnixMicro()
	}
	ticked := t.head.ticks()
	if in.Resumed {
		x.resumed()
	}
	for i := range in.Batch {
		x.env = &in.Batch[i]
		if err := x.take(); err != nil {
			x.refuse(err)
		}
	}
	x.env = nil
	return x.finish(ticked)
}

// Fail ends the session, if one is open, because an envelope to it can't be decided.
func (t *Thread) Fail(in actor.Input, reason string) actor.Turn {
	x := &turn{Thread: t, now: in.Now.UnixMicro()}
	if t.head.Open {
		x.end(StopError, actor.Value{}, reason)
	}
	return x.finish(false)
}

func (x *turn) finish(ticked bool) actor.Turn {
	x.expire()
	x.tell(maxTold)
	x.advance()
	x.watchIdle(ticked)
	x.giveBack()
	if x.dirty {
		x.head.UpdatedAt = x.now
		x.effect(actor.Effect{Kind: actor.EffectRegistry})
	}
	return x.out
}

func (x *turn) take() error {
	switch x.env.Kind {
	case KindDelegate:
		return taking(x, x.delegate)
	case KindMessage:
		return taking(x, x.message)
	case KindAwait:
		return taking(x, x.await)
	case KindStop:
		return taking(x, x.stop)
	case KindCompletion:
		return taking(x, x.completion)
	case KindAnswer:
		return taking(x, x.answered)
	case KindJob:
		return taking(x, x.job)
	case KindTimer:
		return taking(x, x.timer)
	case KindQuestion:
		return taking(x, x.question)
	case KindBoot:
		return taking(x, x.boot)
	case KindNotify:
		return taking(x, x.heard)
	case KindExtend:
		return taking(x, x.extend)
	case KindGrant:
		return taking(x, x.granted)
	case KindGone:
		return taking(x, x.gone)
	case KindSpent:
		return taking(x, x.spent)
	case KindRecall:
		return taking(x, x.recalled)
	case KindWake:
		return nil
	}
	return fmt.Errorf("a thread takes no envelope of kind %q", x.env.Kind)
}

// taking unpacks the envelope's body for f.
func taking[B any](x *turn, f func(*B)) error {
	var body B
	if err := Unpack(x.env.Body, &body); err != nil {
		return err
	}
	f(&body)
	return nil
}

// refuse puts an envelope that can't be understood into the dead letters.
func (x *turn) refuse(err error) {
	x.effect(DeadEffect(x.self(), err.Error(), x.env))
}

func (x *turn) self() actor.Address { return actor.Address{ID: x.head.Lineage.ID} }

func (x *turn) hostOf() actor.Address {
	return actor.Address{ID: x.head.Lineage.Root(), Host: true}
}

func (x *turn) effect(e actor.Effect) { x.out.Effects = append(x.out.Effects, e) }

// send sends an envelope whose answer goes to the tool call; "" if none is wanted.
func (x *turn) send(to actor.Address, lane actor.Lane, kind, call string, body any) {
	x.effect(actor.Effect{
		Kind: actor.EffectSend, To: to, Lane: lane, Name: kind,
		Session: x.head.Session, Asker: actor.Asker{Call: call}, Body: Pack(body),
	})
}

// event tells watchers; content is the event's content and encodes as a JSON object.
func (x *turn) event(name string, content any) {
	data, err := json.Marshal(content)
	if err != nil {
		panic("agent: event " + name + ": " + err.Error())
	}
	x.effect(actor.Effect{Kind: actor.EffectEvent, To: x.self(), Name: name, Body: data})
}

// entry adds to the history. What is shown to the model is shown before the next step.
func (x *turn) entry(e actor.Entry) {
	e.At, e.Session = x.now, x.head.Session
	if e.Shown == 0 {
		e.Shown = x.head.Steps + 1
	}
	if e.Side == "" {
		e.Side = actor.LaneA
	}
	x.out.Entries = append(x.out.Entries, e)
}

// reply answers the current envelope. An answer that something was done for is kept under the
// request's key.
func (x *turn) reply(msg a2e.Message, keep bool) { Reply(&x.out, x.env, msg, keep) }

// around is what A2E puts around the answer to the current envelope.
func (x *turn) around() a2e.Envelope { return Around(x.env.Asker, timeOf(x.now)) }

// fail answers the current envelope with an error.
func (x *turn) fail(kind actor.Kind, format string, args ...any) {
	err := &actor.Error{ID: x.head.Lineage.ID, Kind: kind, Err: fmt.Errorf(format, args...)}
	x.reply(a2e.NewError(RequestOf(x.env.Asker), timeOf(x.now), err), true)
}

// RequestOf is the envelope that asker's request came in.
func RequestOf(a actor.Asker) a2e.Envelope { return a2e.Envelope{ID: a.Request, Version: a.Version} }

// Around is what A2E puts around the answer to asker.
func Around(a actor.Asker, now time.Time) a2e.Envelope { return a2e.Answer(RequestOf(a), now) }

// Reply adds to turn what brings msg to the asker of env: a reply on a subject, or an envelope to
// the thread whose tool call it was. With keep, msg is stored as the answer to env's idempotency
// key first, also when nobody waits for it: whoever tries again may.
func Reply(turn *actor.Turn, env *actor.Envelope, msg a2e.Message, keep bool) {
	if e, ok := msg.(*a2e.Error); ok && e.Code == actor.Unavailable {
		keep = false // it says that the request may be made again
	}
	keep = keep && env.Key.ID != ""
	if env.Asker.IsZero() && !keep {
		return
	}
	data, err := a2e.Encode(msg)
	if err != nil {
		panic(fmt.Sprintf("agent: encode %s: %v", msg.Type(), err))
	}
	isError := msg.Type() == a2e.TypeError
	if keep {
		stored := Pack(&Stored{Digest: env.Key.Digest, IsError: isError, JSON: data})
		turn.Effects = append(turn.Effects, actor.Effect{Kind: actor.EffectAnswer, Name: env.Key.ID, Body: stored})
	}
	if !env.Asker.IsZero() {
		turn.Effects = append(turn.Effects, AnswerEffect(env, data, isError))
	}
}

// AnswerEffect brings an encoded answer to the asker of env.
func AnswerEffect(env *actor.Envelope, data []byte, isError bool) actor.Effect {
	if env.Asker.Reply != "" {
		return actor.Effect{Kind: actor.EffectReply, Name: env.Asker.Reply, Body: data}
	}
	answer := Answer{Call: env.Asker.Call, IsError: isError, Content: actor.Value{JSON: data}}
	return actor.Effect{Kind: actor.EffectSend, To: actor.Address{ID: env.From}, Lane: actor.LaneCtl, Name: KindAnswer, Body: Pack(&answer)}
}

// expire answers the waiters whose time is over.
func (x *turn) expire() {
	kept := x.head.Waiters[:0]
	for _, w := range x.head.Waiters {
		if w.Until == 0 || w.Until > x.now {
			kept = append(kept, w)
			continue
		}
		x.replyWaiter(w, a2e.NewError(RequestOf(w.Asker), timeOf(x.now), &actor.Error{
			ID: x.head.Lineage.ID, Kind: actor.Timeout, Err: fmt.Errorf("still %s when the time allowed for waiting was over", x.head.status()),
		}))
	}
	x.head.Waiters = kept
}

func (x *turn) replyWaiter(w waiter, msg a2e.Message) {
	Reply(&x.out, &actor.Envelope{From: w.From, Session: w.Session, Asker: w.Asker}, msg, false)
}

// Wake is when the first waiter's time is over.
func (t *Thread) Wake() time.Time {
	var first int64
	for _, w := range t.head.Waiters {
		if w.Until != 0 && (first == 0 || w.Until < first) {
			first = w.Until
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return timeOf(first)
}
