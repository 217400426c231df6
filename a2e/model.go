package a2e

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// The defaults of the specification.
const (
	DefaultMaxSteps       = 40
	DefaultTimeoutSeconds = 600
)

// The limits on a request.
const (
	MaxNameBytes   = 1024      // the name of a subagent or of a task
	MaxConfigBytes = 128 << 10 // a SubagentConfig as Encode writes it
	MaxDepth       = 64        // levels of nesting, the message itself being the first
	MaxListLimit   = 10000     // ListReq.Limit
	MaxBudget      = 1 << 53   // Budget.Tokens and Budget.Steps
	MaxUSD         = 1e9       // Budget.USD
)

// A Status is where a subagent stands.
type Status string

const (
	Ready      Status = "READY"      // no task yet
	Running    Status = "RUNNING"    // working on a task
	Waiting    Status = "WAITING"    // waiting for input or for another subagent
	Completed  Status = "COMPLETED"  // the task ended well
	Failed     Status = "FAILED"     // the task ended with an error
	Cancelled  Status = "CANCELLED"  // the task was cancelled
	Terminated Status = "TERMINATED" // the subagent was terminated
)

var statuses = []Status{Ready, Running, Waiting, Completed, Failed, Cancelled, Terminated}

// Valid reports whether s is one of the specification's.
func (s Status) Valid() bool { return slices.Contains(statuses, s) }

// Closed reports whether the last task has ended: COMPLETED, FAILED, CANCELLED or TERMINATED.
func (s Status) Closed() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Terminated
}

// A MemoryScope says whose memory a subagent works on.
type MemoryScope string

const (
	MemoryShared   MemoryScope = "shared"   // the parent's; the default
	MemoryIsolated MemoryScope = "isolated" // its own
	MemorySnapshot MemoryScope = "snapshot" // a copy of the parent's as of the spawn
)

var memoryScopes = []MemoryScope{MemoryShared, MemoryIsolated, MemorySnapshot}

// Valid reports whether s is one of the specification's.
func (s MemoryScope) Valid() bool { return slices.Contains(memoryScopes, s) }

// A ToolScope says which tools a subagent may use.
type ToolScope string

const (
	ToolsShared     ToolScope = "shared"     // all of the parent's
	ToolsRestricted ToolScope = "restricted" // what the host's policy leaves of the parent's; the default
	ToolsIsolated   ToolScope = "isolated"   // its own
)

var toolScopes = []ToolScope{ToolsShared, ToolsRestricted, ToolsIsolated}

// Valid reports whether s is one of the specification's.
func (s ToolScope) Valid() bool { return slices.Contains(toolScopes, s) }

// A Teardown says what becomes of the descendants of a subagent that is terminated. It is an extension.
type Teardown string

const (
	TeardownCascade Teardown = "cascade" // they are terminated as well; the default
	TeardownDetach  Teardown = "detach"  // they live on
)

// Valid reports whether t is one of the two.
func (t Teardown) Valid() bool { return t == TeardownCascade || t == TeardownDetach }

// A Mode says how many of an AwaitReq's subagents have to be done. It is an extension.
type Mode string

const (
	ModeAny    Mode = "any"    // one of them
	ModeAll    Mode = "all"    // each of them
	ModeQuorum Mode = "quorum" // AwaitReq.Quorum of them
)

var modes = []Mode{ModeAny, ModeAll, ModeQuorum}

// Valid reports whether m is one of the three.
func (m Mode) Valid() bool { return slices.Contains(modes, m) }

// A Strategy says how results are merged: one of the constants, or "custom:" and the name of a merge
// function.
type Strategy string

const (
	HierarchicalSummary Strategy = "hierarchical_summary" // the default
	Voting              Strategy = "voting"
	Custom              Strategy = "custom"
)

// Valid reports whether s is a constant, or names a merge function by at most actor.MaxIDBytes bytes.
func (s Strategy) Valid() bool {
	if s == HierarchicalSummary || s == Voting || s == Custom {
		return true
	}
	name, ok := s.Function()
	return ok && name != "" && len(name) <= actor.MaxIDBytes
}

// Function gives the name of a custom strategy's merge function, "" for plain custom. It reports
// whether the strategy is a custom one.
func (s Strategy) Function() (name string, ok bool) {
	if s == Custom {
		return "", true
	}
	return strings.CutPrefix(string(s), string(Custom)+":")
}

// SubagentConfig says what a subagent is. Zero fields mean the specification's defaults.
type SubagentConfig struct {
	Name           string                     `json:"name"`
	Role           string                     `json:"role,omitempty"`
	Model          string                     `json:"model"`
	SystemPrompt   string                     `json:"system_prompt,omitempty"`
	Capabilities   []string                   `json:"capabilities"`
	MemoryScope    MemoryScope                `json:"memory_scope"`
	ToolScope      ToolScope                  `json:"tool_scope"`
	MaxSteps       int                        `json:"max_steps"`       // above 0
	TimeoutSeconds int                        `json:"timeout_seconds"` // above 0
	Metadata       map[string]json.RawMessage `json:"metadata"`

	// Extensions. IdleTimeoutSeconds is how long a task may go without progress; 0: without limit.
	IdleTimeoutSeconds int     `json:"idle_timeout_seconds,omitempty"`
	Budget             *Budget `json:"budget,omitempty"`
}

// A Budget bounds what a subagent and everything below it may use: Tokens, USD and Steps in the subagent's life,
// Seconds in each of its tasks. Zero fields bound nothing. It is an extension.
type Budget struct {
	Tokens  int64   `json:"tokens,omitempty"` // of input, the cached ones among them, and output
	USD     float64 `json:"usd,omitempty"`
	Steps   int64   `json:"steps,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// WithDefaults gives the configuration with the specification's defaults in place of zero fields.
func (c SubagentConfig) WithDefaults() SubagentConfig {
	if c.Capabilities == nil {
		c.Capabilities = []string{}
	}
	if c.MemoryScope == "" {
		c.MemoryScope = MemoryShared
	}
	if c.ToolScope == "" {
		c.ToolScope = ToolsRestricted
	}
	if c.MaxSteps == 0 {
		c.MaxSteps = DefaultMaxSteps
	}
	if c.TimeoutSeconds == 0 {
		c.TimeoutSeconds = DefaultTimeoutSeconds
	}
	if c.Metadata == nil {
		c.Metadata = map[string]json.RawMessage{}
	}
	return c
}

// TaskDefinition is what a subagent is to do.
type TaskDefinition struct {
	Name            string                     `json:"name"`
	Instruction     string                     `json:"instruction"`
	SuccessCriteria []string                   `json:"success_criteria"`
	Metadata        map[string]json.RawMessage `json:"metadata"`
}

// SubagentInfo is a subagent as a list shows it.
type SubagentInfo struct {
	SubagentID    actor.ID       `json:"subagent_id"`
	Name          string         `json:"name"`
	Status        Status         `json:"status"`
	ParentAgentID actor.ID       `json:"parent_agent_id,omitempty"`
	RootAgentID   actor.ID       `json:"root_agent_id,omitempty"`
	Depth         int            `json:"depth"` // the root has 0
	Config        SubagentConfig `json:"config"`
}

// MessagePayload is what one subagent says to another. Content is any JSON; nil is written as null.
// Metadata is an extension: its "source" is a [SourceRef], which is carried as provenance.
type MessagePayload struct {
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`

	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// SourceRef says where a message came from. It is carried as metadata.source, as provenance.
type SourceRef struct {
	SessionID    string `json:"session_id,omitempty"`
	TrajectoryID string `json:"trajectory_id,omitempty"`
	TurnID       string `json:"turn_id,omitempty"`
}
