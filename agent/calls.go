package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// The limits of a session, which keep a thread's state small.
const (
	MaxCalls  = 256  // tool calls of one step
	MaxOpened = 4096 // threads that are given work
	MaxAwaits = 1000 // threads that one call waits for
)

// The capabilities of a subagent (S0: SubagentConfig).
const (
	MultiAgent       = "multi_agent" // turns on the subagent_* tools
	CapabilityTools  = "tools"       // the host's tools, as far as the tool scope goes
	CapabilityMemory = "memory"      // the memory_* tools
)

// tools maps the names of the multi-agent tools to the request that each stands for.
var tools = map[string]string{
	"subagent_spawn":     a2e.TypeSpawnReq,
	"subagent_delegate":  a2e.TypeDelegateReq,
	"subagent_await":     a2e.TypeAwaitReq,
	"subagent_send":      a2e.TypeMessageReq,
	"subagent_list":      a2e.TypeListReq,
	"subagent_cancel":    a2e.TypeCancelReq,
	"subagent_terminate": a2e.TypeTerminateReq,
	"subagent_merge":     a2e.TypeMergeReq,
}

// calls starts the tool calls of a step. All run at the same time; the next step comes when the last
// is done.
func (x *turn) calls(calls []Call) {
	h := &x.head
	wasParked := h.parked()
	h.Calls = make([]call, len(calls))
	for i, c := range calls {
		h.Calls[i] = call{ID: c.ID, Key: fmt.Sprintf("%d-%d-%d", h.Session, h.Step, i), Name: c.Name}
		x.entry(actor.Entry{Kind: actor.EntryCall, Shown: h.Steps, Side: x.said(), From: h.Lineage.ID, Call: c.ID, Name: c.Name, Content: c.Arguments})
	}
	for i, c := range calls {
		err := invalid(&c)
		if err == nil {
			err = x.call(&h.Calls[i], c.Arguments)
		}
		if err != nil {
			x.callFailed(&h.Calls[i], err)
		}
	}
	if h.parked() != wasParked && h.Open {
		x.statusChanged()
	}
}

// invalid is the error of a call whose model wrote something else than arguments, for the model to read.
func invalid(c *Call) error {
	if c.Invalid == "" {
		return nil
	}
	return &actor.Error{Kind: actor.SchemaViolation, Field: "arguments", Err: fmt.Errorf("must be a JSON object; nothing was called. What was written is %s", c.Invalid)}
}

func (x *turn) call(c *call, arguments actor.Value) error {
	if x.def != nil {
		return x.composedCall(c, arguments)
	}
	typ, ok := tools[c.Name]
	capable := func(c string) bool { return slices.Contains(x.birth.Config.Capabilities, c) }
	if !ok && !arguments.Blob && (capable(CapabilityTools) || capable(CapabilityMemory)) { // the host knows which
		x.callJob(c, JobTool, &ToolCall{ID: string(x.head.Lineage.ID) + "-" + c.Key, Name: c.Name, Arguments: arguments.JSON})
		return nil
	}
	if !ok || !capable(MultiAgent) {
		return &actor.Error{Kind: actor.NotFound, Field: "call", Err: fmt.Errorf("no tool %q is available to this agent", c.Name)}
	}
	if arguments.Blob {
		return &actor.Error{Kind: actor.TooLarge, Field: "arguments", Err: fmt.Errorf("the arguments are larger than %d bytes", actor.MaxInline)}
	}
	req, err := x.request(typ, arguments.JSON)
	if err != nil {
		return err
	}
	self := x.head.Lineage
	switch r := req.(type) {
	case *a2e.SpawnReq:
		if r.Definition != "" {
			return &actor.Error{Kind: actor.SchemaViolation, Field: "definition", Err: errors.New("an agent's tool spawns plain subagents only")}
		}
		if r.Agent.MemoryScope == a2e.MemorySnapshot {
			parent := cmp.Or(r.ParentAgentID, self.ID)
			x.callJob(c, JobSnapshot, &SnapshotOf{Parent: parent, Spawn: Pack(&Spawn{Parent: r.ParentAgentID, Root: r.RootAgentID, Config: r.Agent})})
			return nil
		}
		x.send(x.hostOf(), actor.LaneHost, KindSpawn, c.Key, &Spawn{Parent: r.ParentAgentID, Root: r.RootAgentID, Config: r.Agent})
	case *a2e.DelegateReq:
		return x.delegateCall(c, r)
	case *a2e.AwaitReq:
		return x.awaitCall(c, r)
	case *a2e.MessageReq:
		if r.FromSubagentID != self.ID {
			return &actor.Error{Kind: actor.Unauthorized, Field: "from_subagent_id", Err: errors.New("an agent's tool sends in its own name only")}
		}
		return x.messageCall(c, r)
	case *a2e.ListReq:
		c.Body, err = a2e.Encode(r)
		c.Kind, c.Job = JobList, x.newJob(JobList, c.Body)
		return err
	case *a2e.CancelReq:
		x.send(x.hostOf(), actor.LaneHost, KindCancel, c.Key, &Target{ID: r.SubagentID})
	case *a2e.TerminateReq:
		x.send(x.hostOf(), actor.LaneHost, KindTerminate, c.Key, &Target{ID: r.SubagentID, Detach: r.Teardown == a2e.TeardownDetach})
	case *a2e.MergeReq:
		x.send(x.hostOf(), actor.LaneHost, KindMerge, c.Key, &Merge{IDs: r.SubagentIDs, Strategy: r.Strategy})
	}
	return nil
}

func (x *turn) delegateCall(c *call, r *a2e.DelegateReq) error {
	task, err := EncodeTask(r.Task)
	if err != nil {
		return err
	}
	if err := x.opened(r.SubagentID); err != nil {
		return err
	}
	c.Gives = r.SubagentID
	x.send(actor.Address{ID: r.SubagentID}, actor.LaneQueue, KindDelegate, c.Key, &Delegate{Name: r.Task.Name, Task: task})
	return nil
}

// spawnWith goes on with a spawn once the snapshot that it waits for is taken.
func (x *turn) spawnWith(c *call, digest []byte) error {
	var waiting SnapshotOf
	var s Spawn
	if err := Unpack(c.Body, &waiting); err != nil {
		return err
	}
	if err := Unpack(waiting.Spawn, &s); err != nil {
		return err
	}
	if err := json.Unmarshal(digest, &s.Snapshot); err != nil {
		return err
	}
	c.Job, c.Body = 0, nil
	x.send(x.hostOf(), actor.LaneHost, KindSpawn, c.Key, &s)
	return nil
}

// messageCall sends a message. One to the agent outside that is the root goes into its mail.
func (x *turn) messageCall(c *call, r *a2e.MessageReq) error {
	self := x.head.Lineage
	if !self.Outside || r.ToSubagentID != self.Root() {
		m := Message{Root: self.Root(), Type: r.Message.Type, Content: actor.Value{JSON: r.Message.Content}, Meta: EncodeMeta(r.Message)}
		x.send(actor.Address{ID: r.ToSubagentID}, actor.LaneQueue, KindMessage, c.Key, &m)
		return nil
	}
	mail, err := a2e.Encode(r)
	if err != nil {
		return err
	}
	x.effect(actor.Effect{Kind: actor.EffectMail, To: actor.Address{ID: r.ToSubagentID}, Name: "message-" + c.Key, Body: mail})
	answer, err := a2e.Encode(&a2e.MessageResp{Delivered: true})
	x.callDone(c, actor.Value{JSON: answer}, false)
	return err
}

// request reads a tool's arguments as the request that the tool stands for. The type and the sender
// come first, so that arguments may name another sender, and are then judged.
func (x *turn) request(typ string, arguments []byte) (a2e.Request, error) {
	args := bytes.TrimSpace(arguments)
	if len(args) == 0 {
		args = []byte("{}")
	}
	if args[0] != '{' {
		return nil, &actor.Error{Kind: actor.SchemaViolation, Field: "arguments", Err: errors.New("must be an object")}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"type":%q`, typ)
	if typ == a2e.TypeMessageReq {
		fmt.Fprintf(&b, `,"from_subagent_id":%s`, quote(string(x.head.Lineage.ID)))
	}
	if rest := bytes.TrimSpace(args[1:]); len(rest) > 0 && rest[0] != '}' {
		b.WriteByte(',')
	}
	b.Write(args[1:])
	req, err := a2e.Decode(b.Bytes())
	if err != nil {
		return nil, err
	}
	if req.Type() != typ {
		return nil, &actor.Error{Kind: actor.SchemaViolation, Field: "arguments.type", Err: fmt.Errorf("must be %s or left out", typ)}
	}
	return req, nil
}

// opened notes that the session gives id work: a cascade has to find it.
func (x *turn) opened(id actor.ID) error {
	switch {
	case !strings.HasPrefix(string(id), "sub_") || len(id) > len("sub_00000000"): // no thread has such an id
	case slices.Contains(x.head.Opened, id):
	case len(x.head.Opened) >= MaxOpened:
		return &actor.Error{ID: id, Kind: actor.QuotaExceeded, Err: fmt.Errorf("the session gave work to %d subagents, the most it may", MaxOpened)}
	default:
		x.head.Opened = append(x.head.Opened, id)
	}
	return nil
}

// awaitCall parks the session until the awaited threads are done.
func (x *turn) awaitCall(c *call, r *a2e.AwaitReq) error {
	ids := r.SubagentIDs
	if r.Mode == "" {
		ids = []actor.ID{r.SubagentID}
	}
	for _, id := range ids {
		if x.head.Lineage.Under(id) {
			return &actor.Error{ID: id, Kind: actor.AwaitCycle, Field: "subagent_id", Err: errors.New("it would wait for itself or for an ancestor")}
		}
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) > MaxAwaits {
		return &actor.Error{Kind: actor.SchemaViolation, Field: "subagent_ids", Err: fmt.Errorf("has more than %d subagents", MaxAwaits)}
	}
	c.Waits = ids
	c.Mode, c.Need = r.Mode, Needed(r, len(c.Waits))
	if wait := r.Timeout(); wait > 0 {
		c.Until = x.now + wait.Microseconds()
		x.arm(timerCall+c.Key, c.Until)
	}
	for _, id := range c.Waits {
		x.send(actor.Address{ID: id}, actor.LaneQueue, KindAwait, c.Key, &Await{})
	}
	return nil
}

// Needed is how many of the distinct subagents have to complete before an await is over.
func Needed(r *a2e.AwaitReq, distinct int) int {
	switch r.Mode {
	case a2e.ModeAny:
		return 1
	case a2e.ModeQuorum:
		return r.Quorum
	}
	return distinct
}

// answered takes another actor's answer to a tool call. One to a call that is over changes nothing,
// unless a child sent it instead of a completion.
func (x *turn) answered(a *Answer) {
	h := &x.head
	x.answeredSpawn(a.Call)
	for c := range h.eachCall {
		if c.Key != a.Call || c.Done || c.Job != 0 {
			continue
		}
		x.alive()
		if c.Create != nil {
			x.lifecycle(c, func() error { return x.instanceAnswered(c, a) })
			return
		}
		if len(c.Waits) == 0 {
			x.callDone(c, a.Content, a.IsError)
			return
		}
		x.awaited(c, a)
		return
	}
	if a.Created != nil && h.Composed != nil {
		x.born(a.Created)
	}
	x.late(x.env.From, &a.Ended, a.Content.JSON)
}

// late makes a completion of the answer of id to an await that is over.
func (x *turn) late(id actor.ID, end *Ended, answer []byte) {
	if end.Session == 0 || x.explicit(id) {
		return
	}
	msg, err := a2e.DecodeAnswer(answer)
	if err != nil {
		return
	}
	if resp, ok := msg.(*a2e.AwaitResp); ok {
		if data, err := end.around(id, resp); err == nil {
			x.childEnded(id, end.completion(data))
		}
	}
}

// maxSpilled is how many bytes of results become completions in one turn. What comes after that has to
// be awaited, and is told so.
const maxSpilled = 64 << 10

// spill saves what an await for several has gathered when it is given up.
func (x *turn) spill(c *call) {
	for i, end := range c.Ends {
		answer := c.Got[i]
		if x.spilled += len(answer); x.spilled > maxSpilled {
			answer, end.Reason = tooLarge(end.ID), StopError
		}
		x.late(end.ID, &end, answer)
	}
}

// awaited takes what one of the awaited threads answered.
func (x *turn) awaited(c *call, a *Answer) {
	at := slices.Index(c.Waits, x.env.From)
	if at < 0 {
		return
	}
	if c.Mode == "" {
		x.callDone(c, a.Content, a.IsError)
		return
	}
	size := len(a.Content.JSON)
	for _, got := range c.Got {
		size += len(got)
	}
	if size > maxGathered {
		a.Content.JSON = tooLarge(x.env.From)
	}
	c.Got, c.Ends = append(c.Got, a.Content.JSON), append(c.Ends, a.Ended)
	c.Ends[len(c.Ends)-1].ID = x.env.From
	done, resp := Gathered(c.Mode, c.Got, len(c.Waits)-1, c.Need)
	if !done {
		c.Waits = slices.Delete(c.Waits, at, at+1)
		return
	}
	data, err := a2e.Encode(resp)
	if err != nil {
		x.callFailed(c, err)
		return
	}
	x.callDone(c, actor.Value{JSON: data}, false)
}

// maxGathered is how many bytes of results one await for several gathers. What comes after that
// has to be awaited alone, and is told so.
const maxGathered = 192 << 10

func tooLarge(id actor.ID) []byte {
	resp := a2e.AwaitResp{SubagentID: id, Status: a2e.Failed, Error: string(actor.TooLarge) + ": together the results are too large; await this one alone"}
	data, err := a2e.Encode(&resp)
	if err != nil {
		panic("agent: encode: " + err.Error())
	}
	return data
}

// Gathered combines the AWAIT_RESPs of an await for several. Mode all is done when none is left, the
// others when need of them completed or too few are left for that. The status is COMPLETED when need
// was reached, and FAILED when not because a session ended otherwise or an answer was an error. Else it
// is the status of the first that is not completed: READY, when it never had a task.
func Gathered(mode a2e.Mode, got [][]byte, left, need int) (bool, *a2e.AwaitResp) {
	resp := &a2e.AwaitResp{}
	completed := 0
	for _, data := range got {
		one, err := a2e.DecodeAnswer(data)
		switch m := one.(type) {
		case *a2e.AwaitResp:
			m.Envelope = a2e.Envelope{}
			resp.Results = append(resp.Results, *m)
			if m.Status == a2e.Completed {
				completed++
				resp.SubagentID = m.SubagentID
			}
		case *a2e.Error:
			resp.Results = append(resp.Results, a2e.AwaitResp{SubagentID: m.Detail.ID, Status: a2e.Failed, Error: string(m.Code) + ": " + m.Message})
		default:
			resp.Results = append(resp.Results, a2e.AwaitResp{Status: a2e.Failed, Error: fmt.Sprint(err)})
		}
	}
	switch {
	case mode == a2e.ModeAll && left > 0:
		return false, nil
	case completed >= need:
		resp.Status = a2e.Completed
	case completed+left >= need && left > 0:
		return false, nil
	default:
		resp.Status = together(resp.Results)
		resp.Error = fmt.Sprintf("%d of the %d that were needed completed", completed, need)
	}
	if resp.SubagentID == "" && len(resp.Results) > 0 {
		resp.SubagentID = resp.Results[0].SubagentID
	}
	return true, resp
}

// together is the status of threads of which too few completed.
func together(results []a2e.AwaitResp) a2e.Status {
	var open a2e.Status
	for i := range results {
		switch s := results[i].Status; {
		case s == a2e.Completed:
		case s.Closed():
			return a2e.Failed
		case open == "":
			open = s
		}
	}
	return cmp.Or(open, a2e.Failed)
}

func (x *turn) callFailed(c *call, err error) {
	data, encodeErr := a2e.Encode(a2e.NewError(a2e.Envelope{}, timeOf(x.now), err))
	if encodeErr != nil {
		data = quote(err.Error())
	}
	x.callDone(c, actor.Value{JSON: data}, true)
}

func (x *turn) callTimeout(key string, at int64) {
	for i := range x.head.Calls {
		if c := &x.head.Calls[i]; c.Key == key && !c.Done && c.Until != 0 && c.Until == at {
			x.spill(c)
			x.callFailed(c, &actor.Error{Kind: actor.Timeout, Err: errors.New("the time allowed for waiting is over")})
		}
	}
}

// callDone puts the result into the history.
func (x *turn) callDone(c *call, content actor.Value, isError bool) {
	if c.Booted {
		x.booted(c, content, isError)
		return
	}
	wasParked := x.head.parked()
	if c.Until != 0 {
		x.out.Disarm = append(x.out.Disarm, timerCall+c.Key)
	}
	c.Done, c.Waits, c.Got, c.Ends, c.Body, c.Create = true, nil, nil, nil, nil, nil
	if c.Code {
		x.entry(actor.Entry{Kind: actor.EntryMessage, Side: x.head.Composed.Turn, From: x.head.Lineage.ID, Type: c.Name, Name: c.Key, IsError: isError, Content: content})
		if x.head.Composed.Stopping == nil {
			x.prompt(x.head.Composed.Turn, nil)
		}
	} else {
		x.entry(actor.Entry{Kind: actor.EntryResult, Shown: x.head.Steps, Side: x.said(), From: x.head.Lineage.ID, Call: c.ID, Name: c.Name, IsError: isError, Content: content})
	}
	if wasParked && !x.head.parked() {
		x.statusChanged()
	}
}
