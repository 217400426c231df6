// Package bench measures Troupe against the ceiling that JetStream itself sets, in one run: machines
// differ and are shared, ratios hold. The ceiling is written against plain nats.go and knows nothing
// of Troupe: a message to an inbox, delivered by a partition consumer, a journal append with the
// expected last sequence, a message to the parent's inbox, delivered.
//
// What is asked for by name is measured by itself, in processes of their own that the bench starts and kills: a store
// full of idle threads (threads.go), more hosts at one server (hosts.go), hosts that are killed under load (failover.go);
// and, in this process, the neighbours of a thread with very many messages queued (crowd.go).
//
// Everything runs over the loopback interface on temporary stores, sends no traffic anywhere else, and ends by itself.
package bench
