package subjects_test

import (
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// TestSpelling pins every name that others build on: permissions, scripts and stores out there spell
// them too, so a change here breaks them.
func TestSpelling(t *testing.T) {
	t.Parallel()
	n := names(t, "")
	for _, c := range []struct{ what, got, want string }{
		{"an envelope", n.Inbox("sub_1f0c22aa", actor.LaneA, "me"), "troupe.inbox.sub_1f0c22aa.a.me"},
		{"an envelope with hostile names", n.Inbox("a.b", actor.LaneCtl, "*"), "troupe.inbox.a=2Eb.ctl.=2A"},
		{"a stored envelope", n.StoredInbox(7, "parent_1", actor.LaneHost, "sub_1f0c22aa"), "troupe.inbox.7.parent_1.host.sub_1f0c22aa"},
		{"a stored envelope far out", n.StoredInbox(1234, "p", actor.LaneB, "q"), "troupe.inbox.1234.p.b.q"},
		{"the inbox filter", n.InboxFilter(), "troupe.inbox.*.*.*"},
		{"a partition", n.InboxPartition(7), "troupe.inbox.7.>"},
		{"an inbox of a partition", n.InboxOf(7, "Ada L."), "troupe.inbox.7.Ada=20L=2E.>"},
		{"a thread's journal", n.Journal(actor.Address{ID: "sub_1f0c22aa"}), "troupe.journal.sub_1f0c22aa"},
		{"a host's journal", n.Journal(actor.Address{ID: "parent_1", Host: true}), "troupe.journal.parent_1.host"},
		{"the journal filters", n.JournalFilters()[0] + " " + n.JournalFilters()[1], "troupe.journal.* troupe.journal.*.host"},
		{"an event", n.Event("parent_1", "sub_1f0c22aa", "spawned"), "troupe.event.parent_1.sub_1f0c22aa.spawned"},
		{"a tree's events", n.EventTree("parent.1"), "troupe.event.parent=2E1.>"},
		{"mail", n.Mail("parent_1", "sub_1f0c22aa", "3"), "troupe.mail.parent_1.sub_1f0c22aa.3"},
		{"an agent's mail", n.MailAgent("parent_1"), "troupe.mail.parent_1.>"},
		{"the mail filter", n.MailFilter(), "troupe.mail.*.*.*"},
		{"a timer", n.Timer("sub_1f0c22aa", "deadline"), "troupe.timer.sub_1f0c22aa.deadline"},
		{"a fired timer", n.Fired("sub_1f0c22aa", "deadline"), "troupe.fired.sub_1f0c22aa.deadline"},
		{"the timer filters", n.TimerFilters()[0] + " " + n.TimerFilters()[1], "troupe.timer.*.* troupe.fired.*.*"},
		{"an answer to a job", n.Inbox("sub_1f0c22aa", actor.LaneJob, "tool/web search"), "troupe.inbox.sub_1f0c22aa.job.tool=2Fweb=20search"},
		{"a job", n.Work("tool", "web search", "sub_1f0c22aa", 12), "troupe.work.tool.web=20search.sub_1f0c22aa.12"},
		{"the jobs of a service", n.WorkService("tool", "web search"), "troupe.work.tool.web=20search.>"},
		{"the work filter", n.WorkFilter(), "troupe.work.*.*.*.*"},
		{"the consumer of a service", subjects.WorkConsumer("tool", "web search"), "work_tool_web=20search"},
		{"jobs that are given up", n.WorkExhausted(), "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.troupe_work.*"},
		{"a job's progress", n.JobProgress("sub_1f0c22aa", 12), "troupe.job.sub_1f0c22aa.12.progress"},
		{"a job's cancellation", n.JobCancel("sub_1f0c22aa", 12), "troupe.job.sub_1f0c22aa.12.cancel"},
		{"the progress of all jobs", n.JobsProgress(), "troupe.job.*.*.progress"},
		{"the cancellations of all jobs", n.JobsCancel(), "troupe.job.*.*.cancel"},
		{"that a partition is free", n.Released(), "troupe.member.released"},
		{"a dead letter", n.Dead("sub_1f0c22aa"), "troupe.dead.sub_1f0c22aa"},
		{"the dead letter filter", n.DeadFilter(), "troupe.dead.*"},
		{"an agent's door", n.A2E("parent_1"), "troupe.a2e.parent_1"},
		{"all doors", n.A2EAll(), "troupe.a2e.*"},

		{"a registry key", subjects.RegistryKey("parent_1", "sub_1f0c22aa", "sub_2"), "parent_1.sub_1f0c22aa.sub_2"},
		{"a root's registry key", subjects.RegistryKey("parent_1", "", "parent_1"), "parent_1.=.parent_1"},
		{"a tree in the registry", subjects.RegistryTree("parent_1"), "parent_1.>"},
		{"children in the registry", subjects.RegistryChildren("parent_1", "a.b"), "parent_1.a=2Eb.*"},
		{"a lease", subjects.LeaseKey(7), "p.7"},
		{"all leases", subjects.LeaseFilter, "p.*"},
		{"the configuration", subjects.ConfigKey, "config"},
		{"the counter of ids", subjects.IDsKey, "ids"},
		{"a member", subjects.MemberKey("host-1.example"), "host-1=2Eexample"},
		{"a member that leaves", subjects.LeavingKey("host-1.example"), "leaving.host-1=2Eexample"},
		{"a request for variables", subjects.RequestKey("sub_1f0c22aa", "0b7d-4"), "sub_1f0c22aa.0b7d-4"},
		{"an agent", subjects.AgentKey("Ada's agent"), "Ada=27s=20agent"},
		{"a version of an agent", subjects.AgentVersionKey("a.b", 12), "a=2Eb.12"},
		{"all versions of an agent", subjects.AgentVersions("a.b"), "a=2Eb.*"},
		{"all agents", subjects.AgentsFilter, "*"},
		{"the subject of a key", subjects.KVSubject(n.LeasesBucket(), subjects.LeaseKey(7)), "$KV.troupe_leases.p.7"},
		{"an idempotency key", subjects.IdempotencyKey("parent_1", "SUBAGENT_SPAWN_REQ", "r1"), "c0613c1f6cc120fd83a3c21508dfb008"},
	} {
		if c.got != c.want {
			t.Errorf("%s is spelled %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestSpellingOfStreamsAndBuckets(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"inbox": "troupe_inbox", "timer": "troupe_timer", "mail": "troupe_mail", "journal": "troupe_journal",
		"work": "troupe_work", "dead": "troupe_dead",
		"registry": "KV_troupe_registry", "agents": "KV_troupe_agents", "memory": "KV_troupe_memory", "env": "KV_troupe_env",
		"files": "KV_troupe_files", "requests": "KV_troupe_requests",
		"keys": "KV_troupe_keys", "leases": "KV_troupe_leases", "members": "KV_troupe_members", "blobs": "OBJ_troupe_blobs",
	}
	for what, got := range streamNames(names(t, "")) {
		if got != want[what] {
			t.Errorf("the stream of %s is called %q, want %q", what, got, want[what])
		}
	}
}

func TestTransformSpelling(t *testing.T) {
	t.Parallel()
	n := names(t, "x")
	src, dest := n.InboxTransform(8)
	if src != "x.inbox.*.*.*" || dest != "x.inbox.{{partition(8,1)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}" {
		t.Errorf("InboxTransform(8) = %q, %q: envelopes would be stored where no partition looks", src, dest)
	}
	src, dest = n.FiredTransform()
	if src != "x.fired.*.*" || dest != "x.inbox.{{wildcard(1)}}.ctl.{{wildcard(2)}}" {
		t.Errorf("FiredTransform() = %q, %q: fired timers would not reach their actor", src, dest)
	}
}

func TestIdempotencyKeyKeepsPartsApart(t *testing.T) {
	t.Parallel()
	seen := map[string][3]string{}
	for _, parts := range [][3]string{{"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"}, {"abcd", "", ""}, {"", "abcd", ""}, {"", "", "abcd"}, {"", "", ""}} {
		key := subjects.IdempotencyKey(actor.ID(parts[0]), parts[1], parts[2])
		if other, ok := seen[key]; ok {
			t.Errorf("the requests %q and %q have one idempotency key: the second would get the first one's answer", parts, other)
		}
		seen[key] = parts
	}
}
