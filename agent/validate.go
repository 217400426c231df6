package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// MaxNameBytes is the longest name of an agent. A byte may take three in a key, and a NATS protocol line ends
// at 4,096 bytes.
const MaxNameBytes = 1024

// The names of the lifecycle tools, which the runtime injects (S1 §2.4, §5).
const (
	ToolSubagents       = "subagents"
	ToolSubagentCreate  = "subagent_create"
	ToolSubagentMessage = "subagent_message"
)

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`) // what the strictest provider takes
	envName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// A Problem is one thing that is wrong with a definition. Its path leads from the list of all definitions to
// what is wrong: "agents[2].sideA.subagents[0].as".
type Problem struct {
	Path    string     `json:"path"`
	Code    actor.Kind `json:"code"`
	Message string     `json:"message"`
}

// String is one line: the code, the path and the message.
func (p Problem) String() string { return string(p.Code) + ": " + p.Path + ": " + p.Message }

// Validate checks definitions that belong together and gives all their problems, in the order of the
// definitions (DECISIONS S1.9). The codes are the Kinds subagent_…, and schema_violation for everything else.
// A relationship may be to one of the definitions or to an agent that is known otherwise; a nil known knows
// none. Of an agent that is known otherwise only its existence is checked. Which models, tools and handlers
// there are only a host knows.
func Validate(defs []Definition, known func(name string) bool) []Problem {
	v := &validation{defs: defs, byName: make(map[string]int, len(defs)), known: known}
	for i := range defs {
		if _, ok := v.byName[defs[i].Name]; !ok {
			v.byName[defs[i].Name] = i
		}
	}
	for i := range defs {
		v.definition(i)
	}
	return v.problems
}

// A validation is a run of Validate.
type validation struct {
	defs     []Definition
	byName   map[string]int // the first definition of each name
	known    func(string) bool
	problems []Problem
}

func (v *validation) report(path string, code actor.Kind, format string, args ...any) {
	v.problems = append(v.problems, Problem{path, code, fmt.Sprintf(format, args...)})
}

func (v *validation) violation(path, format string, args ...any) {
	v.report(path, actor.SchemaViolation, format, args...)
}

func (v *validation) definition(i int) {
	d, path := &v.defs[i], fmt.Sprintf("agents[%d]", i)
	if err := ValidName(d.Name); err != nil {
		v.violation(path+".name", "%v", err)
	} else if first := v.byName[d.Name]; first != i {
		v.violation(path+".name", "another agent has the name %q", d.Name)
	}
	v.notNegative(path+".maxSessionTurns", d.MaxSessionTurns)
	v.seconds(path+".timeoutSeconds", d.TimeoutSeconds)
	v.seconds(path+".idleTimeoutSeconds", d.IdleTimeoutSeconds)
	if d.Budget != nil {
		v.budget(path+".budget", d.Budget)
	}
	v.envNames(path+".requiredEnv", d.RequiredEnv)
	if d.SideA == nil {
		v.violation(path+".sideA", "an agent needs a side A")
	}
	owners := map[string]string{} // of the relationships, by name
	for _, s := range []struct {
		key  string
		side *Side
	}{{"sideA", d.SideA}, {"sideB", d.SideB}} {
		if s.side != nil {
			at := path + "." + s.key
			v.side(at, s.side)
			v.relationships(at, i, s.side, owners, s.key)
			v.tools(at, s.side)
		}
	}
}

// ValidName checks the name of an agent: any UTF-8 of 1 to [MaxNameBytes] bytes.
func ValidName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("an agent needs a name")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("a name of %d bytes, at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not valid UTF-8", name)
	}
	return nil
}

// side checks what a side is backed by, and all of it but its tools and relationships.
func (v *validation) side(path string, s *Side) {
	var backing []string
	for _, b := range []struct {
		name string
		set  bool
	}{{"prompt", s.Prompt != nil}, {"handler", s.Handler != ""}, {"human", s.Human}} {
		if b.set {
			backing = append(backing, b.name)
		}
	}
	switch {
	case len(backing) == 0:
		v.violation(path, "a side needs a prompt, a handler or human: true")
	case len(backing) > 1:
		v.violation(path, "a side has one of prompt, handler and human; this one has %s", strings.Join(backing, " and "))
	}
	if s.Human && len(s.Subagents) > 0 {
		v.report(path+".subagents", actor.SubagentHumanSide, "a person's side can't own relationships: nothing there could call them")
	}
	v.notNegative(path+".maxSteps", s.MaxSteps)
	v.seconds(path+".idleTimeoutSeconds", s.IdleTimeoutSeconds)
	if s.Prompt != nil {
		v.prompt(path+".prompt", s.Prompt)
	}
}

func (v *validation) prompt(path string, p *Prompt) {
	if p.IsReference() {
		v.violation(path, "there is no prompt %q", p.Name)
		return
	}
	if p.Text == "" {
		v.violation(path+".text", "a prompt needs a text")
	}
	if p.Model == "" {
		v.violation(path+".model", "a prompt needs a model")
	}
	if _, err := CompileSchema(p.RequiredSchema); err != nil {
		v.violation(path+".requiredSchema", "%v", cause(err))
	}
	if !isNothing(p.Metadata) && !isObject(p.Metadata) {
		v.violation(path+".metadata", "it is not an object")
	}
}

// cause is the innermost error: what is wrong, without what was being done.
func cause(err error) error {
	for {
		e, ok := err.(*actor.Error)
		if !ok || e.Err == nil {
			return err
		}
		err = e.Err
	}
}

func (v *validation) notNegative(path string, n int) {
	if n < 0 {
		v.violation(path, "%d is below zero", n)
	}
}

func (v *validation) seconds(path string, n int) {
	if n < 0 || n > math.MaxInt32 {
		v.violation(path, "%d is not from 0 to %d", n, math.MaxInt32)
	}
}

// budget checks what a budget bounds, as a2e does.
func (v *validation) budget(path string, b *a2e.Budget) {
	if *b == (a2e.Budget{}) {
		v.violation(path, "a budget bounds one of tokens, usd, steps and seconds")
	}
	for _, n := range []struct {
		key  string
		n    float64
		most float64
	}{{"tokens", float64(b.Tokens), a2e.MaxBudget}, {"usd", b.USD, a2e.MaxUSD}, {"steps", float64(b.Steps), a2e.MaxBudget}, {"seconds", b.Seconds, math.MaxInt32}} {
		if !(n.n >= 0 && n.n <= n.most) {
			v.violation(path+"."+n.key, "%v is not from 0 to %.0f", n.n, n.most)
		}
	}
}

func (v *validation) envNames(path string, names []string) {
	for i, name := range names {
		v.envName(fmt.Sprintf("%s[%d]", path, i), name)
	}
}

func (v *validation) envName(path, name string) {
	if !envName.MatchString(name) {
		v.violation(path, "%q is not the name of an environment variable: letters, digits and '_', no digit first", name)
	}
}

// exists reports whether there is an agent of that name.
func (v *validation) exists(name string) bool {
	_, ok := v.byName[name]
	return ok || v.known != nil && v.known(name)
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return json.Valid(raw) && raw[0] == '{'
}
