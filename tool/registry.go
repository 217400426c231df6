package tool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
)

// DefaultDescribeWait is how long a description waits for the first start of an MCP server.
const DefaultDescribeWait = 15 * time.Second

// DefaultMaxResult is the largest result of a call, in bytes.
const DefaultMaxResult = 8 << 20

// A Config says which tools there are.
type Config struct {
	Tools     []Tool // Go functions, and whatever else implements Tool
	Endpoints []Endpoint
	Servers   []Server
	Remotes   []Remote

	// Allow is the host's allow-list: names, or beginnings of names with a "*" behind them. Nil allows all. It
	// is the policy for those who have no tools of their own to go by: see [Registry.Restrict].
	Allow []string

	Requester Requester                        // required when there are Endpoints
	LookupEnv func(name string) (string, bool) // os.LookupEnv; nil: no variable is set
	MaxResult int                              // bytes of a result, its files included; 0 is DefaultMaxResult

	// DescribeWait is how long the first description waits for an MCP server that starts. Later ones do not wait: what
	// it has is left out until it is there. 0 is DefaultDescribeWait.
	DescribeWait time.Duration

	Log zerolog.Logger // panics, and the comings and goings of MCP servers
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// validName holds names to what the strictest provider takes.
func validName(name string) error {
	if !toolName.MatchString(name) {
		return fmt.Errorf("%q: a name has 1 to 64 letters of a-z, A-Z, 0-9, _ and -", clip(name, 128))
	}
	return nil
}

func (c *Config) validate() error {
	const op = "tool.New"
	if c.DescribeWait < 0 {
		return refuse(op, actor.SchemaViolation, "describeWait", "%v is below zero", c.DescribeWait)
	}
	if c.MaxResult < 0 {
		return refuse(op, actor.SchemaViolation, "maxResult", "%d is below zero", c.MaxResult)
	}
	if len(c.Endpoints) > 0 && c.Requester == nil {
		return refuse(op, actor.SchemaViolation, "requester", "is required for endpoints")
	}
	for _, pattern := range c.Allow {
		if base := strings.TrimSuffix(pattern, "*"); base != "" || pattern == "" {
			if err := validName(base); err != nil {
				return refuse(op, actor.SchemaViolation, "allow", "%w", err)
			}
		}
	}
	for i := range c.Endpoints {
		if err := c.Endpoints[i].validate(); err != nil {
			return err
		}
	}
	for i := range c.Remotes {
		if err := validTimeout(c.Remotes[i].Name+".timeout", c.Remotes[i].Timeout); err != nil {
			return err
		}
	}
	for i := range c.Servers {
		if err := c.Servers[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

// A Registry finds tools by name and calls them. Safe for concurrent use.
type Registry struct {
	allow   []string
	fixed   map[string]*guarded // those that are not an MCP server's
	names   []string            // of fixed, in order
	servers []*keeper
	log     zerolog.Logger
}

// New makes a registry. It starts nothing. A schema_violation names what is wrong with the Config; a conflict is
// two tools of one name, or a name that begins like those of an MCP server's tools.
func New(cfg Config) (*Registry, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxResult == 0 {
		cfg.MaxResult = DefaultMaxResult
	}
	if cfg.DescribeWait == 0 {
		cfg.DescribeWait = DefaultDescribeWait
	}
	r := &Registry{allow: slices.Clone(cfg.Allow), fixed: map[string]*guarded{}, log: cfg.Log}
	for i, t := range cfg.Tools {
		if t == nil {
			return nil, refuse("tool.New", actor.SchemaViolation, fmt.Sprintf("tools[%d]", i), "no tool is given")
		}
		if err := r.add(t, &cfg); err != nil {
			return nil, err
		}
	}
	for _, e := range cfg.Endpoints {
		if err := r.add(&endpoint{e, cfg.Requester}, &cfg); err != nil {
			return nil, err
		}
	}
	for _, remote := range cfg.Remotes {
		if err := r.add(&remote, &cfg); err != nil {
			return nil, err
		}
	}
	for _, s := range cfg.Servers {
		if err := r.keep(s, &cfg); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.names)
	return r, nil
}

// add takes a tool in.
func (r *Registry) add(t Tool, cfg *Config) error {
	const op = "tool.New"
	d := t.Describe()
	if err := validName(d.Name); err != nil {
		return refuse(op, actor.SchemaViolation, "name", "%w", err)
	}
	if r.fixed[d.Name] != nil {
		return refuse(op, actor.Conflict, d.Name, "two tools have this name")
	}
	if len(d.Schema) == 0 {
		d.Schema = anything
	}
	s, err := compile(d.Schema)
	if err != nil {
		return refuse(op, actor.SchemaViolation, d.Name+".schema", "%w", err)
	}
	r.fixed[d.Name] = &guarded{tool: t, description: d, schema: s, limit: cfg.MaxResult, log: cfg.Log}
	r.names = append(r.names, d.Name)
	return nil
}

// keep takes a server in. Whose a name is has to be clear before the server is asked.
func (r *Registry) keep(s Server, cfg *Config) error {
	const op = "tool.New"
	if err := validName(s.Name + "_x"); err != nil || s.Name == "" {
		return refuse(op, actor.SchemaViolation, "name", "the MCP server %q: a name has 1 to 62 letters of a-z, A-Z, 0-9, _ and -", clip(s.Name, 128))
	}
	prefix := s.Name + "_"
	for _, name := range r.names {
		if strings.HasPrefix(name, prefix) {
			return refuse(op, actor.Conflict, name, "the name begins like those of the tools of the MCP server %s", s.Name)
		}
	}
	for _, other := range r.servers {
		if a, b := prefix, other.Name+"_"; strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
			return refuse(op, actor.Conflict, s.Name, "the tools of the MCP servers %s and %s would have names that begin alike", other.Name, s.Name)
		}
	}
	k, err := newKeeper(s, cfg)
	if err == nil {
		r.servers = append(r.servers, k)
	}
	return err
}

// Serve keeps the MCP servers until ctx ends, and returns once all of them have ended. It is run once.
func (r *Registry) Serve(ctx context.Context) error {
	var all sync.WaitGroup
	for _, k := range r.servers {
		all.Go(func() { k.serve(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	return nil
}

// Lookup finds a tool. The one that it gives checks arguments and survives what the tool does: see Results in the
// package's documentation. not_found means that no tool has the name; unavailable that the MCP server
// that may have it can't be asked; conflict or schema_violation that it has it and its name can't be used.
func (r *Registry) Lookup(ctx context.Context, name string) (Tool, error) {
	g, err := r.lookup(ctx, name, false)
	if err != nil {
		return nil, err // not a nil *guarded
	}
	return g, nil
}

func (r *Registry) lookup(ctx context.Context, name string, describe bool) (*guarded, error) {
	if g := r.fixed[name]; g != nil {
		return g, nil
	}
	for _, k := range r.servers {
		if strings.HasPrefix(name, k.Name+"_") {
			return k.lookup(ctx, name, describe)
		}
	}
	return nil, unknown(name)
}

func unknown(name string) error {
	return refuse("tool.Lookup", actor.NotFound, "name", "there is no tool %q", clip(name, 128))
}

// Call finds a tool and calls it. Everything but the end of ctx is told in the result.
func (r *Registry) Call(ctx context.Context, name string, c Call) (Result, error) {
	g, err := r.lookup(ctx, name, false)
	switch {
	case err == nil:
		return g.Call(ctx, c)
	case ctx.Err() != nil:
		return Result{}, over(ctx, "tool.Call", clip(name, 128))
	}
	return failed(err), nil
}

// Describe describes tools by their names, each once, in the order of names; one that ends in "*" stands for all that
// begin so, in alphabetical order. MCP servers that are concerned are started if they never were, which waits for
// [Registry.Serve] to run: once, and no longer than Config.DescribeWait. What can't be described is left out, and the error, which joins one for each, says why: a model can work
// with the others.
func (r *Registry) Describe(ctx context.Context, names []string) ([]Description, error) {
	var all []Description
	var errs []error
	seen := map[string]bool{}
	for _, name := range names {
		matches, err := r.match(ctx, name)
		errs = append(errs, err)
		for _, match := range matches {
			if seen[match] {
				continue
			}
			seen[match] = true
			g, err := r.lookup(ctx, match, true)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, g.description)
		}
	}
	return all, errors.Join(errs...)
}

// match gives the names that a pattern stands for.
func (r *Registry) match(ctx context.Context, pattern string) (names []string, err error) {
	prefix, many := strings.CutSuffix(pattern, "*")
	if !many {
		return []string{pattern}, nil
	}
	for _, name := range r.names {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	var errs []error
	for _, k := range r.servers {
		if own := k.Name + "_"; !strings.HasPrefix(own, prefix) && !strings.HasPrefix(prefix, own) {
			continue
		}
		o, err := k.describe(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range o.names() {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, errors.Join(errs...)
}

// Allow gives the allow-list, which are the tools of those that have no parent here: {"*"} if there is none.
func (r *Registry) Allow() []string {
	if r.allow == nil {
		return []string{"*"}
	}
	return slices.Clone(r.allow)
}

// Restrict gives what the allow-list leaves of names, both of which may have patterns.
func (r *Registry) Restrict(names []string) []string {
	left := []string{}
	for _, name := range names {
		for _, pattern := range r.Allow() {
			if both, ok := intersect(name, pattern); ok && !slices.Contains(left, both) {
				left = append(left, both)
			}
		}
	}
	return left
}

// intersect gives the pattern of the names that two patterns have in common.
func intersect(a, b string) (both string, ok bool) {
	startA, manyA := strings.CutSuffix(a, "*")
	startB, manyB := strings.CutSuffix(b, "*")
	switch {
	case manyB && strings.HasPrefix(startA, startB):
		return a, true
	case manyA && strings.HasPrefix(startB, startA):
		return b, true
	}
	return a, a == b
}
