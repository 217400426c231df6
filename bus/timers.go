package bus

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

const (
	firedAge   = time.Hour   // a fired timer has been sourced by the inbox long before
	clearedAge = time.Second // the mark that takes a schedule's place need not last
)

// Timers are durable alarms: at their time the server itself puts an envelope into an inbox, whoever
// runs or does not run then. They belong to the runtime; nobody else may publish to their stream.
type Timers struct {
	conn  *Conn
	names subjects.Names
}

// Timers gives the timers of a namespace.
func (c *Conn) Timers(names subjects.Names) Timers { return Timers{conn: c, names: names} }

// SetTimer puts body into the inbox of id at a time, on lane ctl, from name. It is durable when the
// Ack says so. A timer of the same id and name is replaced.
//
// It never fires before at, and within 0.25 seconds after it, mostly within a few milliseconds: the
// server keeps the time to the nanosecond and looks for due timers at most four times a second
// (measured with nats-server 2.15.2: the latest of 200 in two seconds came 0.252 s late). One whose
// time is past fires 0.25 seconds after it was set. After a restart of the server, overdue timers
// fire once the inbox stream has found its source again, which may take a few seconds. A timer can
// fire more than once; its envelope must say what it is for, so that an outdated one can be told.
func (t Timers) SetTimer(id actor.ID, name string, at time.Time, body []byte) actor.Ack {
	m := &nats.Msg{Subject: t.names.Timer(id, name), Data: body, Header: nats.Header{
		jetstream.ScheduleHeader:       {"@at " + at.UTC().Format(time.RFC3339Nano)},
		jetstream.ScheduleTargetHeader: {t.names.Fired(id, name)},
		jetstream.ScheduleTTLHeader:    {seconds(firedAge)},
	}}
	return t.conn.SendMsg(m)
}

// ClearTimer removes a timer. It is ordered with the SetTimers before it on the same connection. One
// that does not exist, or has fired, is cleared as well: whoever clears a timer may still see it
// fire.
func (t Timers) ClearTimer(id actor.ID, name string) actor.Ack {
	m := &nats.Msg{Subject: t.names.Timer(id, name), Header: nats.Header{
		jetstream.MsgRollup:    {jetstream.MsgRollupSubject},
		jetstream.MsgTTLHeader: {seconds(clearedAge)},
	}}
	return t.conn.SendMsg(m)
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }
