package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// A writer writes scripts for builtin/script. Every task and every subagent in them has a name of its own,
// so that one that is there twice can be told.
type writer struct {
	rng   *rand.Rand
	root  actor.ID // the agent outside
	of    string   // what makes its names its own
	quick bool     // nothing takes long
	count int
}

// name gives a name that nothing else in the run has.
func (w *writer) name(kind string) string {
	w.count++
	return fmt.Sprintf("%s-%s-%d", kind, w.of, w.count)
}

// sleep takes between least and most milliseconds, less where nothing takes long.
func (w *writer) sleep(least, most int) object {
	ms := least + w.rng.IntN(most-least)
	if w.quick {
		ms /= 4
	}
	return object{"sleep_ms": ms}
}

type object = map[string]any

// ScriptedPanic is what scripts panic with.
const ScriptedPanic = "a scripted panic"

// script gives the steps of a task. Level counts the scripts around it: what is a reference there has to
// be spelled so that those around let it pass.
func (w *writer) script(level int) []any {
	kinds := 9
	if level < 2 {
		kinds = 14
	}
	switch w.rng.IntN(kinds) {
	case 0:
		return []any{object{"say": "first"}, object{"progress": "half"}, w.result()}
	case 1, 2:
		return []any{w.sleep(0, 300), w.result()}
	case 3:
		return []any{w.sleep(1100, 2500), w.result()}
	case 4:
		return []any{object{"say": "so far"}, object{"fail": "it was not to be"}}
	case 5:
		return []any{object{"say": "1"}, object{"sleep_ms": 20}, object{"say": "2"}, object{"say": "3"}, object{"sleep_ms": 30}, object{"say": "4"}, w.result()}
	case 6:
		return []any{object{"panic": ScriptedPanic}}
	case 7:
		return []any{w.tell(level), w.result()}
	case 8:
		return []any{object{"call": "subagent_list"}, object{"result": object{"text": strings.Repeat("large ", w.rng.IntN(2)*25_000)}}}
	case 9, 10:
		return w.family(level, object{"call": "subagent_await", "arguments": object{"subagent_id": ref(level, "$results.0.subagent_id")}})
	case 11:
		return w.family(level, w.sleep(0, 100))
	case 12:
		return w.family(level, object{"call": "subagent_cancel", "arguments": object{"subagent_id": ref(level, "$results.0.subagent_id")}})
	}
	return w.fanOut(level)
}

func (w *writer) result() object { return object{"result": object{"by": w.name("result")}} }

// tell sends a message to the agent outside.
func (w *writer) tell(level int) object {
	return object{"call": "subagent_send", "arguments": object{
		"to_subagent_id": string(w.root), "message": object{"type": "note", "content": w.name("note")},
	}}
}

// family spawns a child, gives it a task, and does something about it.
func (w *writer) family(level int, then object) []any {
	return []any{
		object{"call": "subagent_spawn", "arguments": object{"agent": w.subagent()}},
		object{"call": "subagent_delegate", "arguments": object{"subagent_id": ref(level, "$results.0.subagent_id"), "task": w.task(level + 1)}},
		then,
		object{"result": object{"by": w.name("result"), "last": ref(level, "$last")}},
	}
}

// fanOut spawns two children at once and awaits both.
func (w *writer) fanOut(level int) []any {
	ids := []any{ref(level, "$results.0.subagent_id"), ref(level, "$results.1.subagent_id")}
	delegate := func(id any) object {
		return object{"call": "subagent_delegate", "arguments": object{"subagent_id": id, "task": w.task(level + 1)}}
	}
	await := object{"subagent_ids": ids, "mode": "all"}
	if w.rng.IntN(2) == 0 {
		await["mode"], await["timeout_seconds"] = "any", 0.2
	}
	return []any{
		object{"calls": []any{
			object{"call": "subagent_spawn", "arguments": object{"agent": w.subagent()}},
			object{"call": "subagent_spawn", "arguments": object{"agent": w.subagent()}},
		}},
		object{"calls": []any{delegate(ids[0]), delegate(ids[1])}},
		object{"call": "subagent_await", "arguments": await},
		object{"result": object{"by": w.name("result")}},
	}
}

// subagent is the configuration of a subagent.
func (w *writer) subagent() object {
	a := object{"name": w.name("child"), "model": "builtin/script", "capabilities": []string{"multi_agent"}}
	switch w.rng.IntN(12) {
	case 0, 1:
		a["model"] = "builtin/echo"
	case 2:
		a["max_steps"] = 3
	case 3:
		a["timeout_seconds"] = 1
	}
	return a
}

// task is the definition of a task with a script.
func (w *writer) task(level int) object {
	return object{"name": w.name("task"), "instruction": "go", "metadata": object{"script": w.script(level)}}
}

// ref spells a reference for the script inside level others.
func ref(level int, reference string) string { return strings.Repeat("$", level) + reference }

// as encodes v as JSON and decodes it into a T.
func as[T any](v any) (to T) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &to)
	}
	if err != nil {
		panic(err) // a mistake in the writer
	}
	return to
}
