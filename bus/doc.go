// Package bus is JetStream in motion: the embedded server, the connection, the streams and buckets
// of a namespace, and what flows through them: envelopes, timers, requests, mail and dead letters.
// What rests in the streams is read and written by package store.
//
// # Use
//
//	srv, err := bus.StartServer(bus.ServerConfig{Store: dir})       // or none: somebody else's server
//	conn, err := bus.Connect(ctx, bus.Config{Server: srv})
//	layout, err := conn.Ensure(ctx, bus.Layout{Names: names})       // streams, buckets, partitions
//	ack := conn.Send(names.Inbox(to, actor.LaneA, from), body)      // durable once ack.Wait is nil
//	r, err := bus.NewReader(bus.ReaderConfig{Conn: conn, Names: names, Partition: 3, From: w + 1, …})
//	err = r.Serve(ctx)                                              // in stream order, until ctx ends
//	ack = conn.Jobs(names).Queue(names.Work(…), job)                // for workers, who have a Taker
//
// # Concurrency
//
// A [Conn] is used from any number of goroutines. A [Reader] calls its functions one at a time, on
// the goroutine that runs Serve; [Reader.CaughtUp] may be called from another. Whatever runs long has
// Serve in its name, runs on its caller's goroutine and returns when its context ends.
//
// # Failure
//
// Every error is an [actor.Error]. The kinds here are conflict (an expectation failed, or somebody
// else holds it), too_large, timeout (the caller's context ended first), unavailable (no server, no
// leader, no answer: try again), not_found, schema_violation (the call is wrong) and runtime_error.
//
//   - A publish while the connection is down fails at once with unavailable. Nothing is kept back to
//     be sent later: what is buffered by a client library is sent after what the program has done
//     meanwhile.
//   - A publish whose acknowledgement does not come within 5 seconds, or whose connection breaks
//     first, is unavailable too, and may have been stored all the same. Sending it again may store
//     it twice; receivers know an envelope by its id.
//   - A publish that finds no leader is not tried again behind the caller's back. Of two that were
//     sent one after the other, without waiting, the second alone may be stored. Who needs the order
//     waits for the first, or sends both again.
//   - A reader loses its consumer with the node that ran it, with the connection, or by a gap in the
//     numbering. It makes a new one from behind the last message that it delivered, so that its
//     caller sees every message once and in order. A node that is killed on a cluster of three costs
//     what the election costs: mostly less than 5 seconds, up to 10.
//   - A server with Sync 100ms that loses its power loses at most the last 100 ms. The stream's last
//     sequence then lies below a watermark that was written before: [Reader.CaughtUp] says so.
//   - A server whose disk is full stores nothing and answers no publish, which is unavailable after the 5 seconds. What
//     it has acknowledged it keeps. [Server.Serve] opens its store again once there is room; without it the server
//     has to be started again, since its streams do not go on by themselves.
package bus
