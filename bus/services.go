package bus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/subjects"
)

// A Service is how the jobs of one service stand: of a model or a tool that workers serve.
type Service struct {
	Kind        string    `json:"kind"`
	Name        string    `json:"name"`
	Waiting     uint64    `json:"waiting"`         // jobs that no worker has yet
	Running     int       `json:"running"`         // jobs that workers have
	Redelivered int       `json:"redelivered"`     // of these, those that a worker before has lost or given back
	Idle        int       `json:"idle"`            // workers that wait for a job
	Served      bool      `json:"served"`          // a worker has come at some time
	Oldest      time.Time `json:"oldest,omitzero"` // since when the first of the waiting jobs waits
}

// maxUnserved is how many jobs there may be in the queue for those of services that no worker has ever served to be
// counted: the server lists them one by one.
const maxUnserved = 100_000

// Services tells how the jobs of every service stand that workers have served, or that has jobs. With more than
// 100,000 jobs in the queue those that nobody has ever served are left out.
func (j Jobs) Services(ctx context.Context) ([]Service, error) {
	const op = "bus.Services"
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	stream, err := j.conn.JS.Stream(ctx, j.names.WorkStream())
	if err != nil {
		return nil, wrap(op, "ask for "+j.names.WorkStream(), err)
	}
	var all []Service
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if kind, name, ok := j.served(info); ok {
			s := Service{Kind: kind, Name: name, Served: true, Waiting: info.NumPending, Running: info.NumAckPending, Redelivered: info.NumRedelivered, Idle: info.NumWaiting}
			if s.Waiting > 0 {
				m, err := stream.GetMsg(ctx, info.Delivered.Stream+1, jetstream.WithGetMsgSubject(info.Config.FilterSubject))
				if err == nil {
					s.Oldest = m.Time
				} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
					return nil, wrap(op, "look for the oldest job of "+kind+"/"+name, err)
				}
			}
			all = append(all, s)
		}
	}
	if err := list.Err(); err != nil {
		return nil, wrap(op, "list the consumers of "+j.names.WorkStream(), err)
	}
	if n := stream.CachedInfo().State.Msgs; n > 0 && n <= maxUnserved {
		if all, err = j.unserved(ctx, stream, all); err != nil {
			return nil, wrap(op, "list the jobs of "+j.names.WorkStream(), err)
		}
	}
	slices.SortFunc(all, func(a, b Service) int {
		return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name)
	})
	return all, nil
}

// served reads from a consumer which service's it is.
func (j Jobs) served(info *jetstream.ConsumerInfo) (kind, name string, ok bool) {
	prefix, _ := strings.CutSuffix(info.Config.FilterSubject, ">")
	kind, name, _, _, err := j.names.ParseWork(prefix + "x.1")
	return kind, name, err == nil && info.Name == subjects.WorkConsumer(kind, name)
}

// unserved adds the services that have jobs and no consumer.
func (j Jobs) unserved(ctx context.Context, stream jetstream.Stream, all []Service) ([]Service, error) {
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(j.names.WorkFilter()))
	if err != nil {
		return nil, err
	}
	first := map[[2]string]int{}
	for subject, n := range info.State.Subjects {
		kind, name, _, _, err := j.names.ParseWork(subject)
		if err != nil || slices.ContainsFunc(all, func(s Service) bool { return s.Served && s.Kind == kind && s.Name == name }) {
			continue
		}
		key := [2]string{kind, name}
		at, ok := first[key]
		if !ok {
			at = len(all)
			first[key] = at
			all = append(all, Service{Kind: kind, Name: name})
		}
		all[at].Waiting += n
	}
	for key, at := range first {
		m, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(j.names.WorkService(key[0], key[1])))
		if err == nil {
			all[at].Oldest = m.Time
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, err
		}
	}
	return all, nil
}

// A StreamState is what a stream of a namespace holds.
type StreamState struct {
	Name      string
	Messages  uint64
	Bytes     uint64
	Consumers int
}

// Streams tells what every stream and bucket of a namespace holds, by name.
func (c *Conn) Streams(ctx context.Context, names subjects.Names) ([]StreamState, error) {
	ctx, cancel := within(ctx, requestTimeout)
	defer cancel()
	own := names.Namespace() + "_"
	var all []StreamState
	list := c.JS.ListStreams(ctx)
	for info := range list.Info() {
		name := strings.TrimPrefix(strings.TrimPrefix(info.Config.Name, "KV_"), "OBJ_")
		if strings.HasPrefix(name, own) {
			all = append(all, StreamState{info.Config.Name, info.State.Msgs, info.State.Bytes, info.State.Consumers})
		}
	}
	slices.SortFunc(all, func(a, b StreamState) int { return strings.Compare(a.Name, b.Name) })
	return all, wrap("bus.Streams", "list the streams of "+names.Namespace(), list.Err())
}
