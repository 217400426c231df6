package bus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:-1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const hash = `"$2a$04$eu2hAmhJ/7ctu2QmVQSIe.DHpCLTGNlHvQDT8Nz4Xb0xRT/cE2p2m"`

// This process connects to its own server whatever credentials that asks of others.
func TestServerLetsItsOwnProcessIn(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":              ``,
		"one user":             `authorization { user: u, password: p }`,
		"a token":              `authorization { token: s3cret }`,
		"users":                `authorization { users: [{user: u, password: p}, {user: v, password: ` + hash + `, permissions: {publish: x}}] }`,
		"limits for all users": `authorization { default_permissions: {publish: x, subscribe: x}, users: [{user: u, password: p}] }`,
		"an account":           `accounts { A: {jetstream: enabled, users: [{user: u, password: p}]} }`,
		"an account, a system": `accounts { A: {jetstream: enabled, users: [{user: u, password: p}]}, S: {users: [{user: s, password: p}]} }, system_account: S`,
		"an nkey":              `authorization { users: [{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}] }`,
	} {
		srv := startServer(t, bus.ServerConfig{Store: t.TempDir(), ConfigFile: configFile(t, text)})
		conn, err := bus.Connect(natstest.Context(t), bus.Config{Server: srv})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := furnish(t, nil, conn, bus.Layout{Names: natstest.Names(t), Partitions: 1})
		r.send(t, "sub_1", "x")
		conn.Close()
		if name == "nothing" {
			continue
		}
		if stranger, err := bus.Connect(natstest.Context(t), bus.Config{URL: srv.URL()}); err == nil {
			stranger.Close()
			t.Errorf("%s: who has no credentials is let in", name)
		}
	}
}

func TestServerWithoutAWayIn(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a hash":             `authorization { user: u, password: ` + hash + ` }`,
		"several accounts":   `accounts { A: {jetstream: enabled, users: [{user: u, password: p}]}, B: {users: [{user: v, password: p}]} }`,
		"without JetStream":  `accounts { A: {users: [{user: u, password: p}]} }`,
		"users of a callout": `authorization { users: [{user: u, password: p}], auth_callout: {issuer: ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA, auth_users: [u]} }`,
	} {
		srv, err := bus.StartServer(bus.ServerConfig{Store: t.TempDir(), ConfigFile: configFile(t, text)})
		wantKind(t, name, err, actor.SchemaViolation)
		if srv != nil {
			t.Errorf("%s: a server beside an error", name)
		}
	}
}
