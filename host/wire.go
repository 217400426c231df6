package host

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
)

// maxType is how many bytes the type of a message may have.
const maxType = 1024

// open reads the envelopes of an inbox message. Lanes a and b are open to outsiders and lane job to workers, and carry JSON; the
// others are the runtime's own and carry envelopes, which nobody else may be permitted to publish.
func open(d bus.Delivery) ([]actor.Envelope, error) {
	switch d.Lane {
	case actor.LaneA, actor.LaneB:
		return outside(d)
	case actor.LaneJob:
		return fromWorker(d)
	}
	var env actor.Envelope
	if err := agent.Unpack(d.Data, &env); err != nil {
		return nil, err
	}
	envs := []actor.Envelope{env}
	if env.Kind == agent.KindBundle {
		envs = nil
		if err := agent.Unpack(env.Body, &envs); err != nil {
			return nil, err
		}
	}
	if len(envs) == 0 {
		return nil, errors.New("a bundle without envelopes")
	}
	for i := range envs {
		envs[i].Seq, envs[i].Lane, envs[i].At = d.Seq, d.Lane, d.Time
	}
	return envs, nil
}

// outside reads a message that somebody published to the inbox: {"content": any JSON, "type": text}. The
// sender is who the subject says.
func outside(d bus.Delivery) ([]actor.Envelope, error) {
	var m struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(d.Data, &m); err != nil {
		return nil, fmt.Errorf("not a message {\"content\": …}: %w", err)
	}
	switch {
	case m.Content == nil:
		return nil, errors.New("content is required")
	case len(m.Type) > maxType:
		return nil, fmt.Errorf("type has more than %d bytes", maxType)
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
	return agent.Pack(&actor.Envelope{Kind: agent.KindBundle, Body: agent.Pack(envs)})
}
