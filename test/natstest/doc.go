// Package natstest gives tests real NATS servers inside the test process: a single one, which starts
// in a few milliseconds, or a cluster of three, whose nodes can be killed and started again. It is
// importable from tests only. Everything is stopped and removed when the test ends.
package natstest
