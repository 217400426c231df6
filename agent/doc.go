// Package agent is the thread as a pure state machine: births, sessions, steps, tool calls, messages,
// waiters, cancel and terminate. It does no I/O and knows nothing of NATS; a reader follows what a
// thread does from this package alone.
//
// # States
//
// A thread is idle, or has a session open. A session is opened by a delegated task or by a message,
// takes steps (one job "model" each), and ends with a [StopReason]. A thread whose session waits for
// another thread is parked: that is a state in its journal, not a goroutine. Ending a session never
// ends the thread; only terminate does.
//
// A2E's status is computed from the state ([Entry.A2E]) and never stored.
//
// # Envelopes
//
// The kinds of envelope that a thread takes, and what they carry, are in kinds.go. An envelope that
// is late (the answer to a job that was aborted, a timer of an earlier session) changes nothing.
package agent
