package agent

import (
	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
)

// The kinds of envelope that a thread takes.
const (
	KindDelegate   = "delegate"   // [Delegate], from an ancestor
	KindMessage    = "message"    // [Message]
	KindAwait      = "await"      // [Await], from an ancestor
	KindStop       = "stop"       // [Stop], from the host of the tree
	KindCompletion = "completion" // [Completion], from a child
	KindAnswer     = "answer"     // [Answer], to a tool call
	KindJob        = "job"        // [JobAnswer], from this process
	KindTimer      = "timer"      // [Timer], from a timer stream or this process
	KindQuestion   = "question"   // [Question], from a child
	KindBoot       = "boot"       // [Prepare], from a host: a creation that had to wait for variables
	KindNotify     = "notify"     // [Notify], from a child
	KindExtend     = "extend"     // [Extend], from an ancestor
	KindGrant      = "grant"      // [Granted], from the host of the tree
	KindGone       = "gone"       // [Gone], from a child that was terminated
	KindSpent      = "spent"      // [Spent], from the host of the tree
	KindRecall     = "recall"     // [Recall], from the host of the tree
	KindWake       = "wake"       // nothing: the time asked for in Turn.Wake has come
)

// The kinds of envelope that the host of a tree takes.
const (
	KindSpawn     = "spawn"     // [Spawn]
	KindCancel    = "cancel"    // [Target]
	KindTerminate = "terminate" // [Target]
	KindMerge     = "merge"     // [Merge]
	KindNotice    = "notice"    // [Notice], from a thread
	KindReserve   = "reserve"   // [Reserve], from a thread under budgets
	KindStopped   = "stopped"   // [Stopped], from a thread
)

// KindBundle is an envelope that holds several others, which belong together in one inbox message: a list of them.
const KindBundle = "bundle"

// The kinds of job that a thread or host asks for.
const (
	JobModel = "model" // one step of the thread's model; no body
	JobList  = "list"  // the answer to a ListReq, which is the body as JSON
	JobMerge = "merge" // the merged result of the [Merge] in the body
)

// A Delegate asks a thread to take a task.
type Delegate struct {
	Name string      // of the task
	Task actor.Value // a TaskDefinition
}

// A Message is put into the thread's history and shown to its model before the next step.
type Message struct {
	Root    actor.ID // of the sender's tree; "" is a message that was published to the inbox itself
	Type    string
	Content actor.Value
	Meta    []byte // metadata: a JSON object, or nothing
	Opens   bool   // an idle thread opens a session for it
	Awaits  bool   // the sender's call waits for the end of the session that takes it
}

// An Await asks to be told how the thread's session ends.
type Await struct {
	Until int64 // microseconds since 1970, after which nobody waits any more; 0: without limit
}

// A Stop cancels or terminates a thread, as part of a cascade.
type Stop struct {
	Cascade   uint64
	Terminate bool
	Openers   []Opener // cancel only a session that one of them opened; none: cancel any
	Floors    []Opener // sessions that were stopped: what they still have under way opens no session here
}

// An Opener is a thread in one of its sessions, or in an earlier one.
type Opener struct {
	ID      actor.ID
	Session uint64
}

// A Stopped tells the host that a Stop was carried out and that everything that the thread sent
// before is in the inboxes that it went to.
type Stopped struct {
	Cascade uint64
	Session uint64
	Changed bool // a session was closed, or the thread terminated
	Status  a2e.Status
	Opened  []actor.ID // threads that were given work in that session, if the stop was meant for it
}

// A Notice tells the host that a session was opened or that it ended.
type Notice struct {
	Lineage actor.Lineage
	Session uint64
	Open    bool
	Loose   []actor.ID // at the end: threads that were given work and had not said yet whether they take it
	Late    bool       // at the end: the time that the thread's budget gives a session was over
	Settled Settled    // at the end
}

// A Question is what a child asks its parent.
type Question struct {
	Text string
}

// A Gone tells a parent that the child which sends it is terminated.
type Gone struct{}

// A Completion tells an owner that is a thread how a session of its child ended. Content is the
// JSON that the mail of an outside owner would get, with the text of S1 §6.2 as "text".
type Completion struct {
	Session uint64
	Failed  bool
	Name    string
	Content actor.Value
}

// An Answer is the outcome of a tool call that another actor carried out.
type Answer struct {
	Call    string
	IsError bool
	Content actor.Value
	Ended   Ended // set when the answer goes out instead of a completion
	Created *Created
}

// An Ended tells how a session of a child ended. It makes a completion of the answer to its parent's
// await, for a parent that no longer waits.
type Ended struct {
	Session uint64 // 0: no completion is due
	Reason  StopReason
	Name    string
	Usage   []byte   // JSON
	ID      actor.ID // the child; set by the parent
}

// A Timer says which session a timer is about, and when it was to fire: it counts only while the
// thread still waits for that very time. The envelope's sender is the timer's name.
type Timer struct {
	Session uint64
	At      int64 // microseconds since 1970
}

// A JobAnswer is the outcome of a job. Err is set when it failed.
type JobAnswer struct {
	N       uint64
	Err     string
	Step    Step        // of a job "model"
	Content actor.Value // of the others, but for these:

	Prepared  *Prepared
	Delivered *Delivered
}

// A Step is what a model did.
type Step struct {
	Said     actor.Value // a JSON string, or nothing
	Progress string      // the last it told
	Calls    []Call
	Result   actor.Value
	Fail     string
	Done     bool
	Sleep    int64     // microseconds
	Commands []Command // of a handler
	Input    int64     // of the first version's, as is the next; Used counts tokens now
	Output   int64
	Used     Usage // its Steps are not counted
}

// A Call is a tool call as the model asked for it.
type Call struct {
	ID        string
	Name      string
	Arguments actor.Value
	Invalid   string // what the model wrote instead of arguments; the call is answered, not made
}

// A Spawn asks the host for a new thread.
type Spawn struct {
	Parent actor.ID // "" is the sender
	Root   actor.ID // what the request claims, or ""
	Config a2e.SubagentConfig

	// Of an instance of an agent. Plan is what is spawned with it. Refusals are what the sender's checks found,
	// of which the first counts unless a check of the host's fails before.
	Composition *Composition
	Plan        []Planned
	Refusals    []Refusal
	Snapshot    string // of the parent's memory space, for a child that begins with one
}

// A Target asks the host to cancel or terminate a thread and everything below it.
type Target struct {
	ID     actor.ID
	Detach bool // terminate it alone
}

// A Merge asks the host to combine results.
type Merge struct {
	Caller   actor.ID // set by the host, for its job
	IDs      []actor.ID
	Strategy a2e.Strategy
}

// A Stored is an answer under its idempotency key.
type Stored struct {
	Digest  string
	IsError bool
	JSON    []byte
}
