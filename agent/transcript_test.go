package agent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// TestTranscripts tells what a thread does as scripts. Each block is one turn: its lines are the
// envelopes, decided together. Behind every turn the thread is restored from its head, so that the
// scripts also say that nothing is kept elsewhere.
//
//	born ID [parent=ID] [ancestors=IDS] [outside] [steps=N] [timeout=N] [multi_agent]
//	clock DURATION                             time goes on
//	delegate TASK [from=ID/SESSION]            asker: reply=SUBJECT or call=KEY; key=KEY
//	message [from=] [content=JSON] [type=] [root=] [lane=b] [opens]
//	await [from=] [until=DURATION from now]
//	stop [cascade=N] [terminate] [openers=ID/N,…] [floors=ID/N,…]
//	completion from=CHILD [session=N] [failed] content=JSON
//	answer CALL [from=] [error] [ended=REASON] content=JSON   another actor's answer to a tool call
//	step [text=] [done=JSON] [fail=] [error=] [sleep=D] [tokens=IN/OUT] [n=JOB]
//	  ID TOOL ARGUMENTS                        the tool calls of the step
//	job N [content=JSON] [error=]              the outcome of another job
//	timer NAME [session=N] [late]
//	wake | fail REASON | envelope KIND BODY
func TestTranscripts(t *testing.T) {
	t.Parallel()
	runScripts(t, func() func([]string) (string, error) {
		s := &stage{now: time.UnixMicro(0).UTC()}
		return s.play
	})
}

// A stage has one thread on it.
type stage struct {
	now    time.Time
	birth  actor.Record
	thread *Thread
}

func (s *stage) play(input []string) (string, error) {
	cmds, err := commands(input)
	if err != nil {
		return "", err
	}
	switch c := cmds[0]; c.name {
	case "born":
		return s.born(c)
	case "clock":
		d, err := time.ParseDuration(c.word())
		s.now = s.now.Add(d)
		return fmt.Sprintf("it is %s\n", s.now.Sub(time.UnixMicro(0))), err
	case "fail":
		return s.ended(s.thread.Fail(actor.Input{Now: s.now}, strings.Trim(c.word(), `"`)))
	}
	in := actor.Input{Now: s.now}
	for _, c := range cmds {
		env, err := s.envelope(c)
		if err != nil {
			return "", err
		}
		if err := c.left(); err != nil {
			return "", err
		}
		in.Batch = append(in.Batch, env)
	}
	return s.ended(s.thread.Decide(in))
}

func (s *stage) born(c *command) (string, error) {
	l := actor.Lineage{ID: actor.ID(c.word()), Ancestors: c.ids("ancestors"), Outside: c.is("outside")}
	cfg := a2e.SubagentConfig{Name: "ada", Model: "m", MaxSteps: int(c.number("steps", 40)), TimeoutSeconds: int(c.number("timeout", 600))}
	if c.is(MultiAgent) {
		cfg.Capabilities = []string{MultiAgent}
	}
	birth, err := Born(Birth{Lineage: l, Order: 1, Config: cfg.WithDefaults()}, s.now.UnixMicro())
	if err != nil {
		return "", err
	}
	s.birth = birth
	if s.thread, err = Load(&s.birth, 1, nil); err != nil {
		return "", err
	}
	return state(s.thread) + "\n", c.left()
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
	if was, is := fmt.Sprintf("%+v", t.head), fmt.Sprintf("%+v", restored.head); was != is {
		return nil, fmt.Errorf("the head does not hold the whole state\nwas      %s\nrestored %s", was, is)
	}
	if !reflect.DeepEqual(t.birth.Lineage, restored.birth.Lineage) {
		return nil, fmt.Errorf("the birth was not restored: %+v", restored.birth)
	}
	return restored, nil
}

func (s *stage) envelope(c *command) (actor.Envelope, error) {
	h := &s.thread.head
	env := actor.Envelope{Kind: c.name, Lane: actor.Lane(c.take("lane", "a"))}
	env.From, env.Session = session(c.take("from", string(h.Lineage.Parent())))
	env.Asker = actor.Asker{Reply: c.take("reply", ""), Call: c.take("call", ""), Request: c.take("request", "")}
	env.Key = actor.Key{ID: c.take("key", "")}
	switch c.name {
	case KindDelegate:
		env.Body = Pack(&Delegate{Name: c.word(), Task: value(c.take("content", `{}`))})
	case KindMessage:
		env.Body = Pack(&Message{Type: c.take("type", ""), Root: actor.ID(c.take("root", "")), Opens: c.is("opens"), Content: value(c.take("content", `"hello"`))})
	case KindAwait:
		var a Await
		if d := c.duration("until"); d != 0 {
			a.Until = s.now.Add(d).UnixMicro()
		}
		env.Body = Pack(&a)
	case KindStop:
		env.From = h.Lineage.Root()
		env.Body = Pack(&Stop{Cascade: c.number("cascade", 1), Terminate: c.is("terminate"), Openers: openers(c.ids("openers")), Floors: openers(c.ids("floors"))})
	case KindCompletion:
		env.Body = Pack(&Completion{Session: c.number("session", 1), Failed: c.is("failed"), Name: c.take("name", "child"), Content: value(c.take("content", `{}`))})
	case KindAnswer:
		env.Body = Pack(s.answer(c))
	case "step":
		env.Kind, env.Body = KindJob, Pack(s.step(c))
	case KindJob:
		a := JobAnswer{Err: c.take("error", ""), Content: value(c.take("content", ""))}
		if _, err := fmt.Sscan(c.word(), &a.N); err != nil {
			return env, err
		}
		env.Body = Pack(&a)
	case KindTimer:
		return env, s.timer(c, &env)
	case KindWake:
	case "envelope":
		env.Kind, env.Body = c.word(), []byte(c.word())
	default:
		return env, fmt.Errorf("there is no command %q", c.name)
	}
	return env, nil
}

func (s *stage) answer(c *command) *Answer {
	a := &Answer{Call: c.word(), IsError: c.is("error"), Content: value(c.take("content", `{}`))}
	if reason := c.take("ended", ""); reason != "" {
		a.Ended = Ended{Session: c.number("session", 1), Reason: StopReason(reason), Name: c.take("name", "child"), Usage: []byte(`{"steps":1}`)}
	}
	return a
}

func (s *stage) step(c *command) *JobAnswer {
	a := &JobAnswer{N: c.number("n", s.thread.head.Job), Err: c.take("error", "")}
	a.Step = Step{Progress: c.take("progress", ""), Fail: c.take("fail", ""), Sleep: c.duration("sleep").Microseconds()}
	if text := c.take("text", ""); text != "" {
		a.Step.Said = value(string(quote(text)))
	}
	_, a.Step.Done = c.opts["done"]
	a.Step.Result = value(c.take("done", ""))
	if tokens := c.take("tokens", ""); tokens != "" {
		if _, err := fmt.Sscanf(tokens, "%d/%d", &a.Step.Input, &a.Step.Output); err != nil {
			panic(err)
		}
	}
	for _, line := range c.lines {
		id, rest, _ := strings.Cut(line, " ")
		name, arguments, _ := strings.Cut(rest, " ")
		a.Step.Calls = append(a.Step.Calls, Call{ID: id, Name: name, Arguments: value(arguments)})
	}
	return a
}

// timer is by default the one of that name that is set; late is an earlier one.
func (s *stage) timer(c *command, env *actor.Envelope) error {
	name := c.word()
	env.From, env.Lane = actor.ID(name), actor.LaneCtl
	set := Timer{Session: s.thread.head.Session, At: s.now.UnixMicro()}
	_, timers := s.thread.Outstanding()
	for _, t := range timers {
		if t.Name == name {
			set = Timer{Session: t.Session, At: t.At}
		}
	}
	set.Session = c.number("session", set.Session)
	if c.is("late") {
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
		id, n := session(string(s))
		all = append(all, Opener{ID: id, Session: n})
	}
	return all
}
