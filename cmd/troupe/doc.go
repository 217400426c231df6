// Command troupe runs subagents as durable actors on NATS JetStream, and works with those that run.
//
// It wires the packages together, reads flags and the environment, and prints; what it asks for goes
// through package client. Errors are one line on stderr. The exit codes are those of [codeOf].
package main
