package agent

import (
	"encoding/json"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// EncodeMeta gives a message's metadata; nil when it has none.
func EncodeMeta(m a2e.MessagePayload) []byte {
	if len(m.Metadata) == 0 {
		return nil
	}
	data, err := json.Marshal(m.Metadata)
	if err != nil {
		panic("agent: metadata: " + err.Error()) // it was decoded from JSON
	}
	return data
}

// EncodeTask gives a task as a value. One that is larger than actor.MaxInline has to be put into a
// blob by the edge that carries it.
func EncodeTask(task a2e.TaskDefinition) (actor.Value, error) {
	data, err := json.Marshal(&task)
	return actor.Value{JSON: data}, err
}
