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
	Partitions []int     `json:"partitions"`        // that it owns
	Assigns    int       `json:"assigns,omitempty"` // the newest way to assign partitions that it knows
	Seen       time.Time `json:"-"`                 // when the server stored its last beat
	Leaving    bool      `json:"-"`                 // it is no member any more, owns nothing, and ends what it has begun
}

// Same reports whether two records tell of one process, not just of one name.
func (m Member) Same(other Member) bool {
	return m.ID == other.ID && m.Host == other.Host && m.PID == other.PID && m.Started.Equal(other.Started)
}

// Members holds the live processes of a namespace. A member that stops beating vanishes when the
// bucket's age limit has passed. It may also be missing while it lives, or come back for a moment
// after the server has crashed: what must not go wrong is not built on this, but on leases.
type Members struct{ kv bucket }

// Get reads what is said of a member, from the leader. One of whom nothing is said is the zero Member; rev is what
// Beat must expect in any case.
func (m *Members) Get(ctx context.Context, id string) (member Member, rev uint64, err error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	rev, err = m.kv.load(ctx, subjects.MemberKey(id), &member)
	return member, rev, fault("store.Members.Get", "", err)
}

// Beat says that a member lives, where rev is the revision of what was said last. It gives the new one once that is
// stored. Conflict means that there is another: somebody else goes by the name, or an earlier Beat whose outcome was
// unknown has arrived, or what was said before is too old and has vanished.
func (m *Members) Beat(ctx context.Context, member Member, rev uint64) (newRev uint64, err error) {
	return m.kv.save(ctx, "store.Members.Beat", subjects.MemberKey(member.ID), member, expect(rev))
}

// Linger says that a process which is leaving still has something to end. Members of versions that do not know of this
// take no notice.
func (m *Members) Linger(ctx context.Context, member Member) error {
	_, err := m.kv.save(ctx, "store.Members.Linger", subjects.LeavingKey(member.ID), member, nil)
	return err
}

// List reads the members that have beaten within the bucket's age limit and have not left, and those that are leaving, in
// the order of their last beat. What somebody else has put into the bucket is left out.
func (m *Members) List(ctx context.Context) ([]Member, error) {
	found, err := m.kv.list(ctx, ">")
	if err != nil {
		return nil, fault("store.Members.List", "", err)
	}
	members := make([]Member, 0, len(found))
	for _, f := range found {
		member := Member{Seen: f.Time}
		if json.Unmarshal(f.Data, &member) != nil {
			continue
		}
		switch m.kv.key(f.Subject) {
		case subjects.LeavingKey(member.ID):
			member.Leaving, member.Partitions = true, nil
		case subjects.MemberKey(member.ID):
		default:
			continue
		}
		members = append(members, member)
	}
	return members, nil
}

// Leave removes a member at once. A member that is not there has left.
func (m *Members) Leave(ctx context.Context, id string) error {
	_, err := m.kv.remove("store.Members.Leave", subjects.MemberKey(id)).Wait(ctx)
	return err
}

// Gone ends what Linger began.
func (m *Members) Gone(ctx context.Context, id string) error {
	_, err := m.kv.remove("store.Members.Gone", subjects.LeavingKey(id)).Wait(ctx)
	return err
}
