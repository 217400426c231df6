package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// A StopReason says why a session ended.
type StopReason string

const (
	StopDone       StopReason = "stop" // it reached its end
	StopFail       StopReason = "fail" // the model gave up
	StopError      StopReason = "error"
	StopTimeout    StopReason = "timeout"
	StopMaxSteps   StopReason = "max_steps"
	StopMaxTurns   StopReason = "max_turns"
	StopBudget     StopReason = "budget" // a budget that it stands under is used up
	StopCancelled  StopReason = "cancelled"
	StopTerminated StopReason = "terminated"
)

// The registry's status of a thread (S1 §4.2).
const (
	StatusRunning    = "running"
	StatusIdle       = "idle"
	StatusFailed     = "failed"
	StatusTerminated = "terminated"

	StatusAwaitingHuman = "awaiting_human"
)

// An Entry is a thread in the registry: the fields of S1's SubagentRegistryEntry and of S0's
// SubagentInfo, in one JSON object.
type Entry struct {
	SubagentID          actor.ID           `json:"subagent_id"`
	Reference           string             `json:"reference"` // a UUID that begins with the id's hex digits
	Relationship        string             `json:"relationship"`
	Name                string             `json:"name"`
	Description         string             `json:"description"`
	Title               string             `json:"title,omitempty"`
	Blocking            bool               `json:"blocking,omitempty"`
	ThreadName          string             `json:"threadName,omitempty"`
	InitialArguments    json.RawMessage    `json:"initialArguments,omitempty"`
	SpawnGroupID        string             `json:"spawnGroupId,omitempty"`
	Agent               string             `json:"agent,omitempty"`   // the definition, and its version
	Version             uint64             `json:"version,omitempty"` // of an agent's instance
	Side                string             `json:"side,omitempty"`    // of the parent's that owns it
	Awaiting            *Awaiting          `json:"awaiting,omitempty"`
	Status              string             `json:"status"` // running, idle, failed, awaiting_human or terminated
	StatusText          string             `json:"statusText,omitempty"`
	Parked              bool               `json:"parked,omitempty"` // the session waits for another thread
	Session             uint64             `json:"session"`          // how many were opened so far
	StopReason          StopReason         `json:"stopReason,omitempty"`
	Step                int                `json:"step"` // of the session
	MaxSteps            int                `json:"maxSteps"`
	Usage               *Usage             `json:"usage,omitempty"` // of the thread's life so far, without those below it
	ParentAgentID       actor.ID           `json:"parent_agent_id,omitempty"`
	RootAgentID         actor.ID           `json:"root_agent_id"`
	Depth               int                `json:"depth"`
	ParentCommunication string             `json:"parentCommunication"`
	CreatedAt           int64              `json:"createdAt"` // microseconds since 1970, as are the next two
	UpdatedAt           int64              `json:"updatedAt"`
	SessionAt           int64              `json:"sessionAt,omitempty"` // when the session was opened
	Deadline            int64              `json:"deadline,omitempty"`  // of the session that is open
	Order               uint64             `json:"order"`               // counts the births in the tree
	Seq                 uint64             `json:"seq"`                 // the journal record that this reflects
	Config              a2e.SubagentConfig `json:"config"`
}

// Awaiting is what a person is asked.
type Awaiting struct {
	Request  string `json:"request"` // to be named by the answer
	Side     string `json:"side"`
	Since    int64  `json:"since"` // microseconds since 1970
	Question string `json:"question"`
}

// A2E computes the status that A2E knows.
func (e *Entry) A2E() a2e.Status {
	return status(e.Status == StatusTerminated, e.Status == StatusRunning || e.Status == StatusAwaitingHuman, e.Parked, e.Session, e.StopReason)
}

// Info is the entry as A2E lists it.
func (e *Entry) Info() a2e.SubagentInfo {
	return a2e.SubagentInfo{
		SubagentID:    e.SubagentID,
		Name:          e.Name,
		Status:        e.A2E(),
		ParentAgentID: e.ParentAgentID,
		RootAgentID:   e.RootAgentID,
		Depth:         e.Depth,
		Config:        e.Config,
	}
}

func status(terminated, open, parked bool, session uint64, reason StopReason) a2e.Status {
	switch {
	case terminated:
		return a2e.Terminated
	case open && parked:
		return a2e.Waiting
	case open:
		return a2e.Running
	case reason == StopCancelled:
		return a2e.Cancelled
	case session == 0:
		return a2e.Ready
	case reason == StopDone:
		return a2e.Completed
	}
	return a2e.Failed
}

// Reference is the UUID (version 8) that addresses the thread in S1. Its first 8 hex digits are
// those of the id; the rest is derived from it.
func Reference(id actor.ID) string {
	sum := sha256.Sum256([]byte("troupe reference " + id))
	if len(id) == 12 && id[:4] == "sub_" {
		if b, err := hex.DecodeString(string(id[4:])); err == nil {
			copy(sum[:], b)
		}
	}
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// RegistryEntry encodes the thread's entry as of journal sequence j.
func (t *Thread) RegistryEntry(j uint64) ([]byte, actor.Lineage) {
	h, b := &t.head, &t.birth
	e := Entry{
		SubagentID:          h.Lineage.ID,
		Reference:           Reference(h.Lineage.ID),
		Relationship:        b.Config.Name,
		Name:                b.Config.Name,
		Description:         b.Config.Role,
		Status:              h.registryStatus(),
		StatusText:          h.Progress,
		Parked:              h.parked(),
		Session:             h.Session,
		StopReason:          h.Reason,
		Step:                h.Step,
		MaxSteps:            b.Config.MaxSteps,
		Usage:               h.life(),
		ParentAgentID:       h.Lineage.Parent(),
		RootAgentID:         h.Lineage.Root(),
		Depth:               h.Lineage.Depth(),
		ParentCommunication: "implicit",
		CreatedAt:           b.CreatedAt,
		UpdatedAt:           h.UpdatedAt,
		SessionAt:           h.SessionAt,
		Deadline:            h.Deadline,
		Order:               b.Order,
		Seq:                 j,
		Config:              b.Config,
	}
	t.describe(&e)
	if !json.Valid(e.InitialArguments) {
		e.InitialArguments = nil // checked where they come in; an entry must never fail
	}
	data, err := json.Marshal(&e)
	if err != nil {
		panic("agent: registry entry: " + err.Error()) // every field was decoded from JSON
	}
	return data, h.Lineage
}

// describe adds what a composed thread has to tell.
func (t *Thread) describe(e *Entry) {
	c, at := t.birth.Composition, t.head.Composed
	if c == nil {
		return
	}
	e.Name, e.Agent, e.Version, e.Relationship = t.def.Name, t.def.Name, c.Version, t.def.Name
	e.Title, e.ThreadName, e.InitialArguments, e.SpawnGroupID = t.def.Title, c.Title, c.Arguments, c.Group
	e.Description, e.Side, e.StatusText = t.def.ToolDescription, string(c.Owner), at.Status
	if r := t.rel; r != nil {
		e.Relationship, e.Blocking = r.Name(), r.Blocking
		if r.Description != "" {
			e.Description = r.Description
		}
		if r.ParentCommunication != "" {
			e.ParentCommunication = string(r.ParentCommunication)
		}
	}
	if a := t.Waiting(); a != nil {
		e.Awaiting = &Awaiting{Request: AskID(t.head.Lineage.ID, a.N), Side: string(a.Side), Since: a.At, Question: a.Question}
	}
}

func timeOf(us int64) time.Time { return time.UnixMicro(us).UTC() }
