package bus

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
)

// SetOverdue sets every timer again that was due before a time and has not fired, and says how many these were. A
// server that has no room for what a timer fires does not try to fire it again, not with room either, unless it
// is restarted or the timer is set (nats-server 2.15.2). Of timers whose names don't end in "-" and their time in
// microseconds nothing is known, and they are left alone.
func (t Timers) SetOverdue(ctx context.Context, before time.Time) (set int, err error) {
	const op = "bus.Timers.SetOverdue"
	ctx, cancel := within(ctx, ensureTimeout)
	defer cancel()
	stream, err := t.conn.JS.Stream(ctx, t.names.TimerStream())
	if err != nil {
		return 0, wrap(op, "find the timers", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(t.names.TimerFilters()[0]))
	if err != nil {
		return 0, wrap(op, "list the timers", err)
	}
	for subject := range info.State.Subjects {
		_, name, err := t.names.ParseTimer(subject)
		if err != nil {
			continue // not one of ours
		}
		at, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if err != nil || !time.UnixMicro(at).Before(before) {
			continue
		}
		again, err := t.again(ctx, stream, subject)
		if err != nil {
			return set, wrap(op, "set "+subject, err)
		}
		if again {
			set++
		}
	}
	return set, nil
}

// again sets a timer as it is, unless it has fired or was replaced or cleared meanwhile.
func (t Timers) again(ctx context.Context, stream jetstream.Stream, subject string) (bool, error) {
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if m.Header.Get(jetstream.ScheduleHeader) == "" {
		return false, nil // the mark of one that was cleared
	}
	next := &nats.Msg{Subject: subject, Data: m.Data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(m.Sequence, 10)},
	}}
	for _, h := range []string{jetstream.ScheduleHeader, jetstream.ScheduleTargetHeader, jetstream.ScheduleTTLHeader} {
		next.Header[h] = m.Header[h]
	}
	_, err = t.conn.SendMsg(next).Wait(ctx)
	if err != nil && kindOf(err) == actor.Conflict {
		return false, nil
	}
	return err == nil, err
}

// Full reports whether err says that the server has no room for more.
func Full(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeNoResources, codeNoRoom, codeConsumerStore}, api.ErrorCode)
}
