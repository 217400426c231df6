package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/model"
)

// fanIn is how many summaries are combined into one.
const fanIn = 8

// mergeSentences is how long an extractive summary of summaries is.
const mergeSentences = 10

// A Source is a subagent's completed result, in a merge.
type Source struct {
	SubagentID actor.ID        `json:"subagent_id"`
	Name       string          `json:"name"`
	Result     json.RawMessage `json:"-"`
}

// A MergeFunc combines results, of which there is at least one, in the order of the request. What it
// returns is JSON. It may run more than once for one merge.
type MergeFunc func(ctx context.Context, sources []Source) (json.RawMessage, error)

// skipped is a subagent that has no result to merge.
type skipped struct {
	SubagentID actor.ID   `json:"subagent_id"`
	Status     a2e.Status `json:"status"`
}

// mergedResult is what a merge answers.
type mergedResult struct {
	Strategy a2e.Strategy    `json:"strategy"`
	Summary  string          `json:"summary,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"` // of voting
	Votes    int             `json:"votes,omitempty"`  // for it
	Tie      bool            `json:"tie,omitempty"`
	Tally    []tally         `json:"tally,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"` // of a custom strategy
	Sources  []Source        `json:"sources"`
	Skipped  []skipped       `json:"skipped,omitempty"`
}

// tally is what one answer got in a vote.
type tally struct {
	Answer      json.RawMessage `json:"answer"`
	Votes       int             `json:"votes"`
	SubagentIDs []actor.ID      `json:"subagent_ids"`
}

// mergeJob carries out a merge.
func (h *Host) mergeJob(ctx context.Context, n uint64, body []byte) agent.JobAnswer {
	c := combiner{h: h, n: n, m: &agent.Merge{}}
	msg, err := c.merge(ctx, body)
	if err != nil {
		msg = a2e.NewError(a2e.Envelope{}, time.Now(), err)
	}
	answer := h.answered(ctx, msg)
	answer.Step.Used = c.used
	return answer
}

func (c *combiner) merge(ctx context.Context, body []byte) (a2e.Message, error) {
	h, m := c.h, c.m
	if err := agent.Unpack(body, m); err != nil {
		return nil, err
	}
	var custom MergeFunc
	if name, is := m.Strategy.Function(); is {
		var err error
		if custom, err = c.function(ctx, name); err != nil {
			return nil, err
		}
	}
	out := mergedResult{Strategy: m.Strategy}
	err := h.steadily(ctx, "the results of a merge", func() error {
		out.Sources, out.Skipped = []Source{}, nil
		return h.collect(ctx, m, &out)
	})
	if err != nil {
		return nil, err
	}
	if len(out.Sources) > 0 {
		if err := c.combine(ctx, custom, &out); err != nil {
			return nil, err
		}
	}
	data, err := marshal(&out)
	if err != nil {
		return nil, err
	}
	v, err := h.kept(ctx, data)
	return &a2e.MergeResp{MergedResult: v.JSON}, err
}

// collect reads the results from the journals, in request order and each once.
func (h *Host) collect(ctx context.Context, m *agent.Merge, out *mergedResult) error {
	seen := map[actor.ID]bool{}
	for i, id := range m.IDs {
		if seen[id] {
			continue
		}
		seen[id] = true
		t, _, err := h.thread(ctx, id)
		if actor.KindOf(err) == actor.NotFound || err == nil && !t.Lineage().Under(m.Caller) {
			return &actor.Error{ID: id, Kind: actor.NotFound, Field: fmt.Sprintf("subagent_ids[%d]", i), Err: fmt.Errorf("%s is not a subagent of %s", id, m.Caller)}
		}
		if err != nil {
			return err
		}
		if s := t.Status(); s != a2e.Completed {
			out.Skipped = append(out.Skipped, skipped{id, s})
			continue
		}
		result, err := h.full(ctx, t.Result())
		if err != nil {
			return err
		}
		out.Sources = append(out.Sources, Source{SubagentID: id, Name: t.Config().Name, Result: result})
	}
	return nil
}

func (c *combiner) combine(ctx context.Context, custom MergeFunc, out *mergedResult) (err error) {
	switch {
	case custom != nil:
		out.Result, err = custom(ctx, out.Sources)
	case c.m.Strategy == a2e.Voting:
		err = vote(out)
	default:
		out.Summary, err = c.summarise(ctx, out.Sources)
	}
	return err
}

// merger finds a merge function; that of plain custom is called so.
func (h *Host) merger(name string) MergeFunc {
	if name == "" {
		name = string(a2e.Custom)
	}
	return h.Merges[name]
}

// vote takes the majority over the canonical JSON of each result's answer, else vote, else the whole
// result. A tie goes to the earliest in request order.
func vote(out *mergedResult) error {
	byText := map[string]int{}
	for _, s := range out.Sources {
		ballot, err := ballotOf(s.Result)
		if err != nil {
			return fmt.Errorf("result of %s: %w", s.SubagentID, err)
		}
		at, ok := byText[string(ballot)]
		if !ok {
			at = len(out.Tally)
			byText[string(ballot)] = at
			out.Tally = append(out.Tally, tally{Answer: ballot})
		}
		out.Tally[at].Votes++
		out.Tally[at].SubagentIDs = append(out.Tally[at].SubagentIDs, s.SubagentID)
	}
	for _, t := range out.Tally {
		switch {
		case t.Votes > out.Votes:
			out.Answer, out.Votes, out.Tie = t.Answer, t.Votes, false
		case t.Votes == out.Votes:
			out.Tie = true
		}
	}
	return nil
}

func ballotOf(result json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil {
		return nil, err
	}
	for _, name := range []string{"answer", "vote"} {
		if v, ok := fields[name]; ok {
			return canonical(v)
		}
	}
	return canonical(result)
}

// canonical is JSON with sorted keys and no spaces. Numbers keep their digits.
func canonical(data json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return marshal(v)
}

// marshal encodes v without HTML escapes.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// summarise makes a tree of summaries: by the caller's model if the caller is a thread with one that
// is not built in, else by the extractive summariser.
func (c *combiner) summarise(ctx context.Context, sources []Source) (string, error) {
	h, caller := c.h, c.m.Caller
	extractive := true
	one := func(ctx context.Context, texts []string) (string, error) {
		return model.Summarise(ctx, strings.Join(texts, "\n\n"), mergeSentences)
	}
	if IsThread(caller) {
		var t *agent.Thread
		err := h.steadily(ctx, "who merges", func() (err error) {
			t, _, err = h.thread(ctx, caller)
			return err
		})
		if err != nil {
			return "", err
		}
		if config := t.Config(); !strings.HasPrefix(config.Model, "builtin/") {
			one = func(ctx context.Context, texts []string) (string, error) { return c.askModel(ctx, t, texts) }
			extractive = false
		}
	}
	if extractive && len(sources) > 1 && len(sources) <= fanIn {
		return paragraphs(ctx, sources)
	}
	texts := make([]string, len(sources))
	for i, s := range sources {
		texts[i] = textOf(s.Result)
	}
	for first := true; first || len(texts) > 1; first = false {
		var next []string
		for len(texts) > 0 {
			n := min(fanIn, len(texts))
			summary, err := one(ctx, texts[:n])
			if err != nil {
				return "", err
			}
			next, texts = append(next, summary), texts[n:]
		}
		texts = next
	}
	return texts[0], nil
}

// paragraphs is the extractive summary of a few: what matters most of each, under its name.
func paragraphs(ctx context.Context, sources []Source) (string, error) {
	var told []string
	for _, s := range sources {
		summary, err := model.Summarise(ctx, textOf(s.Result), max(1, mergeSentences/len(sources)))
		if err != nil {
			return "", err
		}
		if summary != "" {
			told = append(told, s.Name+": "+summary)
		}
	}
	return strings.Join(told, "\n\n"), nil
}

// askModel has the thread's model combine texts.
func (c *combiner) askModel(ctx context.Context, t *agent.Thread, texts []string) (string, error) {
	config := t.Config()
	var b strings.Builder
	b.WriteString("Combine these results of subagents into one summary. Keep every finding that matters; do not add any.\n")
	for _, text := range texts {
		b.WriteString("\n<document>\n" + text + "\n</document>\n")
	}
	leave, err := c.h.slots.think(ctx, t.Lineage().Root(), config.Model)
	if err != nil {
		return "", err
	}
	defer leave()
	resp, err := c.step(ctx, &model.Request{
		Thread: t.Lineage().ID, Session: 1, Step: 1, Config: config,
		Task:     &a2e.TaskDefinition{Name: "merge", Instruction: b.String()},
		Progress: func(string) {},
	})
	if err != nil {
		return "", err
	}
	if resp.Fail != "" {
		return "", &actor.Error{Kind: actor.RuntimeError, Err: fmt.Errorf("the model gave up: %s", resp.Fail)}
	}
	if len(resp.Result) > 0 {
		return textOf(resp.Result), nil
	}
	return resp.Text, nil
}

// textOf is the text of a result: its summary or output when that is text, else its JSON.
func textOf(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(result, &fields) == nil {
		for _, name := range []string{"summary", "output"} {
			var text string
			if v, ok := fields[name]; ok && json.Unmarshal(v, &text) == nil {
				return text
			}
		}
	}
	return string(result)
}
