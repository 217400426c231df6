// Package fault breaks processes of a running namespace at random moments while agents work with it, and
// then checks from the outside what must hold whatever died when.
//
//   - A process (process_test.go) is "troupe up", or a server alone, which is killed with SIGKILL and
//     started again on the same store, or held with SIGSTOP for longer than its lease lasts.
//   - A disk (disk_test.go) is one that is filled under a process, or a limit of its server on what it stores.
//   - Agents work meanwhile, and an inspection reads what there is once nothing moves any more: both are of
//     package history, which does the same to hosts and servers within one process, in many short histories.
//
// TROUPE_FAULT is how long the killing goes on, 10s for each scene if it is not set and 5s with -short. A failure prints
// its seed; TROUPE_SEED repeats its choices, though not the moments at which the machine carries them out.
package fault
