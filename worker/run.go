package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/work"
)

const (
	answerPause    = 100 * time.Millisecond // before an answer that was not stored is tried again, then doubled
	answerPauseMax = 5 * time.Second
	lastWords      = 2 * time.Second // for an answer, when the worker has to go
	maxFilled      = 8 << 20         // bytes of large values that one request gets in full, the newest first
	maxWords       = 16 << 10        // bytes of an error that are told
	maxReference   = 1 << 10
)

// run carries out one job, from its delivery to its end in the queue.
func (w *Worker) run(jobs context.Context, s service, taken *bus.Taken) {
	log := w.Log.With().Str("service", s.String()).Int("attempt", taken.Attempt).Logger()
	told, err := work.DecodeJob(taken.Data)
	if err == nil && (told.Service() != s.Service || told.Reply != w.Names.Inbox(told.Thread, actor.LaneJob, actor.ID(s.String()))) {
		err = errors.New("it is for another service, or is to be answered elsewhere")
	}
	if err != nil {
		log.Error().Err(err).Str("subject", taken.Subject).Msg("a message is not a job, and is dropped")
		w.settled(&log, taken.Drop())
		return
	}
	log = log.With().Str("job", told.ID).Logger()
	j := w.job(told, taken)
	ctx, over := w.begin(jobs, j)
	if over == nil {
		w.settled(&log, taken.Drop())
		return
	}
	defer over()
	stop := w.extend(taken)
	defer stop()
	answer, err := w.attend(ctx, jobs, &log, s.do, j, told)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		w.settled(&log, taken.Drop())
	case errors.Is(cause, errAbandoned) && err != nil:
		log.Info().Msg("a job is given back")
		w.settled(&log, taken.Retry(0))
	case actor.KindOf(err) == actor.Unavailable && !taken.Last:
		wait := min(w.Backoff<<min(taken.Attempt-1, 16), maxBackoff)
		log.Warn().Err(err).Dur("wait", wait).Msg("a job failed and will be tried again")
		w.settled(&log, taken.Retry(wait))
	default:
		ctx, cancel := lasting(jobs)
		defer cancel()
		w.finish(ctx, &log, taken, told, answer, err)
	}
}

// lasting gives an answer the time that the worker has, and a little if it has none left.
func lasting(jobs context.Context) (context.Context, context.CancelFunc) {
	if jobs.Err() == nil {
		return context.WithCancel(jobs)
	}
	return context.WithTimeout(context.WithoutCancel(jobs), lastWords)
}

// settled tells of a word to the queue that did not get through. The lease then ends by itself.
func (w *Worker) settled(log *zerolog.Logger, err error) {
	if err != nil {
		log.Warn().Err(err).Msg("the queue was not told of a job")
	}
}

func (w *Worker) job(told *work.Job, taken *bus.Taken) *Job {
	j := &Job{
		ID: told.ID, Service: told.Service(), Thread: told.Thread, Session: told.Session, Step: told.Step, Call: told.Call,
		Arguments: told.Arguments, Attempt: taken.Attempt, Last: taken.Last,
	}
	if told.Deadline != nil {
		j.Deadline = *told.Deadline
	}
	_, n, _ := work.ParseID(told.ID) // it was decoded
	subject := w.Names.JobProgress(told.Thread, n)
	j.progress = func(text string) {
		if data, err := json.Marshal(work.Progress{Progress: text}); err == nil {
			_ = w.Conn.Publish(subject, data) // nobody is promised to hear of it
		}
	}
	return j
}

// extend keeps the job this worker's until stop.
func (w *Worker) extend(taken *bus.Taken) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(taken.AckWait/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				if err := taken.Extend(); err != nil {
					w.Log.Debug().Err(err).Str("subject", taken.Subject).Msg("a job was not extended")
				}
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// attend waits for do. A Func that does not end with ctx keeps its place, and when the worker has to go is left behind.
func (w *Worker) attend(ctx, jobs context.Context, log *zerolog.Logger, do Func, j *Job, told *work.Job) (answer *Answer, err error) {
	done := make(chan struct{})
	var given *Answer
	var failure error
	go func() {
		defer close(done)
		given, failure = w.do(ctx, do, j, told)
	}()
	select {
	case <-done:
		return given, failure
	case <-ctx.Done():
	}
	if within(done, lastWords) {
		return given, failure
	}
	log.Warn().Msg("a job goes on though it was ended, and keeps its place")
	select {
	case <-done:
	case <-jobs.Done():
		if !within(done, lastWords) {
			log.Error().Msg("a job does not end: it is left behind")
			return nil, errAbandoned
		}
	}
	log.Info().Msg("a job that was ended long ago has returned, and leaves its place")
	return given, failure
}

// within reports whether done is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// do calls the Func. A panic in it is an error that another try may mend.
func (w *Worker) do(ctx context.Context, do Func, j *Job, told *work.Job) (a *Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.Log.Error().Str("job", j.ID).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a job panicked")
			a, err = nil, &actor.Error{Op: "worker.do", Kind: actor.Unavailable, Err: fmt.Errorf("panic: %v", r)}
		}
	}()
	if j.Service.Kind == work.Model {
		if j.Request, err = w.request(ctx, told.Request); err != nil {
			return nil, err
		}
	}
	return do(ctx, j)
}

// request reads a model's request, wherever it is, with large contents of its history in full.
func (w *Worker) request(ctx context.Context, data json.RawMessage) (*work.Request, error) {
	var r work.Request
	if ref := referenceOf(data); ref != nil {
		var err error
		if data, err = w.blobs.Get(ctx, *ref); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	room := int64(maxFilled)
	for i := len(r.History) - 1; i >= 0; i-- {
		e := &r.History[i]
		ref := referenceOf(e.Content)
		if ref == nil {
			continue
		}
		if room -= int64(ref.Size); room < 0 {
			continue
		}
		content, err := w.blobs.Get(ctx, *ref)
		switch actor.KindOf(err) {
		case "":
			e.Content = content
			if e.Kind == string(model.EntryCompletion) {
				e.Content = agent.WithText(content, e.IsError)
			}
		case actor.NotFound, actor.SchemaViolation: // somebody's words that look like a reference
		default:
			return nil, err
		}
	}
	return &r, nil
}

// referenceOf is the blob that a value is no more than the reference of, or nil.
func referenceOf(v json.RawMessage) *store.Ref {
	var at map[string]json.RawMessage
	var ref store.Ref
	if len(v) > maxReference || json.Unmarshal(v, &at) != nil || len(at) != 1 || json.Unmarshal(at["$blob"], &ref) != nil {
		return nil
	}
	return &ref
}

// finish answers, and takes the job out of the queue once the answer is stored.
func (w *Worker) finish(ctx context.Context, log *zerolog.Logger, taken *bus.Taken, told *work.Job, a *Answer, failure error) {
	data, err := w.encode(ctx, told, a, failure)
	for pause := answerPause; err == nil; pause = min(2*pause, answerPauseMax) {
		_, err = w.Conn.Send(told.Reply, data).Wait(ctx)
		switch actor.KindOf(err) {
		case "":
			w.settled(log, taken.Done(context.WithoutCancel(ctx)))
			return
		case actor.TooLarge:
			data, err = encodeError(told.ID, a, err)
		case actor.Unavailable: // it is still extended, if the server can be reached at all
			if w.Conn.Closed() {
				break
			}
			log.Warn().Err(err).Msg("an answer was not stored and will be tried again")
			select {
			case <-time.After(pause):
				err = nil
			case <-ctx.Done():
			}
		}
	}
	log.Error().Err(err).Msg("a job's answer was not stored: another worker will have the job")
	w.settled(log, taken.Retry(w.Backoff))
}

// encode makes the message of an answer. Results that are large go into blobs.
func (w *Worker) encode(ctx context.Context, told *work.Job, a *Answer, failure error) ([]byte, error) {
	if failure != nil {
		return encodeError(told.ID, a, failure)
	}
	if a == nil {
		a = &Answer{}
	}
	if result := a.result(); result != nil && !json.Valid(result) {
		return encodeError(told.ID, a, &actor.Error{Op: "worker.Answer", Kind: actor.SchemaViolation, Field: "result", Err: errors.New("the result is not JSON")})
	}
	out := work.Answer{V: work.Version, ID: told.ID, Result: a.Result, Response: a.Response}
	var err error
	switch {
	case out.Response != nil:
		r := *out.Response
		r.Result, err = w.small(ctx, r.Result)
		out.Response, out.Result = &r, nil
	case out.Result == nil:
		out.Result = json.RawMessage("null")
	default:
		out.Result, err = w.small(ctx, out.Result)
	}
	if err != nil {
		return encodeError(told.ID, a, err)
	}
	data, err := json.Marshal(&out)
	if err != nil { // the arguments of a call are not JSON
		return encodeError(told.ID, a, &actor.Error{Op: "worker.Answer", Kind: actor.SchemaViolation, Field: "response", Err: err})
	}
	return data, nil
}

// result is what there is of a result, a tool's or a model's.
func (a *Answer) result() json.RawMessage {
	if a.Response != nil {
		return a.Response.Result
	}
	return a.Result
}

func (w *Worker) small(ctx context.Context, v json.RawMessage) (json.RawMessage, error) {
	if len(v) <= actor.MaxInline {
		return v, nil
	}
	ref, err := w.blobs.Put(ctx, v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]store.Ref{"$blob": ref})
}

// encodeError makes the message of a failure. Of the answer beside it only what a model's step cost is told.
func encodeError(id string, a *Answer, failure error) ([]byte, error) {
	said := failure
	for {
		e, ok := said.(*actor.Error) // its own words, not ours around them
		if !ok || e.Err == nil {
			break
		}
		said = e.Err
	}
	text := strings.ToValidUTF8(said.Error(), "�")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	if text == "" {
		text = "it failed, and did not say why"
	}
	kind := actor.KindOf(failure)
	out := work.Answer{V: work.Version, ID: id, Error: &work.Failure{Message: text, Retryable: kind.Retryable(), Code: kind}}
	if a != nil && a.Response != nil {
		out.Usage = a.Response.Usage
	}
	return json.Marshal(&out)
}
