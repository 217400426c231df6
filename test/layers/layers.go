// Package layers holds the house plan: which package stands on which floor. A package imports lower
// floors only, and packages on one floor never import each other. A test holds the code to it.
package layers

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path that our own imports begin with.
const Module = "github.com/troupehq/troupe"

// Floors lists the packages by floor. What stands below cmd/troupe is on its floor.
var Floors = map[string]int{
	"actor":      0,
	"a2e":        0,
	"subjects":   1,
	"agent":      1,
	"work":       1,
	"bus":        2,
	"store":      2,
	"agentfile":  2,
	"model":      2,
	"tool":       2,
	"host":       3,
	"client":     3,
	"worker":     3,
	"sweep":      3,
	"gateway":    4,
	"cmd/troupe": 5,
	"test":       6, // importable from tests only
	"examples":   6,
}

// nats lists the packages that may import NATS.
var nats = []string{"bus", "store", "cmd/troupe", "test"}

// roommates may import each other though they stand on one floor: a package and what is below it in the
// tree, and a2e, whose errors have the kinds of actor.
func roommates(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") || a == "a2e" && b == "actor"
}

// place finds the plan's package that pkg belongs to, and its floor.
func place(pkg string) (name string, floor int, ok bool) {
	for name = pkg; ; {
		if floor, ok = Floors[name]; ok {
			return name, floor, true
		}
		at := strings.LastIndexByte(name, '/')
		if at < 0 {
			return pkg, 0, false
		}
		name = name[:at]
	}
}

// Check says what is wrong with an import, both given as import paths, or "". Packages that are not ours
// are checked for NATS only.
func Check(from, to string) string {
	from = strings.TrimPrefix(strings.TrimPrefix(from, Module), "/")
	name, floor, ok := place(from)
	if !ok {
		return fmt.Sprintf("%s has no floor: give it one in test/layers", from)
	}
	if strings.HasPrefix(to, "github.com/nats-io/") || strings.HasPrefix(to, "github.com/synadia-io/") {
		if !slices.Contains(nats, name) {
			return fmt.Sprintf("%s imports %s: only %s may", from, to, strings.Join(nats, ", "))
		}
		return ""
	}
	if !strings.HasPrefix(to, Module+"/") {
		return standardOnly(name, to)
	}
	to = strings.TrimPrefix(to, Module+"/")
	target, below, ok := place(to)
	switch {
	case !ok:
		return fmt.Sprintf("%s imports %s, which has no floor", from, to)
	case roommates(name, target):
		return ""
	case target == "test":
		return fmt.Sprintf("%s imports %s, which is for tests only", from, to)
	case below == floor:
		return fmt.Sprintf("%s imports %s, which stands on the same floor", from, to)
	case below > floor:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d): imports go down only", from, floor, to, below)
	}
	return ""
}

// standardOnly keeps the ground floor free of other modules.
func standardOnly(name, to string) string {
	if first, _, _ := strings.Cut(to, "/"); Floors[name] == 0 && strings.Contains(first, ".") {
		return fmt.Sprintf("%s imports %s: the ground floor imports the standard library only", name, to)
	}
	return ""
}
