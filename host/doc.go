// Package host runs actors: it owns partitions of the inbox, takes threads and the hosts of trees
// through their turns, carries out their jobs, and answers A2E requests at the door.
//
//   - [Tree] is the host actor of a tree as a pure state machine: spawns, limits, cascades, merges.
//   - A [Host] is one process of the fleet. It keeps its membership, owns partitions by lease, and
//     serves the door.
//   - A partition reads its share of the inbox and hands every envelope to the cell of its actor.
//   - A cell is an actor in memory: its machine, its mailbox, its ledger. Its turn is the one place
//     where decide, record, send and settle follow each other.
//
// # Concurrency
//
// A cell has a goroutine only while it has something to do. Turns of different cells run at the same
// time; turns of one cell follow each other. The next turn begins when everything that the last one
// recorded has been sent and acknowledged, so that only the last record of an actor can ever have to be
// sent again. The exception are turns whose jobs are over in no time: a few of them are recorded one
// after another and sent together, and the last names those before it.
//
// # Failure
//
// A process that dies loses nothing but time. Whoever takes a partition over bumps the lease's epoch,
// reloads the actors that the lease lists as busy, sends again what their last records hold, starts
// their jobs again, and reads the inbox from the watermark. An actor whose cursor is past the
// watermark is sent again too: its turn may have been recorded and not sent. Receivers know the
// envelopes that they took by id, and mail, births, registry entries and stored answers are written
// with an expected revision, so that what is sent again is not there twice.
//
// A process that leaves gives its partitions back at once, and lends the jobs that it has begun to their next owners: it goes on with
// them for the time of Drain and sends their answers into the inboxes. A job that is lent is begun again only when its process
// does not say any more that it lives, or the time is over.
//
// The lease makes two owners of a partition rare. What makes them safe is the journal: a record is
// appended with the expected last sequence, so that of two owners one is refused, reloads, and finds
// out from the lease whether it still owns the partition.
//
// A message whose decision kills the process would kill the next owner, too. A partition that dead owners have left
// three times without having settled anything is decided one message at a time, each named in the lease before; one that
// ten owners in a row have died over is a dead letter, and what it met fails.
//
// A job for workers elsewhere is this process's until their queue has it and a durable timer looks after it. From then on it
// needs no process of ours: workers that die lose it to others, and its answer finds the actor wherever it is.
//
// A server that is away makes turns wait; nothing is decided twice for it. Model calls, tools and
// merge functions run at least once, and never again once their answer is recorded.
package host
