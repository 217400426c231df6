package host

import (
	"context"
	"fmt"
	"strconv"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
)

// thinksWith is the model that a job asks; "" if none, or if it is not known before.
func (c *cell) thinksWith(job actor.Job) string {
	t, ok := c.machine.(*agent.Thread)
	if !ok || job.Kind != agent.JobModel {
		return ""
	}
	side, _ := t.Acting()
	switch {
	case side == nil:
		return t.Config().Model
	case side.Prompt == nil:
		return ""
	}
	return side.Prompt.Model
}

// ask has a model take a step. A model that gives neither a response nor an error is an error.
func ask(ctx context.Context, m model.Model, r *model.Request) (*model.Response, error) {
	resp, err := m.Step(ctx, r)
	if err == nil && resp == nil {
		err = &actor.Error{Op: "host.Step", ID: r.Thread, Kind: actor.RuntimeError, Err: fmt.Errorf("the model %q returned nothing: no response and no error", r.Config.Model)}
	}
	return resp, err
}

// costs is what a step cost, by what its model tells, beside an error as well.
func costs(resp *model.Response) (u agent.Usage) {
	if resp != nil && resp.Usage != nil {
		u = usageOf(resp.Usage)
	}
	return u
}

// usageOf is what a model says that a step cost, as threads count it.
func usageOf(u *model.Usage) agent.Usage {
	return agent.Usage{
		InputTokens: max(u.InputTokens, 0), OutputTokens: max(u.OutputTokens, 0),
		CacheReadTokens: max(u.CacheReadTokens, 0), CacheWriteTokens: max(u.CacheWriteTokens, 0), USD: agent.Dollars(u.USD),
	}
}

// maxInvalid is how much of what a model wrote instead of arguments it reads again.
const maxInvalid = 200

// invalid is what a model wrote instead of a call's arguments, in quotes; "" if they are arguments.
func invalid(call *model.Call) string {
	text, ok := model.Invalid(call.Arguments)
	if !ok {
		return ""
	}
	return strconv.Quote(clip(text, maxInvalid))
}
