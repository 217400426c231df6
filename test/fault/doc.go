// Package fault kills processes of a running namespace at random moments while agents work with it, and
// then checks from the outside what must hold whatever died when.
//
//   - A process (process_test.go) is "troupe up", or a server alone, which is killed with SIGKILL and
//     started again on the same store, or held with SIGSTOP for longer than its lease lasts.
//   - Agents (agent_test.go, script_test.go) spawn, delegate, await, send, list, merge, cancel and
//     terminate at random. A request is made again under the same id until it is answered, and all
//     that was answered stands in a book (book_test.go).
//   - An inspection (inspect_test.go and the check_*_test.go) reads every journal, the registry, the
//     mail and the book once nothing moves any more, and names what is lost, doubled or stuck.
//
// TROUPE_FAULT is how long the killing goes on, 30s if it is not set and 5s with -short. A failure prints
// its seed; TROUPE_SEED repeats its choices, though not the moments at which the machine carries them out.
package fault
