package agent

import (
	"encoding/json"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// EncodeTask gives a task as a value. One that is larger than actor.MaxInline has to be put into a
// blob by the edge that carries it.
func EncodeTask(task a2e.TaskDefinition) (actor.Value, error) {
	data, err := json.Marshal(&task)
	return actor.Value{JSON: data}, err
}
