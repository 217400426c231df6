package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
)

const membersLong = `Show which processes are alive, and which of them owns which partition of the inboxes.

LAG is how many messages of a partition are not known to be settled. One that grows says that its owner is stuck or
too slow. A partition whose owner is gone is taken over within seconds while any host runs. STRAGGLERS are threads with
a model, a tool or a sleep under way. A host that is leaving owns nothing any more, and ends the jobs that it has begun.

Where there are models or tools that workers serve, the last table tells how their jobs stand: WAITING have no worker yet, the
first of them since OLDEST; RUNNING are with workers, REDELIVERED of them after a worker before has lost them; IDLE workers
wait for a job. Jobs that wait while none is idle say that the pool is too small or stuck; with none running either it is gone.`

// A memberShown is a member as JSON shows it.
type memberShown struct {
	store.Member
	Seen    time.Time `json:"seen"` // when it last said that it lives, by the server's clock
	Leaving bool      `json:"leaving,omitempty"`
}

func (a *app) membersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "members",
		Short:   "Show the hosts that are alive, and what each owns",
		Long:    membersLong,
		Example: "  troupe members\n  troupe members -o json | jq '.partitions[] | select(.live | not)'",
		Args:    takes(),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, _ []string) error {
			partitions, err := c.Partitions(ctx) // it says at once if there is no such namespace
			if err != nil {
				return err
			}
			members, err := c.Members(ctx)
			if err != nil {
				return err
			}
			services, err := c.Services(ctx)
			if err != nil {
				return err
			}
			if a.json() {
				all := make([]memberShown, len(members))
				for i, m := range members {
					all[i] = memberShown{m, m.Seen, m.Leaving}
				}
				return a.print(struct {
					Members    []memberShown      `json:"members"`
					Partitions []client.Partition `json:"partitions"`
					Work       []bus.Service      `json:"work"`
				}{all, partitions, services})
			}
			return errors.Join(a.showMembers(members, partitions), a.showWork(services))
		})),
	}
	return a.operating(cmd, requestTimeout)
}

func (a *app) showMembers(members []store.Member, partitions []client.Partition) error {
	rows := [][]string{{"MEMBER", "HOST", "PID", "VERSION", "SINCE", "SEEN", "PARTITIONS"}}
	for _, m := range members {
		owns := make([]string, len(m.Partitions))
		for i, p := range m.Partitions {
			owns[i] = strconv.Itoa(p)
		}
		if m.Leaving {
			owns = []string{"leaving"}
		}
		rows = append(rows, []string{clean(m.ID), clean(m.Host), strconv.Itoa(m.PID), clean(m.Version),
			age(time.Since(m.Started)), age(time.Since(m.Seen)) + " ago", strings.Join(owns, " ")})
	}
	if len(members) == 0 {
		rows = [][]string{{"(no host is alive)"}}
	}
	if err := a.table(rows); err != nil {
		return err
	}
	rows = [][]string{{}, {"PARTITION", "OWNER", "EPOCH", "WATERMARK", "LAG", "STRAGGLERS"}}
	for _, p := range partitions {
		rows = append(rows, []string{strconv.Itoa(p.Partition), ownerOf(p), fmt.Sprint(p.Epoch), fmt.Sprint(p.Watermark),
			fmt.Sprint(p.Lag), strconv.Itoa(len(p.Stragglers))})
	}
	return a.table(rows)
}

// showWork tells of workers' jobs, if there are any.
func (a *app) showWork(services []bus.Service) error {
	if len(services) == 0 {
		return nil
	}
	rows := [][]string{{}, {"WORK", "WAITING", "OLDEST", "RUNNING", "REDELIVERED", "IDLE"}}
	for _, s := range services {
		oldest := "-"
		if !s.Oldest.IsZero() {
			oldest = age(time.Since(s.Oldest))
		}
		idle := strconv.Itoa(s.Idle)
		if !s.Served {
			idle = "(nobody ever came)"
		}
		rows = append(rows, []string{clean(s.Kind + "/" + s.Name), fmt.Sprint(s.Waiting), oldest, strconv.Itoa(s.Running), strconv.Itoa(s.Redelivered), idle})
	}
	return a.table(rows)
}

// ownerOf says who owns a partition, and if nobody does.
func ownerOf(p client.Partition) string {
	switch {
	case p.Owner == "":
		return "(nobody)"
	case !p.Live:
		return clean(p.Owner) + " (gone)"
	}
	return clean(p.Owner)
}
