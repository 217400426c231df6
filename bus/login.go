package bus

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/troupehq/troupe/actor"
)

// ownUser is the name of the user that this process adds to those of a ConfigFile.
const ownUser = "troupe-in-process"

// A login is how this process connects to its own server, and the account that it is in then.
type login struct {
	options []nats.Option
	account string // "" is the server's default
}

// logIn finds how this process may connect to a server with these options. To users that the
// options list it adds one of its own, without limits and with a random password, in their account.
// The kind is schema_violation when it can't, and the process has to connect as any other does.
func logIn(opts *server.Options) (login, error) {
	switch {
	case len(opts.TrustedOperators) > 0 || len(opts.TrustedKeys) > 0:
		return login{}, noLogin("its users are an operator's")
	case opts.AuthCallout != nil:
		return login{}, noLogin("it leaves authentication to a callout")
	case len(opts.Users) > 0 || len(opts.Nkeys) > 0:
		return addUser(opts)
	case isHash(opts.Password) || isHash(opts.Authorization):
		return login{}, noLogin("it has a single password or token, and only the hash of it; list users instead")
	case opts.Username != "":
		return login{options: []nats.Option{nats.UserInfo(opts.Username, opts.Password)}}, nil
	case opts.Authorization != "":
		return login{options: []nats.Option{nats.Token(opts.Authorization)}}, nil
	}
	return login{}, nil
}

func addUser(opts *server.Options) (login, error) {
	if opts.TLSMap {
		return login{}, noLogin("its users are told by their certificates")
	}
	account, err := ownAccount(opts)
	if err != nil {
		return login{}, err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails
	password := hex.EncodeToString(random[:])
	opts.Users = append(opts.Users, &server.User{Username: ownUser, Password: password, Account: account})
	l := login{options: []nats.Option{nats.UserInfo(ownUser, password)}}
	if account != nil {
		l.account = account.Name
	}
	return l, nil
}

// ownAccount is the one account that is not the system's, or nil for the server's default.
func ownAccount(opts *server.Options) (own *server.Account, err error) {
	for _, account := range opts.Accounts {
		if account.Name == opts.SystemAccount || account.Name == server.DEFAULT_SYSTEM_ACCOUNT {
			continue
		}
		if own != nil {
			return nil, noLogin("it has several accounts")
		}
		own = account
	}
	return own, nil
}

// isHash reports whether the server takes a configured password for the bcrypt hash of one.
func isHash(password string) bool { return strings.HasPrefix(password, "$2") }

func noLogin(why string) error {
	return &actor.Error{Op: "bus.StartServer", Kind: actor.SchemaViolation, Field: "nats-config", Err: errors.New(
		"this process can't connect to a server so configured, for " + why + ": run nats-server with it, and give --nats a URL or --context a context with credentials")}
}
