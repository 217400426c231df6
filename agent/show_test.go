package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
)

// show tells a turn: what goes into the history, what is started and given up, the effects in the
// order in which they go out, and the state behind it all.
func show(t *Thread, turn *actor.Turn) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
	}
	for _, e := range turn.Entries {
		line("history  %s", entryText(&e))
	}
	for _, j := range turn.Jobs {
		line("start    job %d %s %s", j.N, j.Kind, jobText(&j))
	}
	for _, x := range turn.Timers {
		line("arm      %s at %s, session %d", x.Name, since(x.At), x.Session)
	}
	for _, n := range turn.Abort {
		line("abort    job %d", n)
	}
	for _, name := range turn.Disarm {
		line("disarm   %s", name)
	}
	for stage := 1; stage <= 3; stage++ {
		for i := range turn.Effects {
			if e := &turn.Effects[i]; e.Kind.Stage() == stage {
				line("stage %d  %s", stage, effectText(t, e))
			}
		}
	}
	if wake := t.Wake(); !wake.IsZero() {
		line("wake at  %s", since(wake.UnixMicro()))
	}
	line("%s", state(t))
	return b.String()
}

// jobText is what a job is given.
func jobText(j *actor.Job) string {
	switch j.Kind {
	case JobSubagents:
		return fmt.Sprint(unpacked[Snapshot](j.Body).Relationships)
	case JobPrepare:
		p := unpacked[Prepare](j.Body)
		return fmt.Sprintf("%s %q %s %s", p.Relationship, p.Title, p.Arguments, p.Attachments)
	case JobDeliver:
		d := unpacked[Deliver](j.Body)
		return fmt.Sprintf("%s %s %v", d.Child, d.Attachments, d.Env)
	case JobTool:
		c := unpacked[ToolCall](j.Body)
		return fmt.Sprintf("%s %s %s", c.ID, c.Name, c.Arguments)
	}
	return string(j.Body)
}

func since(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// state is where the thread stands.
func state(t *Thread) string {
	h := &t.head
	s := fmt.Sprintf("= %s", h.status())
	if h.Session > 0 {
		s += fmt.Sprintf(", session %d step %d", h.Session, h.Step)
	}
	if h.Reason != "" {
		s += ", " + string(h.Reason)
	}
	if n := len(h.Waiters); n > 0 {
		s += fmt.Sprintf(", %d waiting", n)
	}
	if c := h.Composed; c != nil && h.Open {
		s += fmt.Sprintf(", side %s's turn %d", c.Turn, c.Turns)
		if c.Ask != nil {
			s += fmt.Sprintf(", asks a person: %s %q", AskID(h.Lineage.ID, c.Ask.N), c.Ask.Question)
		}
	}
	if h.asking() {
		s += ", asks for an allowance"
	}
	if n := len(h.Claims); n > 0 {
		s += fmt.Sprintf(", %d claims", n)
	}
	if h.Unseen > 0 {
		s += fmt.Sprintf(", %d unseen", h.Unseen)
	}
	return s
}

func entryText(e *actor.Entry) string {
	s := fmt.Sprintf("%s, shown at %d,", e.Kind, e.Shown)
	if e.Side == actor.LaneB {
		s += " side b,"
	}
	s += " from " + string(e.From)
	for _, part := range []string{e.Type, e.Call, e.Name} {
		if part != "" {
			s += " " + part
		}
	}
	if e.IsError {
		s += " (error)"
	}
	return s + " " + string(e.Content.JSON)
}

func effectText(t *Thread, e *actor.Effect) string {
	switch e.Kind {
	case actor.EffectRegistry:
		return "registry: " + registryText(t)
	case actor.EffectNotice:
		return fmt.Sprintf("notice to %s: %s", e.To, bodyText(e.Name, e.Body))
	case actor.EffectAnswer:
		var s Stored
		must(Unpack(e.Body, &s))
		return fmt.Sprintf("keep the answer to %s: %s", e.Name, s.JSON)
	case actor.EffectSend:
		s := fmt.Sprintf("send %s %s %s", e.To, e.Lane, e.Name)
		if e.Session > 0 {
			s += fmt.Sprintf(", from session %d", e.Session)
		}
		if e.Asker.Call != "" {
			s += ", for call " + e.Asker.Call
		}
		return s + ": " + bodyText(e.Name, e.Body)
	case actor.EffectMail:
		return fmt.Sprintf("mail %s, %s: %s", e.To, e.Name, e.Body)
	case actor.EffectReply:
		return fmt.Sprintf("reply %s: %s", e.Name, e.Body)
	case actor.EffectEvent:
		return fmt.Sprintf("event %s %s", e.Name, e.Body)
	case actor.EffectDead:
		var env actor.Envelope
		must(Unpack(e.Body, &env))
		var m Message
		if env.Kind == KindMessage && Unpack(env.Body, &m) == nil {
			env.Body = m.Content.JSON
		}
		return fmt.Sprintf("dead letter of %s: %s: %s", e.To, e.Name, env.Body)
	}
	return fmt.Sprintf("%+v", *e)
}

func registryText(t *Thread) string {
	data, _ := t.RegistryEntry(1)
	var e Entry
	must(json.Unmarshal(data, &e))
	if e.A2E() != t.Status() {
		return fmt.Sprintf("A2E STATUS %s OF THE ENTRY IS NOT THE THREAD'S", e.A2E())
	}
	s := fmt.Sprintf("%s, session %d step %d", e.Status, e.Session, e.Step)
	if e.Parked {
		s += ", parked"
	}
	if e.StatusText != "" {
		s += fmt.Sprintf(", %q", e.StatusText)
	}
	if u := e.Usage; u != nil && u.Tokens() > 0 {
		s += fmt.Sprintf(", %d tokens $%s in %d steps", u.Tokens(), u.USD, u.Steps)
	}
	return s
}

// bodyText tells what the body of an envelope says.
func bodyText(kind string, body []byte) string {
	switch kind {
	case KindNotice:
		n := unpacked[Notice](body)
		s := fmt.Sprintf("session %d open=%t", n.Session, n.Open)
		if n.Late {
			s += ", its time is over"
		}
		return s + settledText(n.Settled)
	case KindReserve:
		r := unpacked[Reserve](body)
		switch {
		case r.Late != nil:
			return fmt.Sprintf("used beside %s: %d tokens $%s", r.Budgets, r.Late.Tokens, r.Late.USD)
		case r.Trimmed != nil:
			k := r.Trimmed.Keep
			return fmt.Sprintf("of reservation %d keep %d steps %d tokens $%s", r.Trimmed.N, k.Steps, k.Tokens, k.USD)
		case r.N == 0:
			return "reserve nothing" + settledText(r.Settled)
		}
		return fmt.Sprintf("reserve %d under %s, a step takes %d tokens $%s%s", r.N, r.Budgets, r.Each.Tokens, r.Each.USD, settledText(r.Settled))
	case KindStopped:
		s := unpacked[Stopped](body)
		return fmt.Sprintf("cascade %d, session %d changed=%t %s opened=%s", s.Cascade, s.Session, s.Changed, s.Status, s.Opened)
	case KindCompletion:
		c := unpacked[Completion](body)
		return fmt.Sprintf("session %d failed=%t %s %s", c.Session, c.Failed, c.Name, c.Content.JSON)
	case KindAnswer:
		a := unpacked[Answer](body)
		s := fmt.Sprintf("call %s error=%t", a.Call, a.IsError)
		if a.Ended.Session > 0 {
			s += fmt.Sprintf(" or completion of session %d, %s", a.Ended.Session, a.Ended.Reason)
		}
		return s + " " + string(a.Content.JSON)
	case KindSpawn:
		s := unpacked[Spawn](body)
		if s.Composition != nil {
			return fmt.Sprintf("%s env=%s refusals=%d", s.Config.Name, s.Composition.Env, len(s.Refusals))
		}
		return fmt.Sprintf("%s parent=%q root=%q", s.Config.Name, s.Parent, s.Root)
	case KindDelegate:
		d := unpacked[Delegate](body)
		return d.Name + " " + string(d.Task.JSON)
	case KindMessage:
		m := unpacked[Message](body)
		s := fmt.Sprintf("%q root=%s opens=%t %s", m.Type, m.Root, m.Opens, m.Content.JSON)
		if m.Awaits {
			s += " and await"
		}
		return strings.TrimRight(s+" "+string(m.Meta), " ")
	case KindCancel, KindTerminate:
		return string(unpacked[Target](body).ID)
	case KindMerge:
		m := unpacked[Merge](body)
		return fmt.Sprintf("%s %s", m.IDs, m.Strategy)
	case KindAwait:
		return fmt.Sprintf("until=%d", unpacked[Await](body).Until)
	}
	return fmt.Sprintf("%q", body)
}

func settledText(s Settled) string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf(", settle %d: %d steps %d tokens $%s", s.N, s.Used.Steps, s.Used.Tokens, s.Used.USD)
}

func unpacked[B any](body []byte) B {
	var b B
	must(Unpack(body, &b))
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
