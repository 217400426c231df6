package subjects

import (
	"fmt"
	"strconv"

	"github.com/troupehq/troupe/actor"
)

// Work is where a job is queued for workers elsewhere: "<ns>.work.<kind>.<name>.<thread>.<n>". The job is
// part of it, so that one that is queued can't be queued again.
func (n Names) Work(kind, name string, thread actor.ID, job uint64) string {
	return join(n.prefix, "work.", kind, name, string(thread), strconv.FormatUint(job, 10))
}

// ParseWork is the inverse of Work.
func (n Names) ParseWork(subject string) (kind, name string, thread actor.ID, job uint64, err error) {
	const op = "subjects.ParseWork"
	var t [4]string
	if err := parse(n.prefix, "work.", subject, t[:]); err != nil {
		return "", "", "", 0, refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[2]); err != nil {
		return "", "", "", 0, err
	}
	if job, err = parseJob(t[3]); err != nil {
		return "", "", "", 0, refuse(op, "subject", err)
	}
	return t[0], t[1], actor.ID(t[2]), job, nil
}

// WorkService matches all jobs of one service: what its workers' consumer is filtered by.
func (n Names) WorkService(kind, name string) string {
	return join(n.prefix, "work.", kind, name) + ".>"
}

// WorkFilter is what the work stream listens to beside [Names.WorkExhausted].
func (n Names) WorkFilter() string { return n.prefix + "work.*.*.*.*" }

// WorkConsumer is the name of the durable consumer that the workers of a service share.
func WorkConsumer(kind, name string) string {
	return "work_" + EncodeToken(kind) + "_" + EncodeToken(name)
}

// ExhaustedConsumer is the name of the durable consumer that hosts share: it has what [Names.WorkExhausted] tells.
const ExhaustedConsumer = "exhausted"

// WorkExhausted is where the server tells of jobs that were delivered as often as they may be, and that it
// delivers to nobody any more. The work stream keeps what it says.
func (n Names) WorkExhausted() string {
	return "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + n.WorkStream() + ".*"
}

// JobProgress is where a worker tells how a job is going, live: "<ns>.job.<thread>.<n>.progress".
func (n Names) JobProgress(thread actor.ID, job uint64) string { return n.job(thread, job, "progress") }

// JobCancel is where workers are told that a job is over: "<ns>.job.<thread>.<n>.cancel".
func (n Names) JobCancel(thread actor.ID, job uint64) string { return n.job(thread, job, "cancel") }

func (n Names) job(thread actor.ID, job uint64, what string) string {
	return join(n.prefix, "job.", string(thread), strconv.FormatUint(job, 10), what)
}

// ParseJob is the inverse of JobProgress and JobCancel; what is the last token, as it stands.
func (n Names) ParseJob(subject string) (thread actor.ID, job uint64, what string, err error) {
	const op = "subjects.ParseJob"
	var t [3]string
	if err := parse(n.prefix, "job.", subject, t[:]); err != nil {
		return "", 0, "", refuse(op, "subject", err)
	}
	if err := validIDs(op, "subject", t[0]); err != nil {
		return "", 0, "", err
	}
	if job, err = parseJob(t[1]); err != nil {
		return "", 0, "", refuse(op, "subject", err)
	}
	return actor.ID(t[0]), job, t[2], nil
}

// JobsProgress matches what is told of all jobs.
func (n Names) JobsProgress() string { return n.prefix + "job.*.*.progress" }

// JobsCancel matches the cancellations of all jobs.
func (n Names) JobsCancel() string { return n.prefix + "job.*.*.cancel" }

// parseJob reads the number of a job as strconv.FormatUint writes it.
func parseJob(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(v, 10) != s {
		return 0, fmt.Errorf("%q is not the number of a job", s)
	}
	return v, nil
}
