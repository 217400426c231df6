package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupehq/troupe/actor"
)

// A Remote is a tool that workers elsewhere serve, as tool/<Name>. It is declared here, and called through their queue:
// by a host that finds it with [Registry.Remote].
type Remote struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the arguments; empty: any object
	Timeout     time.Duration   // of a call, the wait for a worker included; 0: as long as it takes
}

// Describe implements [Tool].
func (r *Remote) Describe() Description {
	return Description{Name: r.Name, Description: r.Description, Schema: r.Schema}
}

// Call implements [Tool]. Only a host has the workers' queue.
func (r *Remote) Call(context.Context, Call) (Result, error) {
	return Result{}, &actor.Error{Op: "tool.Call", Kind: actor.Unavailable, Err: errors.New("workers serve this tool, and it was not called through their queue")}
}

// Remote finds a tool that workers serve and checks the arguments of a call, {} if they are empty. A tool that is not such a
// one, or is not there, is nil without an error. Arguments that do not fit are told in refused, which is then not nil.
func (r *Registry) Remote(name string, arguments json.RawMessage) (remote *Remote, refused *Result) {
	g := r.fixed[name]
	if g == nil {
		return nil, nil
	}
	remote, ok := g.tool.(*Remote)
	if !ok {
		return nil, nil
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := check(g.schema, arguments); err != nil {
		result := failed(err)
		return remote, &result
	}
	return remote, nil
}

// Has reports whether a name can be called here: that of a tool which is not declared as a worker's, or one that may
// be an MCP server's.
func (r *Registry) Has(name string) bool {
	if g := r.fixed[name]; g != nil {
		_, remote := g.tool.(*Remote)
		return !remote
	}
	for _, k := range r.servers {
		if strings.HasPrefix(name, k.Name+"_") {
			return true
		}
	}
	return false
}
