package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	// MaxDefinitionBytes is the largest definition of an agent.
	MaxDefinitionBytes = 512 << 10

	// The longest name of an agent; package agent has the same limit, and says why.
	maxAgentNameBytes = 1024
)

// Agents holds the definitions of agents, all versions of each: a running thread keeps the version that it was
// born with. Versions count from 1. A version stands under a key of its own, which is written once, and the
// agent's key says which is the newest; a writer that dies between the two leaves a version that the next Apply
// announces before its own.
type Agents struct{ kv bucket }

// An AgentVersion is one version of a definition.
type AgentVersion struct {
	Name    string
	Version uint64
	Applied time.Time
}

// An agentHead is the record under an agent's key.
type agentHead struct {
	Version uint64 `json:"version"` // the newest
}

// Apply makes data the newest definition of an agent, and returns once it is. If it is that already, to the byte,
// nothing is written and changed is false. Of several calls at the same moment each one's data becomes a version,
// in some order. When the error is Unavailable or Timeout the version may have been stored: apply it again.
func (a *Agents) Apply(ctx context.Context, name string, data []byte) (version uint64, changed bool, err error) {
	const op = "store.Agents.Apply"
	if err := validAgent(op, name); err != nil {
		return 0, false, err
	}
	if len(data) > MaxDefinitionBytes {
		return 0, false, &actor.Error{Op: op, ID: actor.ID(name), Kind: actor.TooLarge,
			Err: fmt.Errorf("%d bytes, a definition has at most %d", len(data), MaxDefinitionBytes)}
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	version, changed, err = a.apply(ctx, name, data)
	return version, changed, fault(op, actor.ID(name), err)
}

// apply takes the place behind the newest version, or the next one, until a version is data.
func (a *Agents) apply(ctx context.Context, name string, data []byte) (version uint64, changed bool, err error) {
	head, _, err := a.head(ctx, name)
	if err != nil {
		return 0, false, err
	}
	if head > 0 {
		same, err := a.holds(ctx, name, head, data)
		if err != nil || same {
			return head, false, err
		}
	}
	for version = head + 1; ; version++ {
		won, err := a.claim(ctx, name, version, data)
		if err == nil {
			err = a.announce(ctx, name, version)
		}
		if err != nil || won {
			return version, won, err
		}
	}
}

// claim stores a version unless there is one, of whomever, and reports whether it is data.
func (a *Agents) claim(ctx context.Context, name string, version uint64, data []byte) (won bool, err error) {
	key := subjects.AgentVersionKey(name, version)
	for {
		_, err := a.kv.put("", "", key, data, expect(0)).Wait(ctx)
		if !conflict(err) {
			return err == nil, err
		}
		m, err := a.kv.get(ctx, query{Last: a.kv.subject(key)})
		if !errors.Is(err, errNoMessage) { // else it is on its way
			return err == nil && !m.deleted() && bytes.Equal(m.Data, data), err
		}
		yield(ctx)
	}
}

// announce makes a version that is stored the newest, unless a newer one is.
func (a *Agents) announce(ctx context.Context, name string, version uint64) error {
	for {
		head, rev, err := a.head(ctx, name)
		if err != nil || head >= version {
			return err
		}
		_, err = a.kv.save(ctx, "", subjects.AgentKey(name), agentHead{version}, expect(rev))
		if !conflict(err) {
			return err
		}
		yield(ctx)
	}
}

// yield waits a little before another try, for writers to get out of each other's way.
func yield(ctx context.Context) { pause(ctx, time.Duration(rand.Int64N(int64(5*time.Millisecond)))) }

// head reads which version is the newest, 0 when there is none, and the revision of that.
func (a *Agents) head(ctx context.Context, name string) (version, rev uint64, err error) {
	var head agentHead
	rev, err = a.kv.load(ctx, subjects.AgentKey(name), &head)
	return head.Version, rev, err
}

// holds reports whether a version is data.
func (a *Agents) holds(ctx context.Context, name string, version uint64, data []byte) (bool, error) {
	m, err := a.kv.get(ctx, query{Last: a.kv.subject(subjects.AgentVersionKey(name, version))})
	if errors.Is(err, errNoMessage) {
		return false, nil
	}
	return err == nil && !m.deleted() && bytes.Equal(m.Data, data), err
}

// Get reads a version of an agent's definition from the leader, the newest when version is 0, and tells which it is.
// NotFound means that there is no such agent, or no such version of it.
func (a *Agents) Get(ctx context.Context, name string, version uint64) (data []byte, found uint64, err error) {
	const op = "store.Agents.Get"
	if err := validAgent(op, name); err != nil {
		return nil, 0, err
	}
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	head, _, err := a.head(ctx, name)
	if err != nil {
		return nil, 0, fault(op, actor.ID(name), err)
	}
	if head == 0 {
		return nil, 0, &actor.Error{Op: op, Kind: actor.NotFound, Err: fmt.Errorf("there is no agent %q", name)}
	}
	version = cmp.Or(version, head)
	m, err := a.kv.get(ctx, query{Last: a.kv.subject(subjects.AgentVersionKey(name, version))})
	if errors.Is(err, errNoMessage) || err == nil && m.deleted() {
		return nil, 0, &actor.Error{Op: op, Kind: actor.NotFound,
			Err: fmt.Errorf("agent %q has no version %d; the newest is %d", name, version, head)}
	}
	if err != nil {
		return nil, 0, fault(op, actor.ID(name), err)
	}
	return m.Data, version, nil
}

// List gives the newest version of every agent, by name.
func (a *Agents) List(ctx context.Context) ([]AgentVersion, error) {
	const op = "store.Agents.List"
	found, err := a.kv.list(ctx, subjects.AgentsFilter)
	if err != nil {
		return nil, fault(op, "", err)
	}
	all := make([]AgentVersion, 0, len(found))
	for _, m := range found {
		name, err := subjects.ParseAgentKey(a.kv.key(m.Subject))
		var head agentHead
		if err != nil || json.Unmarshal(m.Data, &head) != nil || head.Version == 0 {
			continue // somebody else has put it there
		}
		all = append(all, AgentVersion{name, head.Version, m.Time})
	}
	slices.SortFunc(all, func(x, y AgentVersion) int { return cmp.Compare(x.Name, y.Name) })
	return all, nil
}

// Versions gives all versions of an agent, oldest first. NotFound means that there is no such agent.
func (a *Agents) Versions(ctx context.Context, name string) ([]AgentVersion, error) {
	const op = "store.Agents.Versions"
	if err := validAgent(op, name); err != nil {
		return nil, err
	}
	found, err := a.kv.list(ctx, subjects.AgentVersions(name))
	if err != nil {
		return nil, fault(op, actor.ID(name), err)
	}
	all := make([]AgentVersion, 0, len(found))
	for _, m := range found {
		if _, version, err := subjects.ParseAgentVersionKey(a.kv.key(m.Subject)); err == nil {
			all = append(all, AgentVersion{name, version, m.Time})
		}
	}
	if len(all) == 0 {
		return nil, &actor.Error{Op: op, Kind: actor.NotFound, Err: fmt.Errorf("there is no agent %q", name)}
	}
	slices.SortFunc(all, func(x, y AgentVersion) int { return cmp.Compare(x.Version, y.Version) })
	return all, nil
}

// validAgent refuses what is no agent's name.
func validAgent(op, name string) error {
	if name != "" && len(name) <= maxAgentNameBytes && utf8.ValidString(name) {
		return nil
	}
	return &actor.Error{Op: op, Kind: actor.SchemaViolation, Field: "name",
		Err: fmt.Errorf("the name of an agent is UTF-8 of 1 to %d bytes, not %.80q", maxAgentNameBytes, name)}
}
