package a2e

import (
	"encoding/json"
	"math"
	"time"

	"github.com/troupehq/troupe/actor"
)

// The message types. Requests are decoded by [Decode], everything else by [DecodeAnswer]. CANCEL,
// TERMINATE and EXTEND have no answer of their own; their success shows as an event.
const (
	TypeSpawnReq     = "SUBAGENT_SPAWN_REQ"
	TypeSpawnResp    = "SUBAGENT_SPAWN_RESP"
	TypeDelegateReq  = "SUBAGENT_DELEGATE_REQ"
	TypeDelegateResp = "SUBAGENT_DELEGATE_RESP"
	TypeAwaitReq     = "SUBAGENT_AWAIT_REQ"
	TypeAwaitResp    = "SUBAGENT_AWAIT_RESP"
	TypeMessageReq   = "SUBAGENT_MESSAGE_REQ"
	TypeMessageResp  = "SUBAGENT_MESSAGE_RESP"
	TypeListReq      = "SUBAGENT_LIST_REQ"
	TypeListResp     = "SUBAGENT_LIST_RESP"
	TypeCancelReq    = "SUBAGENT_CANCEL_REQ"
	TypeTerminateReq = "SUBAGENT_TERMINATE_REQ"
	TypeExtendReq    = "SUBAGENT_EXTEND_REQ" // an extension
	TypeMergeReq     = "SUBAGENT_MERGE_REQ"
	TypeMergeResp    = "SUBAGENT_MERGE_RESP"
	TypeEvent        = "SUBAGENT_EVENT"
	TypeError        = "error"
)

// A Message is anything that the protocol carries. The messages implement it on pointers.
type Message interface {
	// Type is the wire text of the message's type.
	Type() string
	// Env is the message's envelope; that of a bare message is the zero Envelope.
	Env() Envelope
	// write appends the fields behind the envelope.
	write(w *writer)
}

// A Request is a message to the host: *SpawnReq, *DelegateReq, *AwaitReq, *MessageReq, *ListReq,
// *CancelReq, *TerminateReq, *ExtendReq or *MergeReq.
type Request interface {
	Message
	request()
}

// SpawnReq asks for a new subagent.
type SpawnReq struct {
	Envelope
	Agent         SubagentConfig `json:"agent"`
	ParentAgentID actor.ID       `json:"parent_agent_id,omitempty"`
	RootAgentID   actor.ID       `json:"root_agent_id,omitempty"`

	// An extension: with Definition the subagent is an instance of that agent, of Agent only the name counts,
	// and the parent is the caller.
	Definition string                     `json:"definition,omitempty"`
	Arguments  json.RawMessage            `json:"arguments,omitempty"`  // an object
	ScopedEnv  map[string]json.RawMessage `json:"scoped_env,omitempty"` // scoped variables, strings
}

// SpawnResp names the new subagent. Its status is READY. Children, an extension, are those that were spawned
// with it.
type SpawnResp struct {
	Envelope
	SubagentID actor.ID   `json:"subagent_id"`
	Status     Status     `json:"status"`
	Children   []actor.ID `json:"children,omitempty"`
}

// DelegateReq gives a subagent a task.
type DelegateReq struct {
	Envelope
	SubagentID actor.ID       `json:"subagent_id"`
	Task       TaskDefinition `json:"task"`
}

// DelegateResp says whether the task was accepted, and the status after that.
type DelegateResp struct {
	Envelope
	Accepted bool   `json:"accepted"`
	Status   Status `json:"status"`
}

// AwaitReq waits until a subagent is done. The fields behind SubagentID are extensions: with a Mode
// it waits for SubagentIDs instead, and SubagentID is optional.
type AwaitReq struct {
	Envelope
	SubagentID     actor.ID   `json:"subagent_id,omitempty"`
	SubagentIDs    []actor.ID `json:"subagent_ids,omitempty"`
	Mode           Mode       `json:"mode,omitempty"`
	Quorum         int        `json:"quorum,omitempty"`          // in mode quorum: how many are enough
	TimeoutSeconds float64    `json:"timeout_seconds,omitempty"` // 0: none was asked for
}

// Timeout is TimeoutSeconds as a duration, at least a nanosecond; 0 means that none was asked for.
func (m *AwaitReq) Timeout() time.Duration {
	if m.TimeoutSeconds <= 0 {
		return 0
	}
	ns := m.TimeoutSeconds * float64(time.Second)
	return time.Duration(min(max(ns, 1), math.MaxInt32*float64(time.Second)))
}

// AwaitResp is how a task ended. Result is a JSON object, or nil for null; an empty Error is written
// as null. The fields behind Error are extensions, and are left out when empty.
type AwaitResp struct {
	Envelope
	SubagentID actor.ID        `json:"subagent_id"`
	Status     Status          `json:"status"`
	Result     json.RawMessage `json:"result"`
	Error      string          `json:"error"`

	Results    []AwaitResp     `json:"results,omitempty"`    // one for each subagent that a Mode waited for
	Reference  string          `json:"reference,omitempty"`  // the thread's UUID
	Session    uint64          `json:"session,omitempty"`    // the number of the session that ended
	StopReason string          `json:"stopReason,omitempty"` // why it ended
	Usage      json.RawMessage `json:"usage,omitempty"`      // what it used, any JSON
}

// MessageReq sends a message from one subagent to another.
type MessageReq struct {
	Envelope
	FromSubagentID actor.ID       `json:"from_subagent_id"`
	ToSubagentID   actor.ID       `json:"to_subagent_id"`
	Message        MessagePayload `json:"message"`
}

// MessageResp says whether the message was durably queued.
type MessageResp struct {
	Envelope
	Delivered bool `json:"delivered"`
}

// ListReq lists the caller's subagents. All fields are extensions; zero fields do not filter.
type ListReq struct {
	Envelope
	Status        []Status `json:"status,omitempty"` // on the wire one status or a list
	ParentAgentID actor.ID `json:"parent_agent_id,omitempty"`
	Limit         int      `json:"limit,omitempty"`  // 1 to MaxListLimit; 0: the host's choice
	Cursor        string   `json:"cursor,omitempty"` // from the ListResp before
}

// ListResp lists subagents in creation order. A Cursor means that there are more; it is an extension.
type ListResp struct {
	Envelope
	Subagents []SubagentInfo `json:"subagents"`
	Cursor    string         `json:"cursor,omitempty"`
}

// CancelReq stops a subagent and all its descendants gracefully.
type CancelReq struct {
	Envelope
	SubagentID actor.ID `json:"subagent_id"`
}

// TerminateReq ends a subagent and all its descendants for good.
type TerminateReq struct {
	Envelope
	SubagentID actor.ID `json:"subagent_id"`
	Teardown   Teardown `json:"teardown,omitempty"` // an extension; the zero value is TeardownCascade
}

// ExtendReq gives the task that a subagent is at more time: its deadline, and the one for want of progress, come so
// many seconds later. It is an extension.
type ExtendReq struct {
	Envelope
	SubagentID actor.ID `json:"subagent_id"`
	Seconds    float64  `json:"seconds"` // above 0
}

// MergeReq combines the results of subagents.
type MergeReq struct {
	Envelope
	SubagentIDs []actor.ID `json:"subagent_ids"`
	Strategy    Strategy   `json:"strategy"`
}

// MergeResp is the combined result, a JSON object.
type MergeResp struct {
	Envelope
	MergedResult json.RawMessage `json:"merged_result"`
}

// Event tells of a change in a subagent's life. Content is a JSON object; nil is written as {}.
type Event struct {
	Envelope
	SubagentID actor.ID        `json:"subagent_id"`
	Event      string          `json:"event"`
	Content    json.RawMessage `json:"content"`
}

// Type is [TypeSpawnReq].
func (*SpawnReq) Type() string { return TypeSpawnReq }

// Type is [TypeSpawnResp].
func (*SpawnResp) Type() string { return TypeSpawnResp }

// Type is [TypeDelegateReq].
func (*DelegateReq) Type() string { return TypeDelegateReq }

// Type is [TypeDelegateResp].
func (*DelegateResp) Type() string { return TypeDelegateResp }

// Type is [TypeAwaitReq].
func (*AwaitReq) Type() string { return TypeAwaitReq }

// Type is [TypeAwaitResp].
func (*AwaitResp) Type() string { return TypeAwaitResp }

// Type is [TypeMessageReq].
func (*MessageReq) Type() string { return TypeMessageReq }

// Type is [TypeMessageResp].
func (*MessageResp) Type() string { return TypeMessageResp }

// Type is [TypeListReq].
func (*ListReq) Type() string { return TypeListReq }

// Type is [TypeListResp].
func (*ListResp) Type() string { return TypeListResp }

// Type is [TypeCancelReq].
func (*CancelReq) Type() string { return TypeCancelReq }

// Type is [TypeTerminateReq].
func (*TerminateReq) Type() string { return TypeTerminateReq }

// Type is [TypeExtendReq].
func (*ExtendReq) Type() string { return TypeExtendReq }

// Type is [TypeMergeReq].
func (*MergeReq) Type() string { return TypeMergeReq }

// Type is [TypeMergeResp].
func (*MergeResp) Type() string { return TypeMergeResp }

// Type is [TypeEvent].
func (*Event) Type() string { return TypeEvent }

// Type is [TypeError].
func (*Error) Type() string { return TypeError }

func (*SpawnReq) request()     {}
func (*DelegateReq) request()  {}
func (*AwaitReq) request()     {}
func (*MessageReq) request()   {}
func (*ListReq) request()      {}
func (*CancelReq) request()    {}
func (*TerminateReq) request() {}
func (*ExtendReq) request()    {}
func (*MergeReq) request()     {}
