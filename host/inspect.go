package host

import (
	"maps"
	"slices"

	"github.com/troupehq/troupe/actor"
)

// Live lists the threads that count against the limit of the tree.
func (t *Tree) Live() []actor.ID { return slices.Sorted(maps.Keys(t.members)) }

// UnderWay counts the cascades and the tries of merges that are not over.
func (t *Tree) UnderWay() int { return len(t.head.Cascades) + len(t.head.Merges) }
