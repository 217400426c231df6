package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// A named is a name on the tool surface of a side, and where it stands.
type named struct {
	name, path string
	what       string        // "tool", "sessionStop", "relationship", …
	of         *Relationship // that has the name
}

// tools checks that the tools of a side, its bindings and its relationships can stand beside each other in one
// request: every name is one that all providers take, and no two are alike.
func (v *validation) tools(path string, s *Side) {
	var names []named
	if s.Prompt != nil {
		for i, tool := range s.Prompt.Tools {
			names = append(names, named{tool, fmt.Sprintf("%s.prompt.tools[%d]", path, i), "tool", nil})
		}
	}
	for _, b := range []struct {
		key     string
		binding *Binding
	}{{"sessionStop", s.SessionStop}, {"sessionFail", s.SessionFail}, {"sessionStatus", s.SessionStatus}, {"askParent", s.AskParent}} {
		switch {
		case b.binding == nil:
		case s.Human:
			v.violation(path+"."+b.key, "a person's side has no tools")
		default:
			names = append(names, named{b.binding.Tool, path + "." + b.key + ".tool", b.key, nil})
		}
	}
	for i := range s.Subagents {
		r := &s.Subagents[i]
		names = append(names, named{r.Name(), nameAt(fmt.Sprintf("%s.subagents[%d]", path, i), r), "relationship", r})
	}
	seen := map[string]named{} // by what a careless provider makes of the name
	for _, n := range names {
		if v.toolName(n, s) {
			v.alike(n, seen)
		}
	}
}

// toolName checks one name by itself, and reports whether it is worth comparing with the others.
func (v *validation) toolName(n named, s *Side) bool {
	switch {
	case n.of != nil && n.name == "": // reported as a relationship without an agent
		return false
	case !toolName.MatchString(n.name) && n.of != nil && n.of.As == "":
		v.violation(n.path, "the relationship needs a name that models can call: give it one of [a-zA-Z0-9_-]{1,64} with as; %q is not", n.name)
		return false
	case !toolName.MatchString(n.name):
		v.violation(n.path, "%q is not a name that models can call: want [a-zA-Z0-9_-]{1,64}", n.name)
		return false
	case n.what == "tool" && v.isSubagent(n.name, s):
		v.report(n.path, actor.SubagentInPromptTools, "%q is a subagent: it stands among the side's subagents, not among a prompt's tools", n.name)
		return false
	case reserved(n.name) && n.what == "tool":
		v.report(n.path, actor.SubagentInPromptTools, "%q is a tool that the runtime injects: a prompt does not list it", n.name)
		return false
	case reserved(n.name):
		v.report(n.path, actor.SubagentReservedName, "%q is the name of a tool that the runtime injects", n.name)
		return false
	}
	return true
}

// isSubagent reports whether a prompt's tool is an agent, and so an attempt at a relationship: one of those that
// are checked, or one that the side has a relationship to.
func (v *validation) isSubagent(tool string, s *Side) bool {
	if _, ok := v.byName[tool]; ok {
		return true
	}
	return slices.ContainsFunc(s.Subagents, func(r Relationship) bool { return r.Agent == tool })
}

// alike compares a name with those before it. Two relationships of exactly one name are reported elsewhere, and two of
// the host's tools are its own matter unless they are the same.
func (v *validation) alike(n named, seen map[string]named) {
	first, taken := seen[fold(n.name)]
	switch {
	case !taken:
		seen[fold(n.name)] = n
	case first.name == n.name && first.of != nil && n.of != nil:
	case first.what == "tool" && n.what == "tool":
		if first.name == n.name {
			v.violation(n.path, "the tool %q stands twice", n.name)
		}
	case first.name == n.name:
		v.report(n.path, actor.SubagentNameConflict, "%q is the name of a %s of this side, too", n.name, first.what)
	default:
		v.report(n.path, actor.SubagentNameConflict, "%q is so like the %s %q that a provider may take one for the other", n.name, first.what, first.name)
	}
}

// reserved reports whether a name is, or may become, that of a lifecycle tool.
func reserved(name string) bool {
	switch fold(name) {
	case ToolSubagents, ToolSubagentCreate, ToolSubagentMessage:
		return true
	}
	return false
}

// fold is the least that any provider keeps of a name.
func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
