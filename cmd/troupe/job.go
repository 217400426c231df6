package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/client"
)

const (
	spawners  = 64                     // subagents that are being spawned and given their task at a time
	roomLook  = 200 * time.Millisecond // between tries to spawn in a full tree
	roomLooks = 50                     // of them, while no subagent of the job's own can make room
)

// A job is a subagent for each document, and the merge of their results.
type job struct {
	client   *client.Client
	flags    *runFlags
	parts    []*part
	progress *progress

	slots chan struct{} // of those that spawn
	mu    sync.Mutex
	live  int           // subagents that have been spawned and are not done
	freed chan struct{} // closed, and made anew, whenever one is done
}

// A part of a job is one document with its subagent.
type part struct {
	document
	id   actor.ID
	resp *a2e.AwaitResp
	err  error // it was not spawned, did not take the task, or can't be awaited
}

// failure says why there is no result, or "" when there is one.
func (p *part) failure() string {
	switch {
	case p.err != nil:
		return explain(p.err)
	case p.resp != nil && p.resp.Status != a2e.Completed:
		return ended(p.resp)
	}
	return ""
}

func newJob(c *client.Client, flags *runFlags, documents []document, stderr *os.File) *job {
	j := &job{client: c, flags: flags, slots: make(chan struct{}, spawners), freed: make(chan struct{})}
	for _, d := range documents {
		j.parts = append(j.parts, &part{document: d})
	}
	j.progress = newProgress(stderr, flags.name, len(j.parts))
	return j
}

func (j *job) config(p *part) a2e.SubagentConfig {
	return a2e.SubagentConfig{Name: p.path, Role: j.flags.prompt, Model: j.flags.model, Metadata: j.flags.metadata, Budget: j.flags.budget}
}

func (j *job) task(p *part) a2e.TaskDefinition {
	return a2e.TaskDefinition{Name: p.path, Instruction: p.instruction(j.flags.prompt)}
}

// check finds documents that are too large to be sent, before anything is spawned.
func (j *job) check() error {
	for _, p := range j.parts {
		const longID = "sub_00000000"
		req := a2e.DelegateReq{Envelope: a2e.Envelope{ID: longID + longID + longID}, SubagentID: longID, Task: j.task(p)}
		if err := j.client.Check(&req); err != nil {
			return failed("%s: %s", p.path, explain(err))
		}
	}
	return nil
}

func (j *job) failures() int {
	n := 0
	for _, p := range j.parts {
		if p.failure() != "" {
			n++
		}
	}
	return n
}

// run spawns, delegates, awaits and merges. Only what ends the whole job is an error: that time is
// over, or that nobody answers. Of all else the parts tell.
func (j *job) run(ctx context.Context) (json.RawMessage, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	showing := j.progress.start(inner, j.client)
	var working sync.WaitGroup
	for _, p := range j.parts {
		working.Go(func() {
			j.do(inner, p)
			if p.resp != nil || inner.Err() == nil {
				j.progress.done(p)
			}
			if errors.Is(p.err, actor.Unavailable) {
				cancel(p.err)
			}
		})
	}
	working.Wait()
	err := context.Cause(inner)
	j.progress.settle(inner, j.client)
	cancel(nil)
	showing.Wait()
	if err != nil {
		return nil, err
	}
	ids := make([]actor.ID, 0, len(j.parts))
	for _, p := range j.parts {
		if p.id != "" {
			ids = append(ids, p.id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return j.client.Merge(ctx, a2e.Strategy(j.flags.strategy), ids...)
}

// do takes a document from its subagent's birth to its result.
func (j *job) do(ctx context.Context, p *part) {
	if p.err = j.begin(ctx, p); p.err != nil {
		if p.id != "" {
			j.free()
		}
		return
	}
	p.resp, p.err = j.client.Await(ctx, p.id)
	j.free()
}

// begin spawns the subagent and gives it its task.
func (j *job) begin(ctx context.Context, p *part) error {
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := j.spawn(ctx, p); err != nil {
		return err
	}
	resp, err := j.client.Delegate(ctx, p.id, j.task(p))
	if err == nil && !resp.Accepted {
		err = failed("%s did not take the task: it is %s", p.id, resp.Status)
	}
	return err
}

// spawn makes the subagent. When the tree is full it waits until there is room. Without a live
// subagent of this job's own it waits for a while only: who else is in the tree may stay there.
func (j *job) spawn(ctx context.Context, p *part) error {
	for patience := roomLooks; ; patience-- {
		id, err := j.client.Spawn(ctx, client.SpawnRequest{Agent: j.config(p)})
		j.mu.Lock()
		freed := j.freed
		if err == nil {
			j.live++
		}
		if j.live > 0 {
			patience = roomLooks
		}
		j.mu.Unlock()
		if err == nil {
			p.id = id
			return nil
		}
		if !errors.Is(err, actor.QuotaExceeded) || patience == 0 {
			return err
		}
		again := time.NewTimer(roomLook)
		select {
		case <-freed:
		case <-again.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		if ctx.Err() != nil {
			return err
		}
	}
}

// free tells those who wait for room that there is some.
func (j *job) free() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live--
	close(j.freed)
	j.freed = make(chan struct{})
}
