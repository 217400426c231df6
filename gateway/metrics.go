package gateway

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/host"
)

const (
	fleetEvery   = 5 * time.Second // the server is asked no more often than that
	fleetTime    = 2 * time.Second // and no longer
	maxServices  = 64              // that are told apart; the others are "other": whoever spawns may name any
	otherService = "other"
)

// A Fleet is what all processes of a namespace have in common: every one of them tells the same.
type Fleet struct {
	Members  int
	Services []bus.Service
	Streams  []bus.StreamState
	Dead     string // the name of the stream of dead letters
}

// Metrics makes of a host's Stats, and of what ask says of the namespace, what Prometheus collects. ask may be nil.
type Metrics struct {
	stats func() host.Stats
	ask   func(context.Context) (Fleet, error)

	mu    sync.Mutex
	fleet Fleet
	asked time.Time
	fails bool
}

// NewMetrics gives a collector to register.
func NewMetrics(stats func() host.Stats, ask func(context.Context) (Fleet, error)) *Metrics {
	return &Metrics{stats: stats, ask: ask}
}

// Describe implements [prometheus.Collector]: what there is depends on what the process does.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	s := m.stats()
	o := out{to}
	o.counts(&s)
	o.steps(s.Steps)
	o.present(&s)
	if m.ask == nil {
		return
	}
	fleet, ok := m.known()
	up := 0.0
	if ok {
		up = 1
		o.fleet(&fleet)
	}
	o.gauge("troupe_fleet_up", "1 when the NATS server said how the namespace does, else 0 and the troupe_work_*, troupe_stream_* and troupe_members are missing.", up)
}

// known asks the server, unless it has just been asked.
func (m *Metrics) known() (Fleet, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) >= fleetEvery {
		ctx, cancel := context.WithTimeout(context.Background(), fleetTime)
		defer cancel()
		fleet, err := m.ask(ctx)
		m.fleet, m.fails, m.asked = fleet, err != nil, time.Now()
	}
	return m.fleet, !m.fails
}

// out writes metrics.
type out struct{ to chan<- prometheus.Metric }

func (o out) metric(kind prometheus.ValueType, name, help string, v float64, pairs ...string) {
	labels := prometheus.Labels{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, nil, labels), kind, v)
	if err != nil { // a label that is not UTF-8
		m = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	o.to <- m
}

func (o out) count(name, help string, n uint64, pairs ...string) {
	o.metric(prometheus.CounterValue, name, help, float64(n), pairs...)
}

func (o out) gauge(name, help string, v float64, pairs ...string) {
	o.metric(prometheus.GaugeValue, name, help, v, pairs...)
}

// counts tells what the process has done.
func (o out) counts(s *host.Stats) {
	o.count("troupe_turns_total", "Turns that were begun.", s.Turns)
	o.count("troupe_records_total", "Turns that were recorded in a journal.", s.Records)
	o.count("troupe_record_conflicts_total", "Records that were refused, for another process was faster.", s.Conflicts)
	o.count("troupe_envelopes_total", "Messages that recorded turns have taken.", s.Envelopes)
	o.count("troupe_sends_total", "Writes that recorded turns have led to, tries again included.", s.Sends)
	o.count("troupe_threads_born_total", "Threads that were spawned.", s.Births)
	for reason, n := range s.Ended {
		o.count("troupe_sessions_ended_total", "Sessions that ended, by stopReason.", n, "reason", string(reason))
	}
	for typ, n := range s.Requests {
		o.count("troupe_requests_total", "Requests at the door, by type.", n, "type", typ)
	}
	for code, n := range s.Refused {
		o.count("troupe_requests_refused_total", "Requests that the door itself refused, by code.", n, "code", string(code))
	}
	o.count("troupe_inbox_full_total", "Messages that found as many queued as may be.", s.InboxFull)
	o.count("troupe_dead_letters_total", "Messages that became dead letters.", s.Dead)
}

// steps tells of the steps of models and handlers.
func (o out) steps(steps []host.StepStats) {
	for i := range steps {
		s := &steps[i]
		o.count("troupe_steps_total", "Steps of models and handlers that ended.", s.N, "model", s.Model, "outcome", s.Outcome)
		if s.Timed == 0 {
			continue
		}
		buckets, sum := map[float64]uint64{}, uint64(0)
		for b, most := range host.StepBuckets {
			sum += s.Buckets[b]
			buckets[most] = sum
		}
		desc := prometheus.NewDesc("troupe_step_duration_seconds", "How long steps took that ran in this process.", nil,
			prometheus.Labels{"model": s.Model, "outcome": s.Outcome})
		m, err := prometheus.NewConstHistogram(desc, s.Timed, s.Seconds, buckets)
		if err == nil {
			o.to <- m
		}
	}
}

// present tells what the process has to do.
func (o out) present(s *host.Stats) {
	o.gauge("troupe_jobs_running", "Model steps, tool calls and other jobs that run in this process.", float64(s.JobsRunning))
	o.gauge("troupe_jobs_waiting", "Jobs of this process that wait for a place.", float64(s.JobsWaiting))
	o.gauge("troupe_jobs_running_max", "How many jobs may run at a time in this process.", float64(s.JobsMost))
	o.gauge("troupe_actors_in_memory", "Threads and hosts of trees that are in memory.", float64(s.Actors))
	for status, n := range s.Threads {
		o.gauge("troupe_threads_in_memory", "Threads in memory, by status; one that waits long leaves memory.", float64(n), "status", string(status))
	}
	o.gauge("troupe_mailbox_messages", "Messages in mailboxes, and those left in the inbox stream for want of room.", float64(s.Backlog.Messages))
	o.gauge("troupe_mailbox_spilled_messages", "Of these, those left in the inbox stream.", float64(s.Backlog.Spilled))
	o.gauge("troupe_mailbox_bytes", "Bytes that mailboxes hold.", float64(s.Backlog.Bytes))
	for i, n := range s.Backlog.Largest {
		o.gauge("troupe_mailbox_largest_messages", "Messages of the fullest mailboxes, by rank.", float64(n), "rank", strconv.Itoa(i+1))
	}
	for _, p := range s.Partitions {
		n := strconv.Itoa(p.Partition)
		o.gauge("troupe_partition_lag_messages", "Messages of an owned partition that are not settled.", float64(p.Lag), "partition", n)
		o.gauge("troupe_partition_stragglers", "Actors of an owned partition with jobs or sends under way.", float64(p.Stragglers), "partition", n)
	}
	o.gauge("troupe_partitions_owned", "Partitions that this process owns.", float64(len(s.Partitions)))
}

// fleet tells of the namespace.
func (o out) fleet(f *Fleet) {
	o.gauge("troupe_members", "Processes that are alive.", float64(f.Members))
	for _, s := range f.Streams {
		o.gauge("troupe_stream_messages", "Messages of a stream or bucket.", float64(s.Messages), "stream", s.Name)
		o.gauge("troupe_stream_bytes", "Bytes of a stream or bucket.", float64(s.Bytes), "stream", s.Name)
		o.gauge("troupe_stream_consumers", "Consumers of a stream or bucket.", float64(s.Consumers), "stream", s.Name)
		if s.Name == f.Dead {
			o.gauge("troupe_dead_letters", "Dead letters that are kept.", float64(s.Messages))
		}
	}
	for _, s := range few(f.Services) {
		labels := []string{"kind", s.Kind, "name", s.Name}
		o.gauge("troupe_work_waiting", "Jobs that no worker has yet.", float64(s.Waiting), labels...)
		o.gauge("troupe_work_running", "Jobs that workers have.", float64(s.Running), labels...)
		o.gauge("troupe_work_redelivered", "Of these, those that a worker before has lost or given back.", float64(s.Redelivered), labels...)
		o.gauge("troupe_work_idle_workers", "Requests of workers that wait for a job.", float64(s.Idle), labels...)
		oldest := 0.0
		if !s.Oldest.IsZero() {
			oldest = max(time.Since(s.Oldest).Seconds(), 0)
		}
		o.gauge("troupe_work_oldest_waiting_seconds", "How long the first of the waiting jobs waits.", oldest, labels...)
	}
}

// few adds up the services beyond the first, of which those that workers have served come first.
func few(all []bus.Service) []bus.Service {
	var kept, unserved []bus.Service
	for _, s := range all {
		if s.Served {
			kept = append(kept, s)
		} else {
			unserved = append(unserved, s)
		}
	}
	kept = append(kept, unserved...)
	if len(kept) <= maxServices {
		return kept
	}
	rest := bus.Service{Kind: otherService, Name: otherService}
	for _, s := range kept[maxServices:] {
		rest.Waiting, rest.Running, rest.Redelivered, rest.Idle = rest.Waiting+s.Waiting, rest.Running+s.Running, rest.Redelivered+s.Redelivered, rest.Idle+s.Idle
		if rest.Oldest.IsZero() || !s.Oldest.IsZero() && s.Oldest.Before(rest.Oldest) {
			rest.Oldest = s.Oldest
		}
	}
	return append(kept[:maxServices:maxServices], rest)
}
