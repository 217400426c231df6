package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

// ReadableEnvelope gives a packed envelope, or a bundle of them, as JSON for people: what is zero is left out, and what
// is JSON inside stands there as JSON.
func ReadableEnvelope(data []byte) (json.RawMessage, error) {
	var env actor.Envelope
	if err := Unpack(data, &env); err != nil {
		return nil, err
	}
	return json.Marshal(envelope(&env))
}

func envelope(env *actor.Envelope) any {
	shown := fieldsOf(reflect.ValueOf(*env))
	shown["body"] = body(env.Kind, env.Body)
	return shown
}

// body shows what an envelope of a kind holds.
func body(kind string, data []byte) any {
	if kind == KindBundle {
		var envs []actor.Envelope
		if Unpack(data, &envs) != nil {
			return raw(data)
		}
		list := make([]any, len(envs))
		for i := range envs {
			list[i] = envelope(&envs[i])
		}
		return list
	}
	v := newBody(kind)
	if v == nil || Unpack(data, v) != nil {
		return raw(data)
	}
	return readable(reflect.ValueOf(v))
}

// newBody gives what an envelope or a job of a kind has as its body, or nil.
func newBody(kind string) any {
	switch kind {
	case KindDelegate:
		return new(Delegate)
	case KindMessage:
		return new(Message)
	case KindAwait:
		return new(Await)
	case KindStop:
		return new(Stop)
	case KindCompletion:
		return new(Completion)
	case KindAnswer:
		return new(Answer)
	case KindJob:
		return new(JobAnswer)
	case KindTimer:
		return new(Timer)
	case KindQuestion:
		return new(Question)
	case KindBoot, JobPrepare:
		return new(Prepare)
	case KindNotify:
		return new(Notify)
	case KindSpawn:
		return new(Spawn)
	case KindCancel, KindTerminate:
		return new(Target)
	case KindMerge:
		return new(Merge)
	case KindNotice:
		return new(Notice)
	case KindStopped:
		return new(Stopped)
	}
	return nil
}

// ReadableRecord gives a packed record of a thread as JSON for people: its state, its history and what it sent. The
// first record's delta is the thread's birth.
func ReadableRecord(data []byte) (json.RawMessage, error) {
	var r actor.Record
	if err := Unpack(data, &r); err != nil {
		return nil, err
	}
	shown := fieldsOf(reflect.ValueOf(r))
	var h head
	if Unpack(r.Head, &h) == nil {
		h.Own = nil // the birth again
		shown["head"] = readable(reflect.ValueOf(h))
	}
	var b Birth
	if len(r.Delta) > 0 && Unpack(r.Delta, &b) == nil {
		shown["delta"] = readable(reflect.ValueOf(b))
	}
	effects := make([]any, len(r.Effects))
	for i := range r.Effects {
		effects[i] = effect(&r.Effects[i])
	}
	if len(effects) > 0 {
		shown["effects"] = effects
	}
	return json.Marshal(shown)
}

func effect(e *actor.Effect) any {
	shown := fieldsOf(reflect.ValueOf(*e))
	shown["kind"] = e.Kind.String()
	if len(e.Body) == 0 {
		return shown
	}
	switch e.Kind {
	case actor.EffectSend, actor.EffectNotice:
		shown["body"] = body(e.Name, e.Body)
	case actor.EffectAnswer:
		var s Stored
		if Unpack(e.Body, &s) == nil {
			shown["body"] = readable(reflect.ValueOf(s))
		}
	case actor.EffectDead:
		var env actor.Envelope
		if Unpack(e.Body, &env) == nil {
			shown["body"] = envelope(&env)
		}
	}
	return shown
}

// readable shows a value that was unpacked.
func readable(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return readable(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return raw(v.Bytes())
		}
		fallthrough
	case reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = readable(v.Index(i))
		}
		return list
	case reflect.Map:
		all := map[string]any{}
		for _, k := range v.MapKeys() {
			all[fmt.Sprint(k)] = readable(v.MapIndex(k))
		}
		return all
	case reflect.Struct:
		if value, ok := v.Interface().(actor.Value); ok {
			return raw(value.JSON)
		}
		return fieldsOf(v)
	}
	return v.Interface()
}

// fieldsOf shows the fields of a struct that are packed and not zero.
func fieldsOf(v reflect.Value) map[string]any {
	all := map[string]any{}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" && !v.Field(i).IsZero() {
			all[spelled(f.Name)] = readable(v.Field(i))
		}
	}
	return all
}

// spelled is the name of a field as JSON has it: "createdAt", "id", "json".
func spelled(name string) string {
	if strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[size:]
}

// raw shows bytes: as JSON if they are, as text if they are UTF-8, else in base64.
func raw(data []byte) any {
	switch {
	case utf8.Valid(data) && json.Valid(data):
		return json.RawMessage(data)
	case utf8.Valid(data):
		return string(data)
	}
	return data
}
