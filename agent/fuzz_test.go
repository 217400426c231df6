package agent

import (
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/script"
)

// FuzzDecide gives a thread in any state an envelope of any kind with any bytes in it. It must not
// panic, and keep its rules.
func FuzzDecide(f *testing.F) {
	bodies := map[string]any{
		KindDelegate:   &Delegate{Name: "t", Task: value(`{"name":"t"}`)},
		KindMessage:    &Message{Type: "note", Content: value(`"hi"`), Opens: true},
		KindAwait:      &Await{Until: 5e6},
		KindStop:       &Stop{Cascade: 1, Openers: []Opener{{ID: "root", Session: 1}}, Floors: []Opener{{ID: "root", Session: 1}}},
		KindCompletion: &Completion{Session: 1, Name: "c", Content: value(`{}`)},
		KindAnswer:     &Answer{Call: "1-1-0", Content: value(`{"type":"SUBAGENT_AWAIT_RESP","subagent_id":"sub_a","status":"COMPLETED","result":{},"error":null}`), Ended: Ended{Session: 1, Reason: StopDone, Usage: []byte(`{}`)}},
		KindJob:        &JobAnswer{N: 1, Step: Step{Said: value(`"x"`), Done: true, Result: value(`{"a":1}`)}},
		KindTimer:      &Timer{Session: 1, At: 61e6},
		KindExtend:     &Extend{By: 1},
		KindGrant:      &Granted{N: 1, Allowed: Amount{Steps: 1}},
		KindRecall:     &Recall{N: 1},
		KindSpent:      &Spent{Used: Usage{InputTokens: 7}},
		KindWake:       &Await{},
		"nonsense":     &Await{},
	}
	for kind, body := range bodies {
		for state := range uint8(len(states)) {
			f.Add(state, kind, "root", Pack(body))
		}
	}
	f.Add(uint8(1), KindJob, "root", Pack(&JobAnswer{N: 1, Step: Step{Done: true, Result: value(`not JSON`)}}))
	f.Add(uint8(1), KindJob, "root", Pack(&JobAnswer{N: 1, Step: Step{Said: value("\xff"), Calls: []Call{{ID: "\xff", Name: "subagent_list", Arguments: value("{")}}}}))
	f.Add(uint8(2), KindAnswer, "sub_a", Pack(&Answer{Call: "1-1-0", Content: value(`nothing`), Ended: Ended{Session: 1, Usage: []byte("?")}}))
	f.Fuzz(func(t *testing.T, state uint8, kind, from string, body []byte) {
		w := newWitness(actor.Lineage{ID: "sub_1", Ancestors: []actor.ID{"root", "sub_p"}}, 4, nil)
		for _, line := range states[int(state)%len(states)] {
			w.play(t, line)
		}
		in := actor.Input{Now: w.now, Batch: []actor.Envelope{{Kind: kind, From: actor.ID(from), Body: body, Asker: actor.Asker{Call: "c"}}}}
		turn := w.thread.Decide(in)
		if is, err := reload(w.thread, &w.birth); err != nil {
			t.Fatalf("after %s: %v", kind, err)
		} else if is.Status() != w.thread.Status() {
			t.Fatalf("restored as %s, was %s", is.Status(), w.thread.Status())
		}
		w.checkEvents(t, &turn)
		w.checkClosed(t)
		_ = w.thread.Fail(actor.Input{Now: w.now}, "over")
		w.checkClosed(t)
	})
}

// states are ways to the states of a thread, as lines of a script.
var states = [][]string{
	{},
	{`delegate t from=root/1`},
	{`delegate t from=root/1`, `await from=sub_p/1 call=9-9-9`, `step await`},
	{`delegate t from=root/1`, `step sleep=5s`},
	{`delegate t from=root/1`, `step done={}`},
	{`stop`},
	{`stop terminate`},
	{`delegate t from=root/1`, `step list`},
}

// play decides one line of a script, whose step may be to await or to list.
func (w *witness) play(t *testing.T, line string) {
	cmds, err := script.Parse([]string{line})
	if err != nil {
		t.Fatal(err)
	}
	c := cmds[0]
	switch {
	case c.Is("await"):
		c.Lines = []string{`c1 subagent_await {"subagent_ids":["sub_a","sub_b"],"mode":"any","timeout_seconds":5}`}
	case c.Is("list"):
		c.Lines = []string{`c1 subagent_list {}`}
	}
	s := stage{now: w.now, birth: w.birth, thread: w.thread}
	env, err := s.envelope(c)
	if err != nil {
		t.Fatal(err)
	}
	turn := w.thread.Decide(actor.Input{Now: w.now, Batch: []actor.Envelope{env}})
	w.checkEvents(t, &turn)
}
