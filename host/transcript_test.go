package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/test/script"
)

// TestTranscripts tells what the host of a tree does as scripts. Each block is one turn: its lines are
// the envelopes, decided together. Behind every turn the tree is restored from its records and
// compared.
//
//	tree ROOT [depth=N] [live=N]
//	spawn NAME from=ID[/SESSION] [parent=] [root=] [steps=] [tokens=] [cents=] [timed]     asker: reply=SUBJECT or call=KEY; key=KEY
//	cancel ID from= | terminate ID from=
//	stopped ID [cascade=N] [session=N] [status=] [unchanged] [opened=IDS]
//	opened ID session=N | closed ID session=N           a thread's notices; [late]
//	merge IDS from= [strategy=]
//	job N [content=JSON] [error=]
//	reserve N from= [session=N] [each=TOKENS] [trim=N keep=STEPS] [late=TOKENS]           and for all three: [settle=N] [used=STEPS] [tokens=N] [micros=N]
//	terminated ID                                       the registry has it as terminated from now on
//	envelope KIND BODY | fail REASON | more
func TestTranscripts(t *testing.T) {
	t.Parallel()
	script.Run(t, func() func([]string) (string, error) {
		s := &stage{}
		return s.play
	})
}

// A stage has one host on it, its journal, and the registry as far as births went into it.
type stage struct {
	journal
	registry map[actor.ID]*actor.Known
	next     int // of the ids
}

func (s *stage) play(input []string) (string, error) {
	cmds, err := script.Parse(input)
	if err != nil {
		return "", err
	}
	var batch []actor.Envelope
	for _, c := range cmds {
		switch c.Name {
		case "tree":
			limits := Limits{MaxDepth: int(c.Number("depth", 5)), MaxLive: int(c.Number("live", 256))}
			s.journal = newJournal(actor.ID(c.Word()), limits)
			s.registry = map[actor.ID]*actor.Known{}
			return s.state() + "\n", c.Left()
		case "terminated":
			s.registry[actor.ID(c.Word())].Terminated = true
			return "", c.Left()
		case "fail":
			return s.ended(s.tree.Fail(actor.Input{}, c.Word()))
		case "more":
			continue
		}
		env, err := s.envelope(c)
		if err != nil {
			return "", err
		}
		if err := c.Left(); err != nil {
			return "", err
		}
		batch = append(batch, env)
	}
	return s.ended(s.decide(batch))
}

// decide looks up what the tree needs to know.
func (s *stage) decide(batch []actor.Envelope) actor.Turn {
	in := actor.Input{Now: time.UnixMicro(1e6).UTC(), Batch: batch, Threads: map[actor.ID]actor.Known{}}
	needs := s.tree.Needs(batch)
	for range needs.IDs {
		s.next++
		in.IDs = append(in.IDs, actor.ID(fmt.Sprintf("sub_%d", s.next)))
	}
	for _, id := range needs.Threads {
		if k := s.registry[id]; k != nil {
			in.Threads[id] = *k
		}
	}
	if needs.Tree {
		for _, k := range s.registry {
			in.Tree = append(in.Tree, *k)
		}
	}
	return s.tree.Decide(in)
}

// ended shows the turn and what the tree is restored to.
func (s *stage) ended(turn actor.Turn) (string, error) {
	for i := range turn.Effects {
		if e := &turn.Effects[i]; e.Kind == actor.EffectBirth {
			l := unpacked[agent.Birth](e.Body).Lineage
			s.registry[l.ID] = &actor.Known{Lineage: l, Found: true}
		}
	}
	if err := s.record(&turn); err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
	}
	for _, j := range turn.Jobs {
		m := unpacked[agent.Merge](j.Body)
		line("start    job %d %s of %s by %s for %s", j.N, j.Kind, m.IDs, m.Strategy, m.Caller)
	}
	for stage := 1; stage <= 3; stage++ {
		for i := range turn.Effects {
			if e := &turn.Effects[i]; e.Kind.Stage() == stage {
				line("stage %d  %s", stage, effectText(e))
			}
		}
	}
	if turn.More {
		line("more to do at once")
	}
	line("%s", s.state())
	return b.String(), nil
}

// state is the table of live threads, and what is under way.
func (s *stage) state() string {
	var live []string
	for id := range s.tree.members {
		live = append(live, string(id))
	}
	slices.Sort(live)
	told := fmt.Sprintf("= %d live %v", len(live), live)
	for _, c := range s.tree.head.Cascades {
		told += fmt.Sprintf(", cascade %d waits for %d", c.N, c.Waiting)
	}
	for _, id := range slices.Sorted(maps.Keys(s.tree.accounts)) {
		a, h := s.tree.accounts[id], s.tree.held[id]
		told += fmt.Sprintf(", %s used %d+%d steps %d+%d tokens", id, a.Used.Steps, h.Steps, a.Used.Tokens, h.Tokens)
	}
	if n := len(s.tree.waiting); n > 0 {
		told += fmt.Sprintf(", %d ask", n)
	}
	if n := len(s.tree.head.Merges); n > 0 {
		told += fmt.Sprintf(", %d merging", n)
	}
	return told
}

func (s *stage) envelope(c *script.Command) (actor.Envelope, error) {
	env := actor.Envelope{Kind: c.Name, Lane: actor.LaneHost}
	env.From, env.Session = script.Session(c.Take("from", ""))
	env.Asker = actor.Asker{Reply: c.Take("reply", ""), Call: c.Take("call", ""), Request: c.Take("request", "")}
	env.Key = actor.Key{ID: c.Take("key", "")}
	switch c.Name {
	case agent.KindSpawn:
		cfg := a2e.SubagentConfig{Name: c.Word(), Model: "m"}
		if b := (a2e.Budget{Steps: int64(c.Number("steps", 0)), Tokens: int64(c.Number("tokens", 0)), USD: float64(c.Number("cents", 0)) / 100}); b != (a2e.Budget{}) || c.Is("timed") {
			cfg.Budget = &b
		}
		env.Body = agent.Pack(&agent.Spawn{Parent: actor.ID(c.Take("parent", "")), Root: actor.ID(c.Take("root", "")), Config: cfg.WithDefaults()})
	case agent.KindCancel, agent.KindTerminate:
		env.Body = agent.Pack(&agent.Target{ID: actor.ID(c.Word())})
	case agent.KindStopped:
		env.From = actor.ID(c.Word())
		env.Body = agent.Pack(&agent.Stopped{
			Cascade: c.Number("cascade", 1), Session: c.Number("session", 0), Changed: !c.Is("unchanged"),
			Status: a2e.Status(c.Take("status", string(a2e.Cancelled))), Opened: c.IDs("opened"),
		})
	case "opened", "closed":
		id := actor.ID(c.Word())
		n := agent.Notice{Session: c.Number("session", 1), Open: c.Name == "opened", Lineage: actor.Lineage{ID: id}, Late: c.Is("late"), Settled: settled(c)}
		if k := s.registry[id]; k != nil {
			n.Lineage = k.Lineage
		}
		env.Kind, env.From, env.Body = agent.KindNotice, id, agent.Pack(&n)
	case agent.KindReserve:
		r := agent.Reserve{Session: c.Number("session", 1), Settled: settled(c), Each: agent.Amount{Tokens: int64(c.Number("each", 0))}}
		if _, err := fmt.Sscan(c.Word(), &r.N); err != nil {
			return env, err
		}
		if k := s.registry[env.From]; k != nil {
			r.Lineage, r.Budgets = k.Lineage, s.tree.budgetsOf(k.Lineage)
		}
		if n := c.Number("trim", 0); n > 0 {
			r.Trimmed = &agent.Trim{N: n, Keep: agent.Amount{Steps: int64(c.Number("keep", 0))}}
		}
		if n := c.Number("late", 0); n > 0 {
			r.Late = &agent.Amount{Tokens: int64(n)}
		}
		env.Body = agent.Pack(&r)
	case agent.KindMerge:
		var ids []actor.ID
		for _, id := range strings.Split(c.Word(), ",") {
			ids = append(ids, actor.ID(id))
		}
		env.Body = agent.Pack(&agent.Merge{IDs: ids, Strategy: a2e.Strategy(c.Take("strategy", string(a2e.Voting)))})
	case agent.KindJob:
		a := agent.JobAnswer{Err: c.Take("error", ""), Content: actor.Value{JSON: []byte(c.Take("content", ""))}}
		if _, err := fmt.Sscan(c.Word(), &a.N); err != nil {
			return env, err
		}
		env.Body = agent.Pack(&a)
	case "envelope":
		env.Kind, env.Body = c.Word(), []byte(c.Word())
	default:
		return env, fmt.Errorf("there is no command %q", c.Name)
	}
	return env, nil
}

// settled is what was used of a reservation.
func settled(c *script.Command) agent.Settled {
	s := agent.Settled{N: c.Number("settle", 0)}
	s.Used = agent.Amount{Steps: int64(c.Number("used", 0)), Tokens: int64(c.Number("tokens", 0)), USD: agent.Micros(c.Number("micros", 0))}
	return s
}

func effectText(e *actor.Effect) string {
	switch e.Kind {
	case actor.EffectBirth:
		b := unpacked[agent.Birth](e.Body)
		s := fmt.Sprintf("birth of %s, number %d, %s", e.To, b.Order, chain(b.Lineage))
		if len(b.Budgets) > 0 {
			s += fmt.Sprintf(", under %s", b.Budgets)
		}
		return s
	case actor.EffectAnswer:
		return fmt.Sprintf("keep the answer to %s: %s", e.Name, unpacked[agent.Stored](e.Body).JSON)
	case actor.EffectSend:
		return fmt.Sprintf("send %s %s %s: %s", e.To, e.Lane, e.Name, bodyText(e.Name, e.Body))
	case actor.EffectReply:
		return fmt.Sprintf("reply %s: %s", e.Name, e.Body)
	case actor.EffectEvent:
		return fmt.Sprintf("event %s of %s %s", e.Name, e.To, e.Body)
	case actor.EffectDead:
		return fmt.Sprintf("dead letter of %s: %s: %s", e.To, e.Name, unpacked[actor.Envelope](e.Body).Body)
	}
	return fmt.Sprintf("%+v", *e)
}

func bodyText(kind string, body []byte) string {
	if kind == agent.KindAnswer {
		a := unpacked[agent.Answer](body)
		return fmt.Sprintf("call %s error=%t %s", a.Call, a.IsError, a.Content.JSON)
	}
	if kind == agent.KindGrant {
		g := unpacked[agent.Granted](body)
		if g.Allowed.Steps == 0 {
			return fmt.Sprintf("%d refused: %s", g.N, g.Why)
		}
		return fmt.Sprintf("%d, %d steps", g.N, g.Allowed.Steps) + boundText(g.Allowed.Tokens, " %d tokens") + boundText(int64(g.Allowed.USD), " %d millionths of a dollar")
	}
	switch kind {
	case agent.KindRecall:
		return fmt.Sprint(unpacked[agent.Recall](body).N)
	case agent.KindSpent:
		return fmt.Sprintf("%d tokens", unpacked[agent.Spent](body).Used.InputTokens)
	}
	s := unpacked[agent.Stop](body)
	text := fmt.Sprintf("cascade %d", s.Cascade)
	if s.Terminate {
		text += " terminate"
	}
	if len(s.Openers) > 0 {
		text += fmt.Sprintf(" what was opened by %s", openersText(s.Openers))
	}
	if len(s.Floors) > 0 {
		text += fmt.Sprintf(" floors %s", openersText(s.Floors))
	}
	return text
}

func boundText(n int64, format string) string {
	if n == agent.NoLimit {
		return ""
	}
	return fmt.Sprintf(format, n)
}

func openersText(all []agent.Opener) string {
	var texts []string
	for _, o := range all {
		texts = append(texts, fmt.Sprintf("%s/%d", o.ID, o.Session))
	}
	return strings.Join(texts, ",")
}

func unpacked[B any](body []byte) B {
	var b B
	if err := agent.Unpack(body, &b); err != nil {
		panic(err)
	}
	return b
}
