package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
)

const (
	crowdSingles  = 200   // cycles one at a time, of each measurement of the neighbours
	crowdChildren = 1500  // of each measurement of their throughput
	crowdWindow   = 64    // of these under way at a time
	crowdRate     = 10000 // messages a second through the door: work that the machine has besides, whoever they are for
	crowdRatio    = 1.5
	crowdMemory   = 4 << 20 // bytes of the mailboxes of the partition
)

// crowd measures how much slower a thread's neighbours are while it has many messages queued: published to its inbox
// while it is busy, all at once, and sent through the door. All threads are in one partition, where they are in each
// other's way the most.
func crowd(ctx context.Context, o Options) (rows []Row, err error) {
	o.Partitions = 1
	err = inTemp(o, func(dir string) error {
		p, err := open(ctx, dir, o.Partitions)
		if err != nil {
			return err
		}
		defer func() { err = firstOf(err, p.stop()) }()
		for _, part := range []crowding{
			{"published to one inbox at once", o.Crowd, p.publish},
			{fmt.Sprintf("through the door, %d/s", crowdRate), o.Crowd / o.Rounds, p.message},
		} {
			more, err := p.besideCrowd(ctx, o, part)
			if err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			rows = append(rows, more...)
		}
		return nil
	})
	return rows, err
}

// A crowding is a way in which messages come to one thread: so many in each round.
type crowding struct {
	name string
	n    int
	fill func(ctx context.Context, id actor.ID, from, n int) error
}

// A pace is how fast the neighbours are.
type pace struct {
	p50  time.Duration
	rate float64
}

// alone measures fresh children one at a time.
func (p *product) alone(ctx context.Context, o Options) (time.Duration, error) {
	ids, err := p.spawnAll(ctx, min(crowdSingles, o.Children), crowdWindow)
	if err != nil {
		return 0, err
	}
	times, err := p.single(ctx, ids)
	if err != nil {
		return 0, err
	}
	return median(times), nil
}

// together measures how many fresh children get their task done in a second.
func (p *product) together(ctx context.Context, o Options) (float64, error) {
	ids, err := p.spawnAll(ctx, min(crowdChildren, o.Children), crowdWindow)
	if err != nil {
		return 0, err
	}
	return p.cycles(ctx, ids, crowdWindow)
}

// neighbours measures both, and begins the second when ready is closed.
func (p *product) neighbours(ctx context.Context, o Options, ready <-chan struct{}) (m pace, err error) {
	if m.p50, err = p.alone(ctx, o); err != nil {
		return m, err
	}
	<-ready
	m.rate, err = p.together(ctx, o)
	return m, err
}

// besideCrowd compares the neighbours with the neighbours before and after: one at a time while messages come, and many
// at once when all have come and are taken.
func (p *product) besideCrowd(ctx context.Context, o Options, c crowding) ([]Row, error) {
	busy, err := p.busy(ctx)
	if err != nil {
		return nil, err
	}
	var p50, rate []float64
	var with []pace
	peak := p.peak()
	at := make(chan struct{})
	close(at) // at once
	for n := range o.Rounds {
		before, err := p.neighbours(ctx, o, at)
		if err != nil {
			return nil, err
		}
		filled, fault := make(chan struct{}), error(nil)
		go func() {
			defer close(filled)
			fault = c.fill(ctx, busy, n*c.n, c.n)
		}()
		during, err := p.neighbours(ctx, o, filled)
		<-filled
		if err := firstOf(err, fault); err != nil {
			return nil, err
		}
		for p.host.Backlog().Messages > crowdWindow && ctx.Err() == nil {
			wait(ctx, 10*time.Millisecond)
		}
		after, err := p.neighbours(ctx, o, at)
		if err != nil {
			return nil, err
		}
		with = append(with, during)
		p50 = append(p50, 2*float64(during.p50)/float64(before.p50+after.p50))
		rate = append(rate, (before.rate+after.rate)/2/during.rate)
	}
	held := peak()
	wrong, err := p.arrived(ctx, busy, o.Rounds*c.n)
	slices.Sort(p50)
	slices.Sort(rate)
	slices.SortFunc(with, func(a, b pace) int { return int(a.p50 - b.p50) })
	middle, goal := o.Rounds/2, fmt.Sprintf("≤ %g times that without", crowdRatio)
	return []Row{
		{
			Name: fmt.Sprintf("%d messages %s: neighbours' p50", c.n, c.name), Value: milliseconds(with[middle].p50), Unit: "ms",
			Ratio: p50[middle], Goal: goal, Met: p50[middle] <= crowdRatio,
		},
		{
			Name: "  all of them queued: neighbours' throughput", Value: with[middle].rate, Unit: "/s",
			Ratio: rate[middle], Goal: fmt.Sprintf("≥ that without / %g", crowdRatio), Met: rate[middle] <= crowdRatio,
		},
		{Name: "  most bytes in mailboxes", Value: float64(held), Unit: "bytes", Goal: "≤ 4 MiB", Met: held <= crowdMemory},
		{Name: fmt.Sprintf("  of %d: lost, doubled or out of order", o.Rounds*c.n), Value: float64(wrong), Goal: "0", Met: wrong == 0},
	}, err
}

// peak watches the mailboxes until it is asked for the most that they held.
func (p *product) peak() (most func() int64) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	var top atomic.Int64
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				top.Store(max(top.Load(), p.host.Backlog().Bytes))
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return top.Load()
	}
}

// busy gives a thread that is at a task for longer than the measurement takes.
func (p *product) busy(ctx context.Context) (actor.ID, error) {
	scripted := config
	scripted.Model = "builtin/script"
	msg, err := p.ask(ctx, &a2e.SpawnReq{Envelope: p.key(), Agent: scripted})
	if err != nil {
		return "", err
	}
	id := msg.(*a2e.SpawnResp).SubagentID
	msg, err = p.ask(ctx, &a2e.DelegateReq{Envelope: p.key(), SubagentID: id, Task: a2e.TaskDefinition{
		Name: "sleep", Instruction: "sleep", SuccessCriteria: []string{},
		Metadata: map[string]json.RawMessage{"script": json.RawMessage(`[{"sleep_ms":3600000}]`)},
	}})
	if err == nil && !msg.(*a2e.DelegateResp).Accepted {
		err = errors.New("the busy thread did not take its task")
	}
	return id, err
}

// crowdUnacked is how many publishes are under way at a time, as client libraries bound them. What a client sends to a
// stream beyond that, others wait behind in the server.
const crowdUnacked = 4000

// publish puts messages into a thread's inbox, and returns when all are stored.
func (p *product) publish(ctx context.Context, id actor.ID, from, n int) error {
	subject := p.names.Inbox(id, actor.LaneA, "crowd")
	acks := make([]actor.Ack, n)
	for i := range n + crowdUnacked {
		if i < n {
			acks[i] = p.asks.Send(subject, fmt.Appendf(nil, `{"content":%d}`, from+i))
		}
		if i < crowdUnacked {
			continue
		}
		if _, err := acks[i-crowdUnacked].Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// message sends messages by the request that A2E has for it, at a steady rate, and returns when all are delivered.
func (p *product) message(ctx context.Context, id actor.ID, from, n int) error {
	inbox := p.asks.NewInbox()
	answered, fault := make(chan struct{}, n), make(chan error, 1)
	stop, err := p.asks.Subscribe(inbox, func(_ string, data []byte) {
		msg, err := a2e.DecodeAnswer(data)
		if resp, ok := msg.(*a2e.MessageResp); err != nil || !ok || !resp.Delivered {
			select {
			case fault <- fmt.Errorf("a message is answered with %s", data):
			default:
			}
		}
		answered <- struct{}{}
	})
	if err != nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < n; {
		for range min(crowdRate/100, n-i) {
			data, err := a2e.Encode(&a2e.MessageReq{FromSubagentID: parent, ToSubagentID: id, Message: a2e.MessagePayload{
				Type: "crowd", Content: json.RawMessage(strconv.Itoa(from + i)),
			}})
			if err == nil {
				err = p.asks.NC.PublishRequest(p.names.A2E(parent), inbox, data)
			}
			if err != nil {
				return err
			}
			i++
		}
		<-tick.C
	}
	for range n {
		select {
		case <-answered:
		case err := <-fault:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// arrived waits until a thread has as many messages in its history, and counts those that are not in their place.
func (p *product) arrived(ctx context.Context, id actor.ID, n int) (wrong int, err error) {
	a := actor.Address{ID: id}
	for next, from := 0, uint64(0); ctx.Err() == nil; {
		last, err := p.host.Store.Journal.Last(ctx, a)
		if err != nil {
			return wrong, err
		}
		err = p.host.Store.Journal.Range(ctx, a, from, last.Seq, func(m store.Message) error {
			r, err := agent.UnpackRecord(m.Data)
			if err != nil {
				return err
			}
			for _, e := range r.Entries {
				if e.Kind != actor.EntryMessage {
					continue
				}
				if string(e.Content.JSON) != strconv.Itoa(next) {
					wrong++
				}
				next++
			}
			return nil
		})
		if err != nil || next >= n {
			return wrong + next - n, err
		}
		from = last.Seq + 1
		wait(ctx, 100*time.Millisecond)
	}
	return wrong, ctx.Err()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
