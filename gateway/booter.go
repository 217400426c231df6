package gateway

import (
	"context"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/host"
)

// A Booter boots children whose creation waits for variables, as a [*host.Host] does.
type Booter interface {
	// Variables tells what a request of a thread waits for. The Kind is not_found for one that is unknown or
	// another thread's, and gone when it was used or has expired.
	Variables(ctx context.Context, parent actor.ID, request string) (host.Variables, error)

	// Boot gives the child the values and boots it as it was asked for. Of all that boot one request at most one
	// child comes. When it fails the request stays open. The Kinds are those of
	// Variables, subagent_env_required with a [*host.MissingVariables] when a value is still missing, max_instances,
	// thread_terminated, unavailable, and those of any other refusal of a creation.
	Boot(ctx context.Context, parent actor.ID, request string, values map[string]string) (host.Booted, error)
}
