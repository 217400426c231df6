package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// builtinPrefix belongs to this package: no configured model may have such a name.
const builtinPrefix = "builtin/"

// A Config says which models there are beside the built-in ones. A key is the exact name of a
// model, or, when it ends in "/", the prefix of all names that one Model serves: that model finds
// the full name in Request.Config.Model.
type Config struct {
	Models map[string]Model
}

func (c Config) validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		var why string
		switch {
		case strings.Trim(name, "/") == "":
			why = "a name must have letters"
		case strings.HasPrefix(name, builtinPrefix):
			why = "the prefix " + builtinPrefix + " is taken"
		case c.Models[name] == nil:
			why = "no model is given"
		default:
			continue
		}
		return &actor.Error{Op: "model.New", Kind: actor.SchemaViolation, Field: "models." + name,
			Err: fmt.Errorf("model %q: %s", name, why)}
	}
	return nil
}

// A Registry finds models by name. It does not change, and is safe for concurrent use.
type Registry struct {
	models map[string]Model
}

// New makes a registry of the built-in models and those of c, which it copies. A name that is
// empty or starts with "builtin/", or a nil model, is a schema_violation.
func New(c Config) (*Registry, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	models := map[string]Model{
		builtinPrefix + "echo":       echo{},
		builtinPrefix + "extractive": extractive{},
		builtinPrefix + "script":     script{},
	}
	maps.Copy(models, c.Models)
	return &Registry{models: models}, nil
}

// Lookup finds the model that serves name: the one of exactly that name, else the one with the
// longest prefix of it. An unknown name is a schema_violation of "agent.model".
func (r *Registry) Lookup(name string) (Model, error) {
	if m, ok := r.models[name]; ok && !strings.HasSuffix(name, "/") {
		return m, nil
	}
	prefix := strings.TrimRight(name, "/") // a bare prefix names no model
	for i := strings.LastIndexByte(prefix, '/'); i >= 0; i = strings.LastIndexByte(prefix[:i], '/') {
		if m, ok := r.models[prefix[:i+1]]; ok {
			return m, nil
		}
	}
	return nil, &actor.Error{Op: "model.Lookup", Kind: actor.SchemaViolation, Field: "agent.model",
		Err: fmt.Errorf("unknown model %q; known are %s", name, r.known())}
}

// known lists the names and prefixes for an error message.
func (r *Registry) known() string {
	names := slices.Sorted(maps.Keys(r.models))
	for i, n := range names {
		if strings.HasSuffix(n, "/") {
			names[i] = n + "…"
		}
	}
	return strings.Join(names, ", ")
}
