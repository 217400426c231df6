package actor

import (
	"errors"
	"strings"
)

// A Kind is the class of a failure. Its text is its wire code, so a Kind, once released, is never
// respelled.
type Kind string

const (
	ParseError       Kind = "parse_error"       // not JSON, or not an object
	SchemaViolation  Kind = "schema_violation"  // a field is missing, of the wrong type or out of range
	InvalidMessage   Kind = "invalid_message"   // the type is not one of the protocol's requests
	Unauthorized     Kind = "unauthorized"      // the caller may not do that
	NotFound         Kind = "not_found"         // no such thing, or not in the caller's tree
	QuotaExceeded    Kind = "quota_exceeded"    // the tree has as many live subagents as it may, or a budget is used up
	DepthExceeded    Kind = "depth_exceeded"    // the child would stand deeper than the limit
	Conflict         Kind = "conflict"          // the present state forbids it
	AwaitCycle       Kind = "await_cycle"       // it would wait for itself or for an ancestor
	ThreadTerminated Kind = "thread_terminated" // the thread was terminated
	Gone             Kind = "gone"              // it was there, and is used up or expired
	Timeout          Kind = "timeout"           // the time allowed is over
	RuntimeError     Kind = "runtime_error"     // the runtime, a model or a tool failed
	TooLarge         Kind = "too_large"         // larger than the server's or the runtime's limit
	Unavailable      Kind = "unavailable"       // no host or no server answered
	InboxFull        Kind = "inbox_full"        // as many messages as may be are queued for the thread, or its inbox has no room
	NewerVersion     Kind = "newer_version"     // a newer program wrote it; this one would lose a part of it

	AtCapacity  Kind = "max_instances"         // the relationship has as many instances as it may
	EnvRequired Kind = "subagent_env_required" // scoped variables that the agent requires are missing
	NoParent    Kind = "no_parent"             // a root thread has nobody to tell
)

// The Kinds of what is wrong with the definition of an agent, or with what it was created with.
const (
	SubagentReservedName          Kind = "subagent_reserved_name"          // it is the name of a tool that the runtime injects
	SubagentNameConflict          Kind = "subagent_name_conflict"          // another tool of the side has the name, or nearly
	SubagentDuplicateRelationship Kind = "subagent_duplicate_relationship" // two relationships of an agent have one name
	SubagentHumanSide             Kind = "subagent_human_side"             // a person's side owns relationships
	SubagentInPromptTools         Kind = "subagent_in_prompt_tools"        // a prompt lists a subagent among its tools
	SubagentUnknownAgent          Kind = "subagent_unknown_agent"          // there is no agent of that name
	SubagentImmediateCycle        Kind = "subagent_immediate_cycle"        // it would be spawned below itself, without end

	SubagentArgumentsRequired Kind = "subagent_arguments_required" // arguments that the child needs are missing
	SubagentArgumentsInvalid  Kind = "subagent_arguments_invalid"  // arguments are not what the child's schema says
)

// Error makes a Kind a target for errors.Is.
func (k Kind) Error() string { return string(k) }

// Retryable reports whether the same request may succeed later without a change.
func (k Kind) Retryable() bool {
	switch k {
	case QuotaExceeded, Conflict, Timeout, Unavailable, InboxFull, RuntimeError:
		return true
	}
	return false
}

// An Error says what was being done, to which actor, and why it failed.
type Error struct {
	Op    string // "host.Spawn"
	ID    ID     // the actor, if one is concerned
	Kind  Kind
	Field string // the offending field, as a path: "agent.max_steps"
	Err   error  // the cause, or nil
}

// Error is one line: what was being done, to whom, the kind, the field and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	for _, part := range []string{e.Op, string(e.ID)} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(string(e.Kind))
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, NotFound) work on a wrapped Error.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// KindOf gives the Kind of err: that of the outermost [Error] or Kind in its chain, else
// RuntimeError. The Kind of nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return RuntimeError
}
