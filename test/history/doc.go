// Package history is what agents asked a running namespace, what they were answered, and what has to hold of
// it whatever died when. It is importable from tests only.
//
//   - A [Plan] (plan.go, script.go) is what agents do, step by step, all of it from one seed: spawn, delegate,
//     await, send, list, merge, cancel and terminate, with agents that create children of their own.
//   - A [Crew] (crew.go) carries a plan out. A request is made again under the same id until it is answered, and
//     all that was answered stands in a [Book].
//   - [Read] takes every journal, the registry, the mail and the book once nothing moves any more, and [Inspect]
//     (check_*.go) names what is lost, doubled, out of order or stuck. It is a function of its [Records]: the
//     tests show of each rule that it sees what breaks it.
//
// The tests of this package are short histories in one process (history_test.go, world_test.go, faults_test.go):
// hosts die, are cut off and come back, servers restart, leaders change, while a plan is carried out.
// TROUPE_SEEDS is how many are played on one server, and TROUPE_CLUSTER_SEEDS how many on three; TROUPE_SEED plays
// one of them again with the same steps and faults, though not at the same moments. package fault does it to real
// processes.
package history
