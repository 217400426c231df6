package host

import (
	"encoding/json"
	"fmt"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
)

// kindBundle is an envelope that holds several others, which belong together in one inbox message.
const kindBundle = "bundle"

// A message in an inbox is an envelope of ours, whose first byte is that of a msgpack array, or JSON from
// outside, whose first byte is ASCII.
func isEnvelope(data []byte) bool { return len(data) > 0 && data[0] >= 0x80 }

// laneKinds are the kinds that may come on the lanes that outsiders may be allowed to publish to. On
// these the sender is who the subject says, whatever the envelope claims.
var laneKinds = map[string]bool{
	agent.KindDelegate:   true,
	agent.KindMessage:    true,
	agent.KindAwait:      true,
	agent.KindCompletion: true,
}

// open reads the envelopes of an inbox message.
func open(d bus.Delivery) ([]actor.Envelope, error) {
	if !isEnvelope(d.Data) {
		return outside(d)
	}
	var env actor.Envelope
	if err := agent.Unpack(d.Data, &env); err != nil {
		return nil, err
	}
	envs := []actor.Envelope{env}
	if env.Kind == kindBundle {
		envs = nil
		if err := agent.Unpack(env.Body, &envs); err != nil {
			return nil, err
		}
	}
	queued := d.Lane == actor.LaneA || d.Lane == actor.LaneB
	for i := range envs {
		e := &envs[i]
		e.Seq, e.Lane, e.At = d.Seq, d.Lane, d.Time
		if !queued {
			continue
		}
		e.From = d.From
		if !laneKinds[e.Kind] {
			return nil, fmt.Errorf("no envelope of kind %q is taken on lane %s", e.Kind, d.Lane)
		}
	}
	if len(envs) == 0 {
		return nil, fmt.Errorf("a bundle without envelopes")
	}
	return envs, nil
}

// outside reads a message that somebody published to the inbox: {"content": any JSON, "type": text}.
func outside(d bus.Delivery) ([]actor.Envelope, error) {
	if d.Lane != actor.LaneA && d.Lane != actor.LaneB {
		return nil, fmt.Errorf("lane %s takes no messages from outside", d.Lane)
	}
	var m struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(d.Data, &m); err != nil {
		return nil, fmt.Errorf("not a message {\"content\": …}: %w", err)
	}
	if m.Content == nil {
		return nil, fmt.Errorf("content is required")
	}
	body := agent.Message{Type: m.Type, Content: actor.Value{JSON: m.Content}, Opens: true}
	return []actor.Envelope{{
		From: d.From, Kind: agent.KindMessage, Body: agent.Pack(&body), Seq: d.Seq, Lane: d.Lane, At: d.Time,
	}}, nil
}

// seal encodes envelopes for one inbox message.
func seal(envs []actor.Envelope) []byte {
	if len(envs) == 1 {
		return agent.Pack(&envs[0])
	}
	return agent.Pack(&actor.Envelope{Kind: kindBundle, Body: agent.Pack(envs)})
}
