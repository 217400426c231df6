package agent

import (
	"encoding/json"

	"github.com/troupehq/troupe/actor"
)

// DeadEffect puts an envelope that could not be taken into the dead letters of to, whole, so that it can be sent again
// once it can be taken.
func DeadEffect(to actor.Address, why string, env *actor.Envelope) actor.Effect {
	return actor.Effect{Kind: actor.EffectDead, To: to, Lane: env.Lane, Name: why, Body: Pack(env)}
}

// Sent gives an envelope that was packed by itself as it came: on the lanes that are open to outsiders as the JSON that
// they publish, on the others packed. It reports who sent it.
func Sent(lane actor.Lane, packed []byte) (from actor.ID, data []byte, ok bool) {
	var env actor.Envelope
	if Unpack(packed, &env) != nil {
		return "", packed, false
	}
	if lane != actor.LaneA && lane != actor.LaneB {
		return env.From, packed, true
	}
	var m Message
	if env.Kind != KindMessage || Unpack(env.Body, &m) != nil {
		return env.From, packed, false
	}
	data, err := json.Marshal(struct {
		Type    string          `json:"type,omitempty"`
		Content json.RawMessage `json:"content"`
	}{m.Type, m.Content.JSON})
	if err != nil {
		return env.From, packed, false
	}
	return env.From, data, true
}

// Anew gives a packed envelope, or a bundle of them, without their ids: a recipient that has seen them takes them all the
// same. What is no envelope stays as it is.
func Anew(packed []byte) []byte {
	var env actor.Envelope
	if Unpack(packed, &env) != nil {
		return packed
	}
	env.ID = actor.EnvelopeID{}
	var envs []actor.Envelope
	if env.Kind == KindBundle && Unpack(env.Body, &envs) == nil {
		for i := range envs {
			envs[i].ID = actor.EnvelopeID{}
		}
		env.Body = Pack(envs)
	}
	return Pack(&env)
}
