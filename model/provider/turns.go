package provider

import (
	"slices"

	"github.com/troupehq/troupe/model"
)

// goOn stands where the user's turn would be when nobody said anything.
const goOn = "Go on."

// noResult is the result of a call whose session was over before there was one.
const noResult = "There is no result: the session ended before."

// A talk becomes the turns of a conversation, entry by entry. What was told already stays as it is.
type talk struct {
	turns   []Turn
	waiting []*model.Entry             // what prompts a later step
	results map[callKey][]*model.Entry // by call, in order
	owed    []Result                   // of the calls of the step that is being told
	at      place                      // of that step
	ids     map[string]bool            // the ids of calls that were used
}

// A place is a step of a session.
type place struct {
	session uint64
	step    int
}

func (p place) before(q place) bool {
	return p.session < q.session || p.session == q.session && p.step < q.step
}

func placeOf(e *model.Entry) place { return place{e.Session, e.Step} }

type callKey struct {
	session uint64
	call    string
}

// turns tells the history. Entries come in the order in which they were recorded, in which a message may stand
// before the end of the step that it came too late for, and between a call and its result. They are told in
// the order in which the model saw them: what a step was shown, what it said and called, the results, then
// what the next step is shown.
func turns(r *model.Request) []Turn {
	t := talk{results: map[callKey][]*model.Entry{}, ids: map[string]bool{}}
	entries := withTask(r)
	for _, e := range entries {
		if e.Kind == model.EntryResult {
			key := callKey{e.Session, e.Call}
			t.results[key] = append(t.results[key], e)
		}
	}
	for _, e := range entries {
		t.tell(e)
	}
	t.prompt(nil)
	t.yield()
	return t.turns
}

// withTask gives the history, and in it the session's task, also if no entry tells it.
func withTask(r *model.Request) []*model.Entry {
	entries := make([]*model.Entry, 0, len(r.History)+1)
	known, start := r.Task == nil, len(r.History)
	for i := range r.History {
		e := &r.History[i]
		entries = append(entries, e)
		if e.Session == r.Session {
			start = min(start, i)
			known = known || e.Kind == model.EntryTask
		}
	}
	if known {
		return entries
	}
	task := &model.Entry{Kind: model.EntryTask, Role: model.RoleUser, Session: r.Session, Step: 1, Content: encode(r.Task)}
	return slices.Insert(entries, start, task)
}

// tell adds an entry.
func (t *talk) tell(e *model.Entry) {
	own := e.Role != model.RoleUser
	switch {
	case e.Kind == model.EntrySay && own:
		if text := textOf(e.Content); !blank(text) {
			turn := t.act(placeOf(e))
			turn.Texts = append(turn.Texts, text)
		}
	case e.Kind == model.EntryCall && own:
		turn := t.act(placeOf(e))
		call := model.Call{ID: t.id(e), Name: toolName(e.Name), Arguments: arguments(e.Content)}
		turn.Calls = append(turn.Calls, call)
		t.owed = append(t.owed, t.result(e, call.ID))
	case e.Kind == model.EntryCall, e.Kind == model.EntryResult: // another side's, or told with its call
	case e.Kind == model.EntryEnd:
		t.end(e)
	default: // a task, a message, a completion, and what another side said
		t.waiting = append(t.waiting, e)
	}
}

// act gives the assistant's turn of a step.
func (t *talk) act(at place) *Turn {
	if len(t.turns) > 0 && t.at == at && t.last().Role == model.RoleAssistant {
		return t.last()
	}
	t.prompt(&at)
	t.yield()
	t.at = at
	t.turns = append(t.turns, Turn{Role: model.RoleAssistant})
	return t.last()
}

// prompt tells the results that are owed, then what waits for a step up to this one; nil is any.
func (t *talk) prompt(at *place) {
	if len(t.owed) > 0 {
		t.turns = append(t.turns, Turn{Role: model.RoleUser, Results: t.owed})
		t.owed = nil
	}
	later := t.waiting[:0]
	for _, e := range t.waiting {
		if at != nil && at.before(placeOf(e)) {
			later = append(later, e)
		} else {
			t.say(promptText(e))
		}
	}
	t.waiting = later
}

// yield makes it the user's turn.
func (t *talk) yield() {
	if len(t.turns) == 0 || t.last().Role == model.RoleAssistant {
		t.say(goOn)
	}
}

// say adds a text of the user's.
func (t *talk) say(text string) {
	if blank(text) {
		text = "(nothing)"
	}
	if len(t.turns) == 0 || t.last().Role != model.RoleUser {
		t.turns = append(t.turns, Turn{Role: model.RoleUser})
	}
	t.last().Texts = append(t.last().Texts, text)
}

// end tells how a session ended, where its last message does not.
func (t *talk) end(e *model.Entry) {
	at := placeOf(e)
	t.prompt(&at) // what came too late for it is told to the next session
	if t.at != at {
		t.yield() // its last step was asked, and said nothing
	}
	switch {
	case !e.IsError && (e.Name == "" || e.Name == "stop"):
		if t.last().Role == model.RoleUser {
			t.turns = append(t.turns, Turn{Role: model.RoleAssistant, Texts: []string{resultText(e.Content)}})
			t.at = at
		}
	case e.Name == "":
		t.say("[The session ended without a result.]")
	default:
		t.say("[The session ended without a result: " + e.Name + ".]")
	}
}

func (t *talk) last() *Turn { return &t.turns[len(t.turns)-1] }

// result gives what a call's tool answered.
func (t *talk) result(call *model.Entry, id string) Result {
	key := callKey{call.Session, call.Call}
	list := t.results[key]
	if len(list) == 0 {
		return Result{Call: id, Text: noResult, Error: true}
	}
	t.results[key] = list[1:]
	text := textOf(list[0].Content)
	if blank(text) {
		text = "(nothing)"
	}
	return Result{Call: id, Text: text, Error: list[0].IsError}
}
