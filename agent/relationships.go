package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// relationships checks the relationships of a side of definition i. owners has those of the definition so far, of
// both sides, by name.
func (v *validation) relationships(path string, i int, s *Side, owners map[string]string, side string) {
	for j := range s.Subagents {
		r, at := &s.Subagents[j], fmt.Sprintf("%s.subagents[%d]", path, j)
		if r.Agent == "" {
			v.violation(at+".agent", "a relationship needs an agent")
		} else if !v.exists(r.Agent) {
			v.report(at+".agent", actor.SubagentUnknownAgent, "there is no agent %q", r.Agent)
		}
		if owner, taken := owners[r.Name()]; taken && r.Name() != "" {
			v.report(nameAt(at, r), actor.SubagentDuplicateRelationship, "%s has a relationship %q already", owner, r.Name())
		} else {
			owners[r.Name()] = side
		}
		v.notNegative(at+".maxInstances", r.MaxInstances)
		if c := r.ParentCommunication; c != "" && c != Implicit && c != Explicit {
			v.violation(at+".parentCommunication", "%q is neither %q nor %q", c, Implicit, Explicit)
		}
		v.envNames(at+".scopedEnv", r.ScopedEnv)
		if r.Optional != "" {
			v.envName(at+".optional", r.Optional)
		}
		v.immediate(at+".immediate", i, r)
		v.properties(at, r)
	}
}

// nameAt is where the name of a relationship stands.
func nameAt(path string, r *Relationship) string {
	if r.As != "" {
		return path + ".as"
	}
	return path + ".agent"
}

// immediate checks what is spawned with the thread (S1 §3.2). Every relationship on a circle is a problem, so
// that each of them can be found.
func (v *validation) immediate(path string, i int, r *Relationship) {
	if !r.isImmediate() {
		return
	}
	v.envNames(path+".scopedEnv", r.Immediate.ScopedEnv)
	if r.Immediate.NameEnv != "" {
		v.envName(path+".nameEnv", r.Immediate.NameEnv)
	}
	if r.Immediate.DescriptionEnv != "" {
		v.envName(path+".descriptionEnv", r.Immediate.DescriptionEnv)
	}
	if way := v.way(r.Agent, v.defs[i].Name); way != nil {
		v.report(path, actor.SubagentImmediateCycle, "%s would be spawned without end: %s",
			v.defs[i].Name, strings.Join(append([]string{v.defs[i].Name}, way...), " → "))
	}
}

func (r *Relationship) isImmediate() bool { return r.Immediate != nil && !r.Immediate.Off }

// way gives the shortest way from one agent to another over immediate relationships, both of them in it, or nil.
func (v *validation) way(from, to string) []string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			var way []string
			for ; at != ""; at = came[at] {
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
		i, ok := v.byName[at]
		if !ok {
			continue
		}
		for _, side := range []*Side{v.defs[i].SideA, v.defs[i].SideB} {
			if side == nil {
				continue
			}
			for j := range side.Subagents {
				r := &side.Subagents[j]
				if _, seen := came[r.Agent]; !seen && r.isImmediate() {
					came[r.Agent] = at
					queue = append(queue, r.Agent)
				}
			}
		}
	}
	return nil
}

// properties checks that what a relationship maps into the child's first message is something that the child
// takes, or that the tool itself has. A child without a schema may take anything.
func (v *validation) properties(path string, r *Relationship) {
	i, ok := v.byName[r.Agent]
	if !ok || v.defs[i].SideA == nil || v.defs[i].SideA.Prompt == nil {
		return
	}
	known, closed := schemaProperties(v.defs[i].SideA.Prompt.RequiredSchema)
	if !closed {
		return
	}
	for _, p := range [...]struct{ key, name string }{
		{"initUserMessageProperty", r.InitUserMessageProperty},
		{"initAttachmentsProperty", r.InitAttachmentsProperty},
		{"initAgentNameProperty", r.InitAgentNameProperty},
	} {
		if p.name != "" && !slices.Contains(known, p.name) && !slices.Contains(createArguments, p.name) {
			v.violation(path+"."+p.key, "the requiredSchema of %s has no property %q; it has %s", r.Agent, p.name, strings.Join(known, ", "))
		}
	}
}

// createArguments are the arguments of subagent_create itself, where a property is looked for second
// (DECISIONS S1.12).
var createArguments = []string{"name", "message", "attachments"}

// schemaProperties gives the properties that a schema lists, sorted, and whether they are all there are: not when the
// schema may take in more from elsewhere.
func schemaProperties(schema json.RawMessage) (names []string, closed bool) {
	var keys map[string]json.RawMessage
	if isNothing(schema) || json.Unmarshal(schema, &keys) != nil {
		return nil, false
	}
	for _, open := range []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"} {
		if _, ok := keys[open]; ok {
			return nil, false
		}
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal(keys["properties"], &properties) != nil || len(properties) == 0 {
		return nil, false
	}
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}
