package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
)

// maxPlan is how many threads one creation spawns besides the one that was asked for.
const maxPlan = 64

// A maker makes what a creation needs, for one parent.
type maker struct {
	h      *Host
	parent actor.Lineage
	group  string
	plan   []agent.Planned
}

// prepare looks up what the creation of an instance depends on (S1 §3, §5). What it finds wrong is a refusal, in
// the order of DECISIONS S1.10; an error means that it could not be found out.
func (h *Host) prepare(ctx context.Context, parent actor.Lineage, p *agent.Prepare) (*agent.Prepared, error) {
	var rel agent.Relationship
	if err := json.Unmarshal(p.Relationship, &rel); err != nil {
		return nil, err
	}
	env, err := h.Store.Env.Get(ctx, parent.ID)
	if err != nil {
		return nil, err
	}
	var extra map[string]string
	if p.Extra != "" {
		if extra, err = h.Store.Env.Get(ctx, p.Extra); err != nil {
			return nil, err
		}
	}
	out := &agent.Prepared{Disabled: !h.enabled(rel.Optional, env)}
	if out.Disabled {
		return out, nil
	}
	m := &maker{h: h, parent: parent, group: agent.Reference(parent.ID + actor.ID("/"+p.Key))}
	def, composition, err := m.instance(ctx, &rel, p.Owner, p.Title)
	if errors.Is(err, actor.NotFound) {
		out.Refusals = append(out.Refusals, agent.Refusal{Kind: actor.NotFound, Field: "agent", Message: fmt.Sprintf("there is no agent %q", rel.Agent)})
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	first := start(&rel, p)
	composition.Arguments, composition.Title = first.arguments, first.title
	out.Message, out.Attachments = first.message, first.attachments
	out.Config = agent.ConfigOf(def, first.title)
	out.Refusals = append(out.Refusals, argumentsRefused(rel.Name(), def, first.arguments)...)
	refused, err := h.attachmentsRefused(ctx, parent.ID, first.attachments)
	if err != nil {
		return nil, err
	}
	out.Refusals = append(out.Refusals, refused...)
	composition.Env = given(rel.ScopedEnv, env)
	own := only(env, composition.Env)
	if names := sortedNames(extra); len(names) > 0 {
		out.Extra = &agent.Grant{From: p.Extra, Names: names}
		maps.Copy(own, extra)
	}
	switch err := m.immediates(ctx, def, -1, own); {
	case errors.Is(err, actor.QuotaExceeded):
		out.Refusals = slices.Insert(out.Refusals, 0, agent.Refusal{Kind: actor.QuotaExceeded, Field: "agent", Message: err.Error()})
		m.plan = nil
	case err != nil:
		return nil, err
	}
	if missing := lacking(def.RequiredEnv, sortedNames(own)); len(missing) > 0 {
		refusal, err := h.envRefused(ctx, parent.ID, p, def.RequiredEnv, missing)
		if err != nil {
			return nil, err
		}
		out.Refusals = append(out.Refusals, refusal)
	}
	out.Composition, out.Plan = *composition, m.plan
	return bounded(out), nil
}

// bounded refuses a creation that is too large to be carried.
func bounded(p *agent.Prepared) *agent.Prepared {
	if n := len(agent.Pack(p)); n > maxCreation {
		p.Composition, p.Plan, p.Message, p.Attachments = agent.Composition{}, nil, actor.Value{}, nil
		p.Refusals = []agent.Refusal{{Kind: actor.TooLarge, Field: "agent", Message: fmt.Sprintf("the definitions and arguments have %d bytes together, more than %d", n, maxCreation)}}
	}
	return p
}

// maxCreation is how many bytes a creation may have: it stands in records of the parent and of the host, and in births.
const maxCreation = 256 << 10

// instance gives what a relationship's agent is now.
func (m *maker) instance(ctx context.Context, rel *agent.Relationship, owner actor.Lane, title string) (*agent.Definition, *agent.Composition, error) {
	data, version, err := m.h.Store.Agents.Get(ctx, rel.Agent, 0)
	if err != nil {
		return nil, nil, err
	}
	def, err := agent.ParseDefinition(data)
	if err != nil {
		return nil, nil, err
	}
	declared, err := json.Marshal(rel)
	return def, &agent.Composition{Version: version, Definition: data, Relationship: declared, Owner: owner, Title: title, Group: m.group}, err
}

// immediates plans the children that are spawned with a thread of def, depth first (S1 §3.2). One that can't be
// spawned is left out, and told in the log: the parent exists all the same.
func (m *maker) immediates(ctx context.Context, def *agent.Definition, parent int, env map[string]string) error {
	for _, of := range []struct {
		lane actor.Lane
		side *agent.Side
	}{{actor.LaneA, def.SideA}, {actor.LaneB, def.SideB}} {
		if of.side == nil {
			continue
		}
		for i := range of.side.Subagents {
			rel := &of.side.Subagents[i]
			if rel.Immediate == nil || rel.Immediate.Off || !m.h.enabled(rel.Optional, env) {
				continue
			}
			if err := m.immediate(ctx, rel, of.lane, parent, env); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *maker) immediate(ctx context.Context, rel *agent.Relationship, owner actor.Lane, parent int, env map[string]string) error {
	if len(m.plan) >= maxPlan {
		return &actor.Error{Kind: actor.QuotaExceeded, Err: fmt.Errorf("more than %d threads would be spawned at once", maxPlan)}
	}
	def, composition, err := m.instance(ctx, rel, owner, env[rel.Immediate.NameEnv])
	skip := func(why string) {
		m.h.Log.Warn().Str("parent", string(m.parent.ID)).Str("relationship", rel.Name()).Str("why", why).Msg("an immediate child is not spawned")
	}
	if errors.Is(err, actor.NotFound) {
		skip("there is no such agent")
		return nil
	}
	if err != nil {
		return err
	}
	composition.Env = given(append(slices.Clone(rel.ScopedEnv), rel.Immediate.ScopedEnv...), env)
	if text := env[rel.Immediate.DescriptionEnv]; rel.Immediate.DescriptionEnv != "" && text != "" {
		composition.Arguments, err = json.Marshal(map[string]string{"description": text})
		if err != nil {
			return err
		}
	}
	if refused := argumentsRefused(rel.Name(), def, composition.Arguments); len(refused) > 0 {
		skip(refused[0].Message)
		return nil
	}
	if missing := lacking(def.RequiredEnv, composition.Env); len(missing) > 0 {
		skip("it lacks the variables " + strings.Join(missing, ", "))
		return nil
	}
	at := len(m.plan)
	m.plan = append(m.plan, agent.Planned{Parent: parent, Config: agent.ConfigOf(def, composition.Title), Composition: *composition})
	return m.immediates(ctx, def, at, only(env, composition.Env))
}

// enabled reports whether a branch is: its flag is true, 1 or yes, among the thread's own variables, else among
// the host's (S1 §1).
func (h *Host) enabled(flag string, env map[string]string) bool {
	if flag == "" {
		return true
	}
	value, ok := env[flag]
	if !ok {
		value = h.Env[flag]
	}
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "1", "yes":
		return true
	}
	return false
}

// given is which of the names there are values for.
func given(names []string, env map[string]string) []string {
	var there []string
	for _, n := range names {
		if _, ok := env[n]; ok && !slices.Contains(there, n) {
			there = append(there, n)
		}
	}
	return there
}

func lacking(required, there []string) []string {
	var missing []string
	for _, n := range required {
		if !slices.Contains(there, n) {
			missing = append(missing, n)
		}
	}
	return missing
}

func only(env map[string]string, names []string) map[string]string {
	part := make(map[string]string, len(names))
	for _, n := range names {
		part[n] = env[n]
	}
	return part
}

func argumentsRefused(relationship string, def *agent.Definition, arguments []byte) []agent.Refusal {
	var schema json.RawMessage // without one any object will do
	if def.SideA.Prompt != nil {
		schema = def.SideA.Prompt.RequiredSchema
	}
	err := agent.ValidateArguments(schema, arguments)
	if err == nil {
		return nil
	}
	r := agent.Refusal{Kind: actor.KindOf(err), Field: "arguments", Message: err.Error()}
	var missing *agent.MissingError
	if errors.As(err, &missing) {
		r.Detail, _ = json.Marshal(struct { // strings only
			Relationship string   `json:"relationship"`
			Missing      []string `json:"missing"`
		}{relationship, missing.Missing})
	}
	return []agent.Refusal{r}
}

func (h *Host) attachmentsRefused(ctx context.Context, thread actor.ID, paths []string) ([]agent.Refusal, error) {
	for _, path := range paths {
		_, err := h.Store.Files.Stat(ctx, thread, path)
		if k := actor.KindOf(err); k == actor.NotFound || k == actor.SchemaViolation {
			return []agent.Refusal{{Kind: k, Field: "attachments", Message: fmt.Sprintf("there is no file %q", path)}}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// A deferred is a creation that waits for variables (S1 §5.2).
type deferred struct {
	Prepare  agent.Prepare `json:"prepare"`
	Required []string      `json:"required"`
	Missing  []string      `json:"missing"`
}

func (h *Host) envRefused(ctx context.Context, parent actor.ID, p *agent.Prepare, required, missing []string) (r agent.Refusal, err error) {
	if !IsThread(parent) || p.Extra != "" { // whoever asked can give them with its next try
		return agent.Refusal{Kind: actor.EnvRequired, Field: "scoped_env", Message: "the variables " + strings.Join(missing, ", ") + " are required"}, nil
	}
	payload, err := json.Marshal(deferred{*p, required, missing})
	if err != nil {
		return r, err
	}
	id, err := h.Store.Requests.New(ctx, parent, payload)
	if err != nil {
		return r, err
	}
	detail, err := json.Marshal(struct {
		Request string   `json:"request_id"`
		Missing []string `json:"missing"`
	}{id, missing})
	return agent.Refusal{
		Kind: actor.EnvRequired, Field: "scopedEnv", Detail: detail,
		Message: fmt.Sprintf("the variables %s are required; they can be given to the request %s", strings.Join(missing, ", "), id),
	}, err
}

// A first is what an instance begins with.
type first struct {
	title       string
	arguments   []byte
	message     actor.Value
	attachments []string
}

// start maps arguments to what an instance begins with (DECISIONS S1.12). A property is looked for in the arguments,
// then beside them.
func start(rel *agent.Relationship, p *agent.Prepare) first {
	f := first{title: p.Title, arguments: p.Arguments, attachments: p.Attachments}
	var args map[string]json.RawMessage
	if len(p.Arguments) > 0 && json.Unmarshal(p.Arguments, &args) != nil {
		return f // it will be refused
	}
	if name := rel.InitAgentNameProperty; name != "" && json.Unmarshal(args[name], new(string)) == nil {
		_ = json.Unmarshal(args[name], &f.title) // it was just found to be a string
	}
	if name := rel.InitAttachmentsProperty; name != "" {
		var paths []string
		if json.Unmarshal(args[name], &paths) == nil {
			f.attachments = append(slices.Clone(p.Attachments), paths...)
		}
	}
	switch content := args[rel.InitUserMessageProperty]; {
	case content != nil && rel.InitUserMessageProperty != "":
		f.message = actor.Value{JSON: content}
	case len(p.Message) > 0:
		f.message = actor.Value{JSON: p.Message}
	case args["message"] != nil:
		f.message = actor.Value{JSON: args["message"]}
	case len(args) > 0:
		f.message = actor.Value{JSON: p.Arguments}
	}
	return f
}

// deliver copies variables and files to a child, before it gets the message that they go with.
func (h *Host) deliver(ctx context.Context, parent actor.ID, d *agent.Deliver) (*agent.Delivered, error) {
	if d.Optional != "" {
		env, err := h.Store.Env.Get(ctx, parent, d.Optional)
		if err != nil {
			return nil, err
		}
		if !h.enabled(d.Optional, env) {
			return &agent.Delivered{Disabled: true}, nil
		}
	}
	if err := h.give(ctx, d.Env); err != nil {
		return nil, err
	}
	out := &agent.Delivered{}
	if len(d.Attachments) == 0 {
		return out, nil
	}
	refused, err := h.attachmentsRefused(ctx, parent, d.Attachments)
	if err != nil || len(refused) > 0 && !d.Lenient {
		return &agent.Delivered{Refusals: refused}, err
	}
	there := d.Attachments
	if out.Refusals = refused; len(refused) > 0 {
		if there, out.Refusals, err = h.thereOf(ctx, parent, d.Attachments); err != nil || len(there) == 0 {
			return out, err
		}
	}
	files, err := h.Store.Files.Copy(ctx, parent, there, d.Child, d.Key)
	for _, f := range files {
		out.Attachments = append(out.Attachments, f.Path)
	}
	return out, err
}

// thereOf gives those files that there are, and a note of each that there is not.
func (h *Host) thereOf(ctx context.Context, thread actor.ID, paths []string) (there []string, missing []agent.Refusal, err error) {
	for _, path := range paths {
		refused, err := h.attachmentsRefused(ctx, thread, []string{path})
		switch {
		case err != nil:
			return nil, nil, err
		case len(refused) > 0:
			missing = append(missing, refused...)
		default:
			there = append(there, path)
		}
	}
	return there, missing, nil
}
