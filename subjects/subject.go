package subjects

import (
	"fmt"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// hostToken ends the journal of a host actor. The journal of a thread has one token less, so no id
// can be mistaken for it.
const hostToken = "host"

// Journal is where an actor's records stand: "<ns>.journal.<id>", and "<ns>.journal.<root>.host"
// for the host of a tree.
func (n Names) Journal(a actor.Address) string {
	if a.Host {
		return join(n.prefix, "journal.", string(a.ID), hostToken)
	}
	return join(n.prefix, "journal.", string(a.ID))
}

// ParseJournal is the inverse of Journal.
func (n Names) ParseJournal(subject string) (actor.Address, error) {
	const op = "subjects.ParseJournal"
	var t [2]string
	host := strings.Count(subject, ".") == strings.Count("<ns>.journal.<root>.host", ".")
	dst := t[:1]
	if host {
		dst = t[:]
	}
	if err := parse(n.prefix, "journal.", subject, dst); err != nil {
		return actor.Address{}, refuse(op, "subject", err)
	}
	if host && t[1] != hostToken {
		return actor.Address{}, refuse(op, "subject", fmt.Errorf("%q does not end with %q", subject, "."+hostToken))
	}
	if err := validIDs(op, "subject", t[0]); err != nil {
		return actor.Address{}, err
	}
	return actor.Address{ID: actor.ID(t[0]), Host: host}, nil
}

// JournalFilters are what the journal stream listens to: threads, and hosts.
func (n Names) JournalFilters() []string {
	return []string{n.prefix + "journal.*", n.prefix + "journal.*." + hostToken}
}

// Event is where an event is told live: "<ns>.event.<root>.<id>.<name>". No stream keeps it.
func (n Names) Event(root, id actor.ID, name string) string {
	return join(n.prefix, "event.", string(root), string(id), name)
}

// ParseEvent is the inverse of Event.
func (n Names) ParseEvent(subject string) (root, id actor.ID, name string, err error) {
	const op = "subjects.ParseEvent"
	var t [3]string
	if err := parse(n.prefix, "event.", subject, t[:]); err != nil {
		return "", "", "", refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[0], t[1]); err != nil {
		return "", "", "", err
	}
	return actor.ID(t[0]), actor.ID(t[1]), t[2], nil
}

// EventTree matches every event of one tree.
func (n Names) EventTree(root actor.ID) string { return join(n.prefix, "event.", string(root)) + ".>" }

// Mail is where a completion for an owner outside is left: "<ns>.mail.<agent>.<from>.<session>",
// from being the thread whose session has ended. One subject a session: a second delivery of the
// same completion conflicts with the first.
func (n Names) Mail(agent, from actor.ID, session string) string {
	return join(n.prefix, "mail.", string(agent), string(from), session)
}

// ParseMail is the inverse of Mail.
func (n Names) ParseMail(subject string) (agent, from actor.ID, session string, err error) {
	const op = "subjects.ParseMail"
	var t [3]string
	if err := parse(n.prefix, "mail.", subject, t[:]); err != nil {
		return "", "", "", refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[0], t[1]); err != nil {
		return "", "", "", err
	}
	return actor.ID(t[0]), actor.ID(t[1]), t[2], nil
}

// MailAgent matches all mail of one agent.
func (n Names) MailAgent(agent actor.ID) string { return join(n.prefix, "mail.", string(agent)) + ".>" }

// MailFrom matches the mail that one thread has left, whoever it is for.
func (n Names) MailFrom(from actor.ID) string { return join(n.prefix, "mail.*.", string(from)) + ".*" }

// MailFilter is what the mail stream listens to.
func (n Names) MailFilter() string { return n.prefix + "mail.*.*.*" }

// Dead is where an envelope goes that its actor could not take: "<ns>.dead.<id>".
func (n Names) Dead(id actor.ID) string { return join(n.prefix, "dead.", string(id)) }

// ParseDead is the inverse of Dead. Unlike the other parsers it gives an id that is not a [ValidID],
// too: such an id may be the very reason why the letter is dead.
func (n Names) ParseDead(subject string) (actor.ID, error) {
	var t [1]string
	if err := parse(n.prefix, "dead.", subject, t[:]); err != nil {
		return "", refuse("subjects.ParseDead", "subject", err)
	}
	return actor.ID(t[0]), nil
}

// DeadFilter is what the stream of dead letters listens to.
func (n Names) DeadFilter() string { return n.prefix + "dead.*" }

// A2E is where an agent sends its SUBAGENT_* requests: "<ns>.a2e.<agent>". The agent is who asks,
// so that a permission to publish there is the authentication.
func (n Names) A2E(agent actor.ID) string { return join(n.prefix, "a2e.", string(agent)) }

// ParseA2E is the inverse of A2E.
func (n Names) ParseA2E(subject string) (actor.ID, error) {
	const op = "subjects.ParseA2E"
	var t [1]string
	if err := parse(n.prefix, "a2e.", subject, t[:]); err != nil {
		return "", refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[0]); err != nil {
		return "", err
	}
	return actor.ID(t[0]), nil
}

// A2EAll matches the requests of every agent.
func (n Names) A2EAll() string { return n.prefix + "a2e.*" }
