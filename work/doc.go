// Package work is the protocol of jobs that workers elsewhere carry out: what a job says, what its answer says,
// and what an answer has to be. It does no I/O. docs/worker-protocol.md tells the same to those who write workers in
// other languages; docs/work.schema.json is its JSON Schema.
//
// A [Service] is what workers serve: tool/render, model/local. A [Job] is for one service. Its id is the thread's id, a dot
// and a number, and stays the same when it is delivered or queued again, so that a worker that must do nothing
// twice can go by it. An [Answer] names that id. The first that is valid counts; later ones change nothing.
package work
