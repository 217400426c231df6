package upgrade_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/test/natstest"
)

// rests ends the load, and checks what there is: nothing lost, nothing twice, nobody stuck.
func (l *load) rests() {
	t := l.f.t
	t.Helper()
	l.stop()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d threads; done: %v", len(l.threads), l.kinds)
	for _, kind := range []string{"task", "tasks", "family", "message", "cancel", "boss", "person"} {
		if l.kinds[kind] == 0 {
			t.Errorf("no %s was done meanwhile", kind)
		}
	}
	natstest.Await(t, "nobody works any more", func() bool {
		entries, err := l.f.c.Entries(natstest.Context(t), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if s := e.A2E(); s == a2e.Running || s == a2e.Waiting && !strings.HasPrefix(e.Name, "gate") {
				return false
			}
		}
		return true
	})
	l.once()
	l.journals()
	if dead, err := l.f.c.DeadLetters(natstest.Context(t), "", time.Time{}); err != nil || len(dead) > 0 {
		t.Errorf("there are %d dead letters (%v): %+v", len(dead), err, dead)
	}
}

// once: every thread had as many sessions as it was given tasks, and its owner one completion of each that was not cancelled.
func (l *load) once() {
	t := l.f.t
	mails := map[actor.ID]map[string]int{}
	ctx, cancel := context.WithCancel(natstest.Context(t))
	defer cancel()
	want := 0
	for _, g := range l.threads {
		for _, r := range g.results {
			if r != "" {
				want++
			}
		}
	}
	got := 0
	err := l.f.c.Mail(ctx, 0, func(d client.Delivery) {
		if l.threads[d.From] == nil {
			return
		}
		if mails[d.From] == nil {
			mails[d.From] = map[string]int{}
		}
		mails[d.From][fmt.Sprint(d.Completion.Session)]++
		if got++; got >= want {
			cancel()
		}
	})
	if err != nil && ctx.Err() == nil {
		t.Fatalf("read the mail: %v", err)
	}
	if got != want {
		t.Errorf("the mail has %d completions, want %d", got, want)
	}
	for id, sessions := range mails {
		for n, times := range sessions {
			if times != 1 {
				t.Errorf("the completion of session %s of %s came %d times", n, id, times)
			}
		}
	}
	entries, err := l.f.c.Entries(natstest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range entries {
		if g := l.threads[e.SubagentID]; g != nil {
			if found++; e.Session != g.sessions {
				t.Errorf("%s was given %d tasks and had %d sessions", e.Name, g.sessions, e.Session)
			}
		}
	}
	if found != len(l.threads) {
		t.Errorf("the registry has %d of %d threads", found, len(l.threads))
	}
}

// journals: this version reads every record, and each session has one end.
func (l *load) journals() {
	t := l.f.t
	for id := range l.threads {
		ends := map[uint64]int{}
		ctx, a := natstest.Context(t), actor.Address{ID: id}
		last, err := l.f.store.Journal.Last(ctx, a)
		if err != nil {
			t.Errorf("the journal of %s: %v", id, err)
			continue
		}
		err = l.f.store.Journal.Range(ctx, a, 1, last.Seq, func(m store.Message) error {
			r, err := agent.UnpackRecord(m.Data)
			if err != nil {
				return err
			}
			for i := range r.Entries {
				if e := &r.Entries[i]; e.Kind == actor.EntryEnd {
					ends[e.Session]++
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("the journal of %s: %v", id, err)
		}
		for n, times := range ends {
			if times != 1 {
				t.Errorf("session %d of %s ended %d times", n, id, times)
			}
		}
	}
}

// again gives some threads of each kind one more task, which whatever hosts there are have to do.
func (l *load) again(what string) {
	t := l.f.t
	t.Helper()
	entries, err := l.f.c.Entries(natstest.Context(t), "")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]int{}
	var ids []actor.ID
	for _, e := range entries {
		kind, _, _ := strings.Cut(e.Name, "-")
		if l.threads[e.SubagentID] == nil || e.Agent != "" || kind == "cancel" || taken[kind] == 5 {
			continue
		}
		taken[kind]++
		if err := l.delegate(natstest.Context(t), e.SubagentID); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		ids = append(ids, e.SubagentID)
	}
	if len(taken) < 4 {
		t.Errorf("%s: there are only threads of these kinds: %v", what, taken)
	}
	for _, id := range ids {
		if err := l.ends(natstest.Context(t), id, a2e.Completed, ""); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
