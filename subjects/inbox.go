package subjects

import (
	"fmt"
	"strconv"

	"github.com/troupehq/troupe/actor"
)

// A Route is what the subject of an envelope says: whose inbox, which lane of it, and who sent it.
// On lane ctl, From is the name of a timer when the envelope is a fired one.
type Route struct {
	To   actor.ID
	Lane actor.Lane
	From actor.ID
}

// Inbox is where an envelope is published: "<ns>.inbox.<to>.<lane>.<from>". The inbox stream stores
// it under [Names.StoredInbox].
func (n Names) Inbox(to actor.ID, lane actor.Lane, from actor.ID) string {
	return join(n.prefix, "inbox.", string(to), string(lane), string(from))
}

// ParseInbox is the inverse of Inbox. It refuses an unknown lane.
func (n Names) ParseInbox(subject string) (Route, error) {
	const op = "subjects.ParseInbox"
	var t [3]string
	if err := parse(n.prefix, "inbox.", subject, t[:]); err != nil {
		return Route{}, refuse(op, "subject", err)
	}
	return route(op, t)
}

// StoredInbox is the subject that the inbox stream stores an envelope under:
// "<ns>.inbox.<p>.<to>.<lane>.<from>", where p is [Partition] of the recipient.
func (n Names) StoredInbox(p int, to actor.ID, lane actor.Lane, from actor.ID) string {
	var digits [20]byte
	return join(n.prefix, "inbox.",
		string(strconv.AppendInt(digits[:0], int64(p), 10)), string(to), string(lane), string(from))
}

// ParseStoredInbox is the inverse of StoredInbox. It refuses an unknown lane. It does not know how
// many partitions there are, so it takes the partition as it stands.
func (n Names) ParseStoredInbox(subject string) (p int, r Route, err error) {
	const op = "subjects.ParseStoredInbox"
	var t [4]string
	if err := parse(n.prefix, "inbox.", subject, t[:]); err != nil {
		return 0, Route{}, refuse(op, "subject", err)
	}
	if p, err = parseNumber(t[0]); err != nil {
		return 0, Route{}, refuse(op, "subject", err)
	}
	if r, err = route(op, [3]string(t[1:])); err != nil {
		return 0, Route{}, err
	}
	return p, r, nil
}

func route(op string, t [3]string) (Route, error) {
	if err := validIDs(op, "subject", t[0], t[2]); err != nil {
		return Route{}, err
	}
	switch lane := actor.Lane(t[1]); lane {
	case actor.LaneA, actor.LaneB, actor.LaneQueue, actor.LaneHost, actor.LaneCtl, actor.LaneJob:
		return Route{To: actor.ID(t[0]), Lane: lane, From: actor.ID(t[2])}, nil
	default:
		return Route{}, refuse(op, "subject", fmt.Errorf("%q is not a lane", t[1]))
	}
}

// InboxFilter is what the inbox stream listens to. It matches what is published, not what is stored.
func (n Names) InboxFilter() string { return n.prefix + "inbox.*.*.*" }

// InboxPartition matches everything that is stored in one partition.
func (n Names) InboxPartition(p int) string {
	return n.prefix + "inbox." + strconv.Itoa(p) + ".>"
}

// InboxOf matches everything that is stored for one actor and for the host of its tree.
func (n Names) InboxOf(p int, to actor.ID) string {
	return join(n.prefix, "inbox.", strconv.Itoa(p), string(to)) + ".>"
}

// InboxTransform is the subject transform of an inbox stream of parts partitions: it turns each
// Inbox subject into the StoredInbox one.
func (n Names) InboxTransform(parts int) (src, dest string) {
	return n.InboxFilter(), n.prefix + "inbox.{{partition(" + strconv.Itoa(parts) +
		",1)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
}

// Partition is the partition of an actor's inbox among parts of them. It is the server's own
// partition function: FNV-1a over the encoded token, modulo parts. With no parts it is 0, as there.
func Partition(to actor.ID, parts int) int {
	const offset, prime = 2166136261, 16777619
	if parts <= 0 {
		return 0
	}
	token := EncodeToken(string(to))
	h := uint32(offset)
	for i := range len(token) {
		h = (h ^ uint32(token[i])) * prime
	}
	return int(h % uint32(parts))
}

// Timer is where a schedule is kept until it fires: "<ns>.timer.<id>.<name>". There is one schedule
// a subject: a newer one replaces it.
func (n Names) Timer(id actor.ID, name string) string {
	return join(n.prefix, "timer.", string(id), name)
}

// ParseTimer is the inverse of Timer.
func (n Names) ParseTimer(subject string) (id actor.ID, name string, err error) {
	return n.parseNamed("subjects.ParseTimer", "timer.", subject)
}

// TimersOf matches the schedules of one actor.
func (n Names) TimersOf(id actor.ID) string { return join(n.prefix, "timer.", string(id)) + ".*" }

// Fired is the target of a schedule: "<ns>.fired.<id>.<name>". The inbox stream sources it.
func (n Names) Fired(id actor.ID, name string) string {
	return join(n.prefix, "fired.", string(id), name)
}

// ParseFired is the inverse of Fired.
func (n Names) ParseFired(subject string) (id actor.ID, name string, err error) {
	return n.parseNamed("subjects.ParseFired", "fired.", subject)
}

// FiredTransform is the transform under which the inbox stream sources the timer stream: a fired
// timer becomes an envelope on lane ctl of its actor, from the timer's name. The inbox stream's own
// transform applies after it. A timer's name must be a [ValidID], for it becomes a Route's From.
func (n Names) FiredTransform() (src, dest string) {
	return n.prefix + "fired.*.*", n.prefix + "inbox.{{wildcard(1)}}." + string(actor.LaneCtl) + ".{{wildcard(2)}}"
}

// TimerFilters are what the timer stream listens to: schedules, and what they fire.
func (n Names) TimerFilters() []string {
	return []string{n.prefix + "timer.*.*", n.prefix + "fired.*.*"}
}

// parseNamed reads the subjects that are an actor and a name.
func (n Names) parseNamed(op, kind, subject string) (actor.ID, string, error) {
	var t [2]string
	if err := parse(n.prefix, kind, subject, t[:]); err != nil {
		return "", "", refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[0]); err != nil {
		return "", "", err
	}
	return actor.ID(t[0]), t[1], nil
}
