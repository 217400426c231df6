// Package store is JetStream at rest: what actors have recorded, and what the runtime keeps beside
// it. It uses the streams and buckets of a namespace and creates none of them.
//
//	[Journal]   the records of an actor: its history, its state and its fence
//	[Registry]  one entry for each subagent, under root, parent and child
//	[Blobs]     large values, by the digest of their content
//	[Files]     the file system of each thread
//	[Memory]    memory spaces, and snapshots of them
//	[Env]       scoped values, sealed by a [Seal]
//	[Requests]  what waits for variables from outside
//	[Agents]    the definitions of agents, every version
//	[Keys]      the answers to requests that may be asked twice
//	[Leases]    who owns which partition
//	[Members]   the processes that are alive
//	[IDs]       new ids for subagents, no two alike
//
// # Reads
//
// What decides something is read from the leader of its stream, by sequence or by last message of a
// subject, and the sequence is the one in the server's own answer: a header that a publisher has set
// is never believed. A read sees every write that was acknowledged before it began.
//
// Ranges, and lists of many keys, also go through a consumer without acknowledgements, which is
// quick but may sit on a replica that lags: that there is no more to read is always the leader's
// word. Such a consumer is removed with the call, and forgotten by the server after ten seconds
// should that fail.
//
// # Writes
//
// A write is one message, published without waiting and without any retry by the client library,
// which would let a later write overtake it. Where it says so it names the sequence that the
// subject's last message must have; a write that names another is refused with the Kind Conflict
// and leaves no trace.
//
// Files, memory spaces and scoped values are one entry each, a map, as JSON that a person can read.
// Who changes one reads it from the leader and replaces it by compare-and-set, again and again while
// others come first, at most 64 times; then the Kind is Conflict. So a reader sees all of a change or
// nothing of it. An entry has at most 512 KiB; what is large stands in [Blobs], and is stored before
// the entry that names it. [Store.Mark] and [Store.Sweep] remove the blobs that nothing names any more.
//
// # Deadlines
//
// A call whose context has no deadline gets one: 5 s, or 30 s for lists, ranges and blobs, and for
// changes of an entry that many may be changing.
//
// # Failure
//
// Every error is an [*actor.Error].
//
//   - NotFound: the leader said that there is no such thing, twice, so that a server which is just
//     closing its files is not taken at its word. Silence is never NotFound; neither is a stream
//     that does not exist.
//   - Conflict: the expected sequence was not the last one. On a replicated stream it may also mean
//     that another write to the subject is still under way. Either way: read again.
//   - Unavailable: nobody answered. A read has then been tried again until its deadline, across a
//     change of leader, and may be repeated. A write was sent at most once and may have happened or
//     happen still: its expected sequence makes it safe to read and decide again.
//   - Timeout: the caller's context ended before a write was acknowledged, or was cancelled.
//   - TooLarge: above the limit of the server, of [Blobs], of [Agents], or of an entry.
//   - Gone: a request that was used or has expired.
//   - Unauthorized: a scoped value is sealed under a key that this process does not have.
//
// An acknowledgement from a single server survives the death of the process; what a power cut
// takes is a matter of the server's sync interval. A leader that is cut off from its cluster and
// does not know yet may answer a read with old data for some seconds: what follows from such a read
// is refused when it is written, because the expected sequence is an old one, too.
package store
