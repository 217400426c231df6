// Package bench measures Troupe against the ceiling that JetStream itself sets, in one run: machines
// differ and are shared, ratios hold. The ceiling is written against plain nats.go and knows nothing
// of Troupe: a message to an inbox, delivered by a partition consumer, a journal append with the
// expected last sequence, a message to the parent's inbox, delivered.
//
// Everything runs in this process over embedded servers on temporary stores, sends no traffic anywhere
// else, and ends by itself.
package bench
