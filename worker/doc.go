// Package worker carries out jobs of threads on any host, for programs written in Go: model steps and tool calls that a
// troupe elsewhere has queued. It speaks the protocol of docs/worker-protocol.md, which other languages speak as well.
//
// # Use
//
//	w, err := worker.New(worker.Config{Conn: conn, Names: names, Serve: map[string]worker.Func{
//		"tool/render": func(ctx context.Context, j *worker.Job) (*worker.Answer, error) { … },
//		"model/local": worker.Model(m),
//	}})
//	err = w.Serve(ctx)
//
// A [Program] is a Func that has another program do the work, over lines of JSON.
//
// # Contract of a Func
//
// It is called at least once for each job, by one worker at a time as long as that worker extends the job, which
// happens by itself while the Func runs. [Job.ID] is the same each time. Its context ends when nobody waits for the
// job any more, when the job's deadline is past, and when the worker has to go; it then returns soon. What it returns
// is the job's answer. An error of the Kind unavailable, and a panic, give the job back to the queue, to be tried
// again later by any worker; when it was the last try, they are the answer. Any other error is the answer at once: a
// tool's is read by the model, a model's ends the session.
//
// # Failure
//
// A job is taken out of the queue only once its answer is stored. A worker that dies, or is cut off, stops extending
// its jobs; they go to other workers within AckWait. A Func that does not return when the worker has to go is left behind after a
// moment, and its job given back. An answer that was stored twice, or comes late, changes nothing.
package worker
