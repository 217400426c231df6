package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/script"
)

// TestTranscripts tells what a thread does as scripts. Each block is one turn: its lines are the
// envelopes, decided together. Behind every turn the thread is restored from its head, so that the
// scripts also say that nothing is kept elsewhere.
//
//	born ID [definition=JSON] [relationship=JSON] [owner=b] [parent=ID] [ancestors=IDS] [outside] [steps=N] [timeout=N] [idle=N] [multi_agent] [budgets=IDS] [seconds=N of its own]
//	alive AGO                                  when a job gave its last sign of life, before the next turn
//	extend by=DURATION [from=]                 asker as above
//	grant [n=N] [steps=N] [tokens=N] [micros=N] [why=TEXT]   by default the reservation that was asked for last
//	recall [n=N] | spent tokens=IN/OUT         from the host
//	clock DURATION                             time goes on
//	delegate TASK [from=ID/SESSION]            asker: reply=SUBJECT or call=KEY; key=KEY
//	message [from=] [content=JSON] [type=] [root=] [lane=b] [opens] [awaits] [meta=JSON]
//	await [from=] [until=DURATION from now]
//	stop [cascade=N] [terminate] [openers=ID/N,…] [floors=ID/N,…]
//	completion from=CHILD [session=N] [failed] content=JSON
//	answer CALL [from=] [error] [ended=REASON] content=JSON   another actor's answer to a tool call
//	step [text=] [done=JSON] [fail=] [error=] [sleep=D] [tokens=IN/OUT] [cached=N] [micros=N] [n=JOB]
//	  ID TOOL ARGUMENTS                        the tool calls of the step
//	job N [content=JSON] [error=]              the outcome of another job
//	timer NAME [session=N] [late]
//	prepared N [message=JSON] [disabled] [refusal=KIND] [env=NAMES] [attachments=PATHS]   what a creation needs
//	delivered N [attachments=PATHS] [disabled] [refusal=KIND]
//	created CALL id=ID [children=IDS]          the host's answer to a creation
//	question TEXT from=CHILD | gone from=CHILD
//	wake | fail REASON | envelope KIND BODY
func TestTranscripts(t *testing.T) {
	t.Parallel()
	script.Run(t, func() func([]string) (string, error) {
		s := &stage{now: time.UnixMicro(0).UTC()}
		return s.play
	})
}

// A stage has one thread on it.
type stage struct {
	now    time.Time
	alive  time.Time
	birth  actor.Record
	thread *Thread
}

func (s *stage) play(input []string) (string, error) {
	cmds, err := script.Parse(input)
	if err != nil {
		return "", err
	}
	switch c := cmds[0]; c.Name {
	case "born":
		return s.born(c)
	case "clock":
		d, err := time.ParseDuration(c.Word())
		s.now = s.now.Add(d)
		return fmt.Sprintf("it is %s\n", s.now.Sub(time.UnixMicro(0))), err
	case "alive":
		d, err := time.ParseDuration(c.Word())
		s.alive = s.now.Add(-d)
		return "", err
	case "fail":
		return s.ended(s.thread.Fail(actor.Input{Now: s.now}, strings.Trim(c.Word(), `"`)))
	}
	in := actor.Input{Now: s.now, Alive: s.alive}
	s.alive = time.Time{}
	if cmds[0].Name == "resumed" {
		in.Resumed = true
		return s.ended(s.thread.Decide(in))
	}
	for _, c := range cmds {
		env, err := s.envelope(c)
		if err != nil {
			return "", err
		}
		if err := c.Left(); err != nil {
			return "", err
		}
		in.Batch = append(in.Batch, env)
	}
	return s.ended(s.thread.Decide(in))
}

func (s *stage) born(c *script.Command) (string, error) {
	l := actor.Lineage{ID: actor.ID(c.Word()), Ancestors: c.IDs("ancestors"), Outside: c.Is("outside")}
	cfg := a2e.SubagentConfig{Name: "ada", Model: "m", MaxSteps: int(c.Number("steps", 40)), TimeoutSeconds: int(c.Number("timeout", 600)), IdleTimeoutSeconds: int(c.Number("idle", 0))}
	if c.Is(MultiAgent) {
		cfg.Capabilities = []string{MultiAgent}
	}
	born := Birth{Lineage: l, Order: 1, Config: cfg.WithDefaults(), Budgets: c.IDs("budgets")}
	if seconds := c.Number("seconds", 0); seconds > 0 {
		born.Config.Budget = &a2e.Budget{Seconds: float64(seconds)}
	}
	if d := c.Take("definition", ""); d != "" {
		born.Composition = &Composition{Version: 1, Definition: []byte(d), Relationship: []byte(c.Take("relationship", "")), Owner: actor.Lane(c.Take("owner", "a")), Title: "Ada"}
		var def Definition
		if err := json.Unmarshal([]byte(d), &def); err != nil {
			return "", err
		}
		born.Config.TimeoutSeconds, born.Config.IdleTimeoutSeconds, born.Config.Budget = def.TimeoutSeconds, def.IdleTimeoutSeconds, def.Budget
	}
	birth, err := Born(born, s.now.UnixMicro())
	if err != nil {
		return "", err
	}
	s.birth = birth
	if s.thread, err = Load(&s.birth, 1, nil); err != nil {
		return "", err
	}
	return state(s.thread) + "\n", c.Left()
}

// ended shows the turn, and goes on with the thread that its head restores.
func (s *stage) ended(turn actor.Turn) (string, error) {
	restored, err := reload(s.thread, &s.birth)
	if err != nil {
		return "", err
	}
	told := show(s.thread, &turn)
	s.thread = restored
	return told, nil
}

// reload restores a thread from its head, and complains when it is not the same.
func reload(t *Thread, birth *actor.Record) (*Thread, error) {
	head, err := t.Head()
	if err != nil {
		return nil, err
	}
	restored, err := Load(&actor.Record{Head: head}, 9, birth)
	if err != nil {
		return nil, err
	}
	if was, is := dump(&t.head), dump(&restored.head); was != is {
		return nil, fmt.Errorf("the head does not hold the whole state\nwas      %s\nrestored %s", was, is)
	}
	if !reflect.DeepEqual(t.birth.Lineage, restored.birth.Lineage) {
		return nil, fmt.Errorf("the birth was not restored: %+v", restored.birth)
	}
	return restored, nil
}

func dump(h *head) string {
	data, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (s *stage) envelope(c *script.Command) (actor.Envelope, error) {
	h := &s.thread.head
	env := actor.Envelope{Kind: c.Name, Lane: actor.Lane(c.Take("lane", "a"))}
	env.From, env.Session = script.Session(c.Take("from", string(h.Lineage.Parent())))
	env.Asker = actor.Asker{Reply: c.Take("reply", ""), Call: c.Take("call", ""), Request: c.Take("request", "")}
	env.Key = actor.Key{ID: c.Take("key", "")}
	switch c.Name {
	case KindDelegate:
		env.Body = Pack(&Delegate{Name: c.Word(), Task: value(c.Take("content", `{}`))})
	case KindMessage:
		env.Body = Pack(&Message{Type: c.Take("type", ""), Root: actor.ID(c.Take("root", "")), Opens: c.Is("opens"), Awaits: c.Is("awaits"), Meta: []byte(c.Take("meta", "")), Content: value(c.Take("content", `"hello"`))})
	case KindAwait:
		var a Await
		if d := c.Duration("until"); d != 0 {
			a.Until = s.now.Add(d).UnixMicro()
		}
		env.Body = Pack(&a)
	case KindStop:
		env.From = h.Lineage.Root()
		env.Body = Pack(&Stop{Cascade: c.Number("cascade", 1), Terminate: c.Is("terminate"), Openers: openers(c.IDs("openers")), Floors: openers(c.IDs("floors"))})
	case KindCompletion:
		env.Body = Pack(&Completion{Session: c.Number("session", 1), Failed: c.Is("failed"), Name: c.Take("name", "child"), Content: value(c.Take("content", `{}`))})
	case KindAnswer:
		env.Body = Pack(s.answer(c))
	case "step":
		env.Kind, env.Body = KindJob, Pack(s.step(c))
	case KindJob:
		a := JobAnswer{Err: c.Take("error", ""), Content: value(c.Take("content", ""))}
		if _, err := fmt.Sscan(c.Word(), &a.N); err != nil {
			return env, err
		}
		env.Body = Pack(&a)
	case "prepared", "delivered":
		env.Kind, env.Body = KindJob, Pack(s.looked(c))
	case "created":
		made := Created{ID: actor.ID(c.Take("id", "")), Relationship: c.Take("relationship", "work"), Owner: actor.LaneA, Children: c.IDs("children")}
		env.Kind, env.Body = KindAnswer, Pack(&Answer{Call: c.Word(), Created: &made})
	case KindExtend:
		env.Body = Pack(&Extend{By: c.Duration("by").Microseconds()})
	case KindGrant:
		env.From, env.Lane = h.Lineage.Root(), actor.LaneCtl
		env.Body = Pack(s.granted(c))
	case KindRecall:
		var r Recall
		if a := h.Allowance; a != nil {
			r.N = a.N
		}
		r.N = c.Number("n", r.N)
		env.From, env.Lane, env.Body = h.Lineage.Root(), actor.LaneCtl, Pack(&r)
	case KindSpent:
		env.From, env.Lane, env.Body = h.Lineage.Root(), actor.LaneCtl, Pack(&Spent{Used: s.step(c).Step.Used})
	case KindQuestion:
		env.Body = Pack(&Question{Text: strings.Trim(c.Word(), `"`)})
	case KindGone:
		env.Body = Pack(&Gone{})
	case KindTimer:
		return env, s.timer(c, &env)
	case KindWake:
	case "envelope":
		env.Kind, env.Body = c.Word(), []byte(c.Word())
	default:
		return env, fmt.Errorf("there is no command %q", c.Name)
	}
	return env, nil
}

// granted is the host's answer to a reservation.
func (s *stage) granted(c *script.Command) *Granted {
	g := &Granted{Why: strings.Trim(c.Take("why", ""), `"`), Allowed: Amount{Steps: int64(c.Number("steps", 0)), Tokens: NoLimit, USD: NoLimit}}
	if n := c.Number("tokens", 0); n > 0 {
		g.Allowed.Tokens = int64(n)
	}
	if n := c.Number("micros", 0); n > 0 {
		g.Allowed.USD = Micros(n)
	}
	if each := c.Number("each", 0); each > 0 {
		g.Each = &Amount{Tokens: int64(each)}
	}
	if a := s.thread.head.Allowance; a != nil {
		g.N = a.N
	}
	g.N = c.Number("n", g.N)
	return g
}

func (s *stage) answer(c *script.Command) *Answer {
	a := &Answer{Call: c.Word(), IsError: c.Is("error"), Content: value(c.Take("content", `{}`))}
	if reason := c.Take("ended", ""); reason != "" {
		a.Ended = Ended{Session: c.Number("session", 1), Reason: StopReason(reason), Name: c.Take("name", "child"), Usage: []byte(`{"steps":1}`)}
	}
	return a
}

// looked is the outcome of a job of a creation.
func (s *stage) looked(c *script.Command) *JobAnswer {
	var a JobAnswer
	var refusals []Refusal
	if kind := c.Take("refusal", ""); kind != "" {
		refusals = []Refusal{{Kind: actor.Kind(kind), Field: "arguments", Message: "no"}}
	}
	var paths, names []string
	for _, p := range c.IDs("attachments") {
		paths = append(paths, string(p))
	}
	for _, n := range c.IDs("env") {
		names = append(names, string(n))
	}
	if c.Name == "prepared" {
		a.Prepared = &Prepared{
			Disabled: c.Is("disabled"), Config: a2e.SubagentConfig{Name: "child"}, Composition: Composition{Definition: []byte(`{}`), Env: names},
			Message: value(c.Take("message", "")), Attachments: paths, Refusals: refusals,
		}
	} else {
		a.Delivered = &Delivered{Disabled: c.Is("disabled"), Attachments: paths, Refusals: refusals}
	}
	if _, err := fmt.Sscan(c.Word(), &a.N); err != nil {
		panic(err)
	}
	return &a
}

func (s *stage) step(c *script.Command) *JobAnswer {
	a := &JobAnswer{N: c.Number("n", s.thread.head.Job), Err: c.Take("error", "")}
	a.Step = Step{Progress: c.Take("progress", ""), Fail: c.Take("fail", ""), Sleep: c.Duration("sleep").Microseconds()}
	if text := c.Take("text", ""); text != "" {
		a.Step.Said = value(string(quote(text)))
	}
	_, a.Step.Done = c.Opts["done"]
	a.Step.Result = value(c.Take("done", ""))
	if tokens := c.Take("tokens", ""); tokens != "" {
		u := &a.Step.Used
		if _, err := fmt.Sscanf(tokens, "%d/%d", &u.InputTokens, &u.OutputTokens); err != nil {
			panic(err)
		}
	}
	a.Step.Used.CacheReadTokens, a.Step.Used.USD = int64(c.Number("cached", 0)), Micros(c.Number("micros", 0))
	for _, line := range c.Lines {
		id, rest, _ := strings.Cut(line, " ")
		name, arguments, _ := strings.Cut(rest, " ")
		call := Call{ID: id, Name: name, Arguments: value(arguments)}
		if text, ok := strings.CutPrefix(arguments, "!"); ok {
			call.Arguments, call.Invalid = value(`{"$invalid":`+text+`}`), text
		}
		a.Step.Calls = append(a.Step.Calls, call)
	}
	return a
}

// timer is by default the one of that name that is set; late is an earlier one.
func (s *stage) timer(c *script.Command, env *actor.Envelope) error {
	name := c.Word()
	env.From, env.Lane = actor.ID(name), actor.LaneCtl
	set := Timer{Session: s.thread.head.Session, At: s.now.UnixMicro()}
	_, timers := s.thread.Outstanding()
	for _, t := range timers {
		if t.Name == name {
			set = Timer{Session: t.Session, At: t.At}
		}
	}
	set.Session = c.Number("session", set.Session)
	if c.Is("late") {
		set.At--
	}
	env.Body = Pack(&set)
	return nil
}

func value(json string) actor.Value {
	if json == "" {
		return actor.Value{}
	}
	return actor.Value{JSON: []byte(json)}
}

func openers(ids []actor.ID) []Opener {
	var all []Opener
	for _, s := range ids {
		id, n := script.Session(string(s))
		all = append(all, Opener{ID: id, Session: n})
	}
	return all
}
