package agent

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/troupehq/troupe/a2e"
)

// A Definition is an agent as people write it: what each of its sides is backed by, and what that side
// may use (S1 Agents §1). Side A acts for whoever called the agent; side B is the caller's, or another
// mind of the agent's own.
type Definition struct {
	Name            string   `json:"name"`
	Title           string   `json:"title,omitempty"`
	ExposeAsTool    bool     `json:"exposeAsTool,omitempty"`    // meant to be composed
	ToolDescription string   `json:"toolDescription,omitempty"` // what callers' models read of it
	MaxSessionTurns int      `json:"maxSessionTurns,omitempty"` // of both sides together; 0: no limit
	RequiredEnv     []string `json:"requiredEnv,omitempty"`     // scoped variables without which it can't work

	TimeoutSeconds     int         `json:"timeoutSeconds,omitempty"`     // of a session; 0: no limit
	IdleTimeoutSeconds int         `json:"idleTimeoutSeconds,omitempty"` // without progress; 0: no limit
	Budget             *a2e.Budget `json:"budget,omitempty"`             // of a thread and all below it

	SideA *Side `json:"sideA"`
	SideB *Side `json:"sideB,omitempty"` // nil: whoever called
}

// A Side is backed by exactly one of a prompt, a handler and a person.
type Side struct {
	Prompt  *Prompt `json:"prompt,omitempty"`
	Handler string  `json:"handler,omitempty"` // a function registered in Go under that name
	Human   bool    `json:"human,omitempty"`

	Subagents      []Relationship `json:"subagents,omitempty"`
	StopOnResponse *bool          `json:"stopOnResponse,omitempty"` // a response without tool calls ends the turn; default true
	MaxSteps       int            `json:"maxSteps,omitempty"`       // of a session; default 40

	IdleTimeoutSeconds int `json:"idleTimeoutSeconds,omitempty"` // while the side acts; default: the agent's

	SessionStop   *Binding `json:"sessionStop,omitempty"`   // a tool that ends the session with a result
	SessionFail   *Binding `json:"sessionFail,omitempty"`   // a tool that ends it as failed
	SessionStatus *Binding `json:"sessionStatus,omitempty"` // a tool that says what is going on
	AskParent     *Binding `json:"askParent,omitempty"`     // a tool that asks the parent and waits for its message
}

// A Prompt is what a model is told on each step of its side. In a file it may stand by its name alone.
type Prompt struct {
	Name           string          `json:"name,omitempty"`
	Text           string          `json:"text,omitempty"` // with {{name}} for the arguments of the thread
	Model          string          `json:"model,omitempty"`
	Tools          []string        `json:"tools,omitempty"`
	RequiredSchema json.RawMessage `json:"requiredSchema,omitempty"` // JSON Schema of the arguments that the agent takes
	Metadata       json.RawMessage `json:"metadata,omitempty"`       // an object, for the model
}

// IsReference reports whether a prompt stands by its name alone, for one that is defined elsewhere.
func (p *Prompt) IsReference() bool {
	return p.Name != "" && p.Text == "" && p.Model == "" && len(p.Tools) == 0 && isNothing(p.RequiredSchema) && isNothing(p.Metadata)
}

// A Binding gives a side a tool of the runtime's own under a name of the agent's choice.
type Binding struct {
	Tool        string `json:"tool"`
	Description string `json:"description,omitempty"`
}

// ParentCommunication says whether the parent hears of a session's end by itself (S1 §6.2, §6.4).
type ParentCommunication string

const (
	Implicit ParentCommunication = "implicit"
	Explicit ParentCommunication = "explicit"
)

// A Relationship lets a side have children of an agent (S1 §1).
type Relationship struct {
	Agent                   string              `json:"agent"`
	As                      string              `json:"as,omitempty"`           // default: agent
	Description             string              `json:"description,omitempty"`  // default: the child's toolDescription
	MaxInstances            int                 `json:"maxInstances,omitempty"` // 0: without bound
	Immediate               *Immediate          `json:"immediate,omitempty"`    // one is spawned with the thread
	Blocking                bool                `json:"blocking,omitempty"`
	ParentCommunication     ParentCommunication `json:"parentCommunication,omitempty"` // default implicit
	ScopedEnv               []string            `json:"scopedEnv,omitempty"`
	InitUserMessageProperty string              `json:"initUserMessageProperty,omitempty"`
	InitAttachmentsProperty string              `json:"initAttachmentsProperty,omitempty"`
	InitAgentNameProperty   string              `json:"initAgentNameProperty,omitempty"`
	Optional                string              `json:"optional,omitempty"` // the environment flag that enables it
	Hidden                  bool                `json:"hidden,omitempty"`
}

// Name is the relationship's name on every surface (S1 §2.3).
func (r *Relationship) Name() string {
	if r.As != "" {
		return r.As
	}
	return r.Agent
}

// An Immediate is the object form of a relationship's immediate; the plain true is the empty object, and the
// plain false is the same as none.
type Immediate struct {
	NameEnv        string   `json:"nameEnv,omitempty"`
	DescriptionEnv string   `json:"descriptionEnv,omitempty"`
	ScopedEnv      []string `json:"scopedEnv,omitempty"`
	Off            bool     `json:"-"` // it was written as false
}

// UnmarshalJSON takes a boolean or an object.
func (i *Immediate) UnmarshalJSON(data []byte) error {
	switch string(bytes.TrimSpace(data)) {
	case "true":
		*i = Immediate{}
		return nil
	case "false":
		*i = Immediate{Off: true}
		return nil
	}
	type object Immediate
	return json.Unmarshal(data, (*object)(i))
}

// MarshalJSON writes the shortest form.
func (i Immediate) MarshalJSON() ([]byte, error) {
	if i.NameEnv == "" && i.DescriptionEnv == "" && len(i.ScopedEnv) == 0 {
		return json.Marshal(!i.Off)
	}
	type object Immediate
	return json.Marshal(object(i))
}

// UnmarshalJSON takes a prompt's name or the prompt itself.
func (p *Prompt) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		*p = Prompt{}
		return json.Unmarshal(data, &p.Name)
	}
	type object Prompt
	return json.Unmarshal(data, (*object)(p))
}

// UnmarshalJSON takes a tool's name or the binding itself.
func (b *Binding) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '"' {
		*b = Binding{}
		return json.Unmarshal(data, &b.Tool)
	}
	type object Binding
	return json.Unmarshal(data, (*object)(b))
}

// EncodeDefinition is the form in which a definition is stored, and the inverse of [ParseDefinition]. The same
// definition always gives the same bytes.
func EncodeDefinition(d *Definition) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is read by people, too
	if err := e.Encode(d); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ParseDefinition decodes a definition that was validated before it was stored.
func ParseDefinition(data []byte) (*Definition, error) {
	var d Definition
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	if d.SideA == nil {
		return nil, errors.New("a definition without a side A")
	}
	return &d, nil
}
