package bus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/subjects"
)

const (
	mailAge = 7 * 24 * time.Hour
	deadAge = 30 * 24 * time.Hour
	keysAge = 24 * time.Hour
	// A request for variables is open for a day, and known to have been so for some more.
	requestsAge = 7 * 24 * time.Hour
	membersAge  = 10 * time.Second

	// No message here has an id, so the window in which the server would remember ids is only kept
	// short for those that strangers send.
	dedupWindow = 30 * time.Second
)

// timerStream is the one that the inbox stream sources: it stands before it.
func (l Layout) timerStream() jetstream.StreamConfig {
	s := l.stream(l.Names.TimerStream(), l.Names.TimerFilters()...)
	s.AllowMsgSchedules, s.AllowMsgTTL, s.AllowRollup = true, true, true
	s.Discard = jetstream.DiscardOld // the server has no schedules otherwise: no limit may be set here
	return s
}

// inboxStream spreads the inboxes over the partitions and takes in what the timers fire. It allows
// no rollup, schedule or TTL: one who may publish here could erase or forge with those.
func (l Layout) inboxStream() jetstream.StreamConfig {
	n := l.Names
	s := l.stream(n.InboxStream(), n.InboxFilter())
	src, dest := n.InboxTransform(l.Partitions)
	s.SubjectTransform = &jetstream.SubjectTransformConfig{Source: src, Destination: dest}
	src, dest = n.FiredTransform()
	s.Sources = []*jetstream.StreamSource{{
		Name:              n.TimerStream(),
		SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: src, Destination: dest}},
	}}
	return s
}

// leasesBucket is the first to exist: it holds what the others are made from.
func (l Layout) leasesBucket() jetstream.StreamConfig { return l.bucket(l.Names.LeasesBucket(), 0) }

// others are the streams and buckets that need no other one.
func (l Layout) others() []jetstream.StreamConfig {
	n := l.Names
	journal := l.stream(n.JournalStream(), n.JournalFilters()...)
	journal.DenyDelete = true
	mail := l.stream(n.MailStream(), n.MailFilter())
	mail.MaxAge = mailAge
	// Jobs, and what the server says of those that it delivers to nobody any more: what it says is kept until a
	// host has told the job's actor.
	work := l.stream(n.WorkStream(), n.WorkFilter(), n.WorkExhausted())
	work.Retention = jetstream.WorkQueuePolicy
	dead := l.stream(n.DeadStream(), n.DeadFilter())
	dead.MaxAge, dead.Discard = deadAge, jetstream.DiscardOld
	return []jetstream.StreamConfig{
		journal, mail, work, dead,
		l.bucket(n.RegistryBucket(), 0),
		l.bucket(n.AgentsBucket(), 0),
		l.bucket(n.MemoryBucket(), 0),
		l.bucket(n.EnvBucket(), 0),
		l.bucket(n.RequestsBucket(), requestsAge),
		l.bucket(n.FilesBucket(), 0),
		l.bucket(n.KeysBucket(), keysAge),
		l.bucket(n.MembersBucket(), membersAge),
		l.objects(n.BlobsBucket()),
	}
}

// stream is what all have in common: on disk, read from the leader, no limit but age. Where an operator sets one, what is
// new is refused: what was acknowledged is never dropped for it.
func (l Layout) stream(name string, filters ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Subjects:          filters,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		Replicas:          l.Replicas,
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		Duplicates:        dedupWindow,
	}
}

// bucket is a stream that the key-value API binds to. It is not made through that API, which would
// let followers answer a read.
func (l Layout) bucket(name string, age time.Duration) jetstream.StreamConfig {
	s := l.stream(subjects.KVStream(name), subjects.KVSubject(name, ">"))
	s.MaxMsgsPerSubject = 1
	s.MaxAge = age
	if age > 0 {
		s.Duplicates = min(age, dedupWindow)
	}
	s.AllowRollup, s.DenyDelete = true, true
	return s
}

// objects is a stream that the object store's API binds to. Here too only the leader answers: a
// follower may not know yet of a blob whose reference has already come.
func (l Layout) objects(name string) jetstream.StreamConfig {
	s := l.stream("OBJ_"+name, "$O."+name+".C.>", "$O."+name+".M.>")
	s.AllowRollup = true
	return s
}

// grown reports whether have is a stream as an earlier version made it, which listened to less: the first version's
// queue of jobs, which it never used.
func grown(have, want jetstream.StreamConfig) bool {
	old, isWork := strings.CutSuffix(want.Subjects[0], ".*.*.*.*")
	return isWork && len(have.Subjects) == 1 && have.Subjects[0] == old+".*.*"
}

// mended gives what an existing stream is to be changed to, if it is as an earlier version made it: it listened to less, or
// would drop what is old at a limit.
func mended(have, want jetstream.StreamConfig) (better jetstream.StreamConfig, need bool) {
	better = have
	if grown(have, want) {
		better.Subjects, need = want.Subjects, true
	}
	if have.Discard == jetstream.DiscardOld && want.Discard == jetstream.DiscardNew {
		better.Discard, need = want.Discard, true
	}
	return better, need
}

// differs says what of an existing stream would break us, if anything. Ages, limits, replicas and
// placement are the operator's to change.
func differs(have, want jetstream.StreamConfig) error {
	switch {
	case !slices.Equal(have.Subjects, want.Subjects):
		return fmt.Errorf("it listens to %q, not to %q", have.Subjects, want.Subjects)
	case have.Retention != want.Retention:
		return fmt.Errorf("its retention is %v, not %v", have.Retention, want.Retention)
	case have.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return fmt.Errorf("it keeps %d messages a subject, not %d", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	case have.AllowDirect:
		return fmt.Errorf("it lets followers answer (allow_direct)")
	case transform(have) != transform(want):
		return fmt.Errorf("its subject transform is %q, not %q", transform(have), transform(want))
	case len(have.Sources) != len(want.Sources):
		return fmt.Errorf("it has %d sources, not %d", len(have.Sources), len(want.Sources))
	}
	return nil
}

func transform(s jetstream.StreamConfig) string {
	if s.SubjectTransform == nil {
		return ""
	}
	return s.SubjectTransform.Destination
}
