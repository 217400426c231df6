package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupehq/troupe/subjects"
)

// A Member is a live process, as it describes itself.
type Member struct {
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Version    string    `json:"version"`
	Partitions []int     `json:"partitions"` // that it owns
	Seen       time.Time `json:"-"`          // when the server stored its last beat
}

// Members holds the live processes of a namespace. A member that stops beating vanishes when the
// bucket's age limit has passed. It may also be missing while it lives, or come back for a moment
// after the server has crashed: what must not go wrong is not built on this, but on leases.
type Members struct{ kv bucket }

// Beat says that a member lives. It returns once that is stored.
func (m *Members) Beat(ctx context.Context, member Member) error {
	_, err := m.kv.save(ctx, "store.Members.Beat", subjects.MemberKey(member.ID), member, nil)
	return err
}

// List reads the members that have beaten within the bucket's age limit and have not left, in the
// order of their last beat. What somebody else has put into the bucket is left out.
func (m *Members) List(ctx context.Context) ([]Member, error) {
	found, err := m.kv.list(ctx, ">")
	if err != nil {
		return nil, fault("store.Members.List", "", err)
	}
	members := make([]Member, 0, len(found))
	for _, f := range found {
		member := Member{Seen: f.Time}
		if json.Unmarshal(f.Data, &member) == nil && subjects.MemberKey(member.ID) == m.kv.key(f.Subject) {
			members = append(members, member)
		}
	}
	return members, nil
}

// Leave removes a member at once. A member that is not there has left.
func (m *Members) Leave(ctx context.Context, id string) error {
	_, err := m.kv.remove("store.Members.Leave", subjects.MemberKey(id)).Wait(ctx)
	return err
}
