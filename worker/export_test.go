package worker

// OnProgress has a job that a test made tell its progress.
func (j *Job) OnProgress(f func(text string)) { j.progress = f }
