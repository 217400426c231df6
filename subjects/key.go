package subjects

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/actor"
)

const (
	// ConfigKey is the key of what is fixed when a namespace is created.
	ConfigKey = "config"
	// IDsKey is the key of the counter that blocks of ids are reserved from.
	IDsKey = "ids"
	// LeaseFilter matches the leases of all partitions.
	LeaseFilter = "p.*"
)

// RegistryKey is the key of a subagent's entry: "<root>.<parent>.<child>". A root has no parent: its
// parent is "", whose token is "=".
func RegistryKey(root, parent, child actor.ID) string {
	return join("", "", string(root), string(parent), string(child))
}

// ParseRegistryKey is the inverse of RegistryKey. The parent may be empty, the others not.
func ParseRegistryKey(key string) (root, parent, child actor.ID, err error) {
	const op = "subjects.ParseRegistryKey"
	var t [3]string
	if err := parse("", "", key, t[:]); err != nil {
		return "", "", "", refuse(op, "key", err)
	}
	if err := validIDs(op, "key", t[0], t[2]); err != nil {
		return "", "", "", err
	}
	if t[1] != "" {
		if err := validIDs(op, "key", t[1]); err != nil {
			return "", "", "", err
		}
	}
	return actor.ID(t[0]), actor.ID(t[1]), actor.ID(t[2]), nil
}

// RegistryTree matches the keys of a whole tree.
func RegistryTree(root actor.ID) string { return EncodeToken(string(root)) + ".>" }

// RegistryChildren matches the keys of one parent's children.
func RegistryChildren(root, parent actor.ID) string {
	return join("", "", string(root), string(parent)) + ".*"
}

// LeaseKey is the key of a partition's lease: "p.<n>".
func LeaseKey(p int) string { return "p." + strconv.Itoa(p) }

// ParseLeaseKey is the inverse of LeaseKey.
func ParseLeaseKey(key string) (int, error) {
	const op = "subjects.ParseLeaseKey"
	var t [1]string
	if err := parse("p.", "", key, t[:]); err != nil {
		return 0, refuse(op, "key", err)
	}
	p, err := parseNumber(t[0])
	if err != nil {
		return 0, refuse(op, "key", err)
	}
	return p, nil
}

// MemberKey is the key of a live process, by its member id.
func MemberKey(id string) string { return EncodeToken(id) }

// LeavingKey is the key of a process that is no member any more and still ends what it has begun, by the member id that
// it had.
func LeavingKey(id string) string { return "leaving." + EncodeToken(id) }

// ParseMemberKey is the inverse of MemberKey.
func ParseMemberKey(key string) (string, error) {
	id, err := decode(key)
	if err != nil {
		return "", refuse("subjects.ParseMemberKey", "key", err)
	}
	return id, nil
}

// RequestKey is the key of a request for variables: "<parent>.<id>".
func RequestKey(parent actor.ID, id string) string { return join("", "", string(parent), id) }

// RequestsOf matches the keys of all requests of one parent.
func RequestsOf(parent actor.ID) string { return EncodeToken(string(parent)) + ".*" }

// ParseRequestKey is the inverse of RequestKey.
func ParseRequestKey(key string) (parent actor.ID, id string, err error) {
	const op = "subjects.ParseRequestKey"
	var t [2]string
	if err := parse("", "", key, t[:]); err != nil {
		return "", "", refuse(op, "key", err)
	}
	if err := validIDs(op, "key", t[0]); err != nil {
		return "", "", err
	}
	return actor.ID(t[0]), t[1], nil
}

// AgentsFilter matches the keys of all agents, not those of their versions.
const AgentsFilter = "*"

// AgentKey is the key of what is known of an agent, by the agent's name.
func AgentKey(name string) string { return EncodeToken(name) }

// ParseAgentKey is the inverse of AgentKey.
func ParseAgentKey(key string) (name string, err error) {
	if name, err = decode(key); err != nil {
		return "", refuse("subjects.ParseAgentKey", "key", err)
	}
	return name, nil
}

// AgentVersionKey is the key of one version of an agent's definition: "<name>.<version>".
func AgentVersionKey(name string, version uint64) string {
	return EncodeToken(name) + "." + strconv.FormatUint(version, 10)
}

// ParseAgentVersionKey is the inverse of AgentVersionKey.
func ParseAgentVersionKey(key string) (name string, version uint64, err error) {
	const op = "subjects.ParseAgentVersionKey"
	token, number, _ := strings.Cut(key, ".")
	if name, err = decode(token); err != nil {
		return "", 0, refuse(op, "key", err)
	}
	version, err = strconv.ParseUint(number, 10, 64)
	if err != nil || strconv.FormatUint(version, 10) != number {
		return "", 0, refuse(op, "key", fmt.Errorf("%q is not the number of a version", number))
	}
	return name, version, nil
}

// AgentVersions matches the keys of all versions of an agent.
func AgentVersions(name string) string { return EncodeToken(name) + ".*" }

// IdempotencyKey is the key of the answer to a request: 32 hex digits, the first half of a SHA-256
// over who asked, the type of the message and the id that the caller gave the request. Each part is
// preceded by its length, so that no two requests run into one another. It has no inverse.
func IdempotencyKey(caller actor.ID, typ, reqID string) string {
	buf := make([]byte, 0, 256)
	for _, part := range [...]string{string(caller), typ, reqID} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:16])
}
