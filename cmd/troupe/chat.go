package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupehq/troupe/a2e"
	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/client"
)

func (a *app) chatCommand() *cobra.Command {
	var (
		name      string
		arguments string
		env       []string
	)
	cmd := &cobra.Command{
		Use:   "chat AGENT|ID [MESSAGE…]",
		Short: "Talk to an agent",
		Long: `Talk to an instance of an agent: a new one, or with an ID one that exists. Each line of the input is a
message; with MESSAGE there is that one only. What the agent says is printed as it comes. The thread stays when the
chat ends: its id, printed first, goes on with it.`,
		Example: "  troupe chat assistant_agent\n  troupe chat assistant_agent \"What is on today?\"\n  troupe chat sub_1f0c22aa \"And tomorrow?\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.does(a.asks(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := a.talk(ctx, c, args[0], name, arguments, env)
			if err != nil {
				return err
			}
			defer t.close()
			if len(args) > 1 {
				return t.turn(ctx, strings.Join(args[1:], " "))
			}
			return t.lines(ctx)
		})),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "a name for the thread, for people")
	f.StringVar(&arguments, "arguments", "", "the agent's arguments, a JSON object")
	f.StringArrayVar(&env, "env", nil, "KEY=VALUE, a scoped variable of the thread; may be repeated")
	return a.asking(cmd, 0)
}

// A talk is a chat with one thread.
type talk struct {
	a    *app
	c    *client.Client
	id   actor.ID
	stop func()

	said chan said
	rest chan struct{} // the thread has come to rest
	told bool          // something was printed in the turn
}

// said is what the agent said.
type said struct {
	Side    actor.Lane      `json:"side"`
	Content json.RawMessage `json:"content"`
}

// talk finds the thread, or makes one.
func (a *app) talk(ctx context.Context, c *client.Client, with, name, arguments string, env []string) (*talk, error) {
	t := &talk{a: a, c: c, id: actor.ID(with), said: make(chan said, 64), rest: make(chan struct{}, 64)}
	if !strings.HasPrefix(with, "sub_") {
		values, err := pairs("env", env)
		if err != nil {
			return nil, err
		}
		r := client.SpawnRequest{Agent: a2e.SubagentConfig{Name: name}, Definition: with, ScopedEnv: values}
		if arguments != "" {
			if r.Arguments = json.RawMessage(arguments); !json.Valid(r.Arguments) {
				return nil, usage(errors.New("--arguments is not JSON"))
			}
		}
		if t.id, err = c.Spawn(ctx, r); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(a.stderr, "%s\n", t.id)
	stop, err := c.Subscribe(t.hear)
	t.stop = stop
	return t, err
}

func (t *talk) close() { t.stop() }

// hear takes the thread's events.
func (t *talk) hear(e a2e.Event) {
	if e.SubagentID != t.id {
		return
	}
	var s said
	var changed struct {
		Status a2e.Status `json:"status"`
	}
	switch {
	case e.Event == "said" && json.Unmarshal(e.Content, &s) == nil:
		t.said <- s
	case e.Event == "awaiting_human",
		e.Event == "status_changed" && json.Unmarshal(e.Content, &changed) == nil && changed.Status.Closed():
		select {
		case t.rest <- struct{}{}:
		default:
		}
	}
}

// lines takes a turn for each line of the input.
func (t *talk) lines(ctx context.Context) error {
	if terminal(t.a.stdout) {
		fmt.Fprintln(t.a.stderr, "Type a message; end with Ctrl-D.")
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := t.turn(ctx, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// turn sends a message, and prints what is said until the thread rests.
func (t *talk) turn(ctx context.Context, text string) error {
	before, _, err := entry(ctx, t.c, t.id)
	if err != nil {
		return err
	}
	if before.Status == agent.StatusTerminated {
		return failed("%s is terminated (%s)", t.id, actor.ThreadTerminated)
	}
	content, err := json.Marshal(text)
	if err != nil {
		return err
	}
	t.told = false
	for len(t.rest) > 0 {
		<-t.rest
	}
	if _, err := t.c.Publish(ctx, client.Message{To: t.id, Content: content}); err != nil {
		return err
	}
	return t.until(ctx, before)
}

// lookEvery is how often the registry is asked, in case an event was lost.
const lookEvery = time.Second

// until prints what is said until the thread rests.
func (t *talk) until(ctx context.Context, before agent.Entry) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case s := <-t.said:
			if err := t.print(s); err != nil {
				return err
			}
			continue
		case <-t.rest:
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, _, err := entry(ctx, t.c, t.id)
		if err != nil {
			return err
		}
		if now.Seq <= before.Seq || now.Status == agent.StatusRunning {
			continue
		}
		for len(t.said) > 0 {
			if err := t.print(<-t.said); err != nil {
				return err
			}
		}
		return t.ended(ctx, now)
	}
}

// print prints what side A said: side B is whoever reads it, or another mind of the agent's.
func (t *talk) print(s said) error {
	t.told = true
	var text string
	if json.Unmarshal(s.Content, &text) != nil {
		text = string(s.Content)
	}
	if s.Side == actor.LaneB {
		text = "(side b) " + text
	}
	return t.a.say("%s", cleanText(text))
}

// cleanText is clean, line by line.
func cleanText(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// ended tells how the turn ended, where what was said does not.
func (t *talk) ended(ctx context.Context, e agent.Entry) error {
	switch {
	case e.Awaiting != nil && !t.told:
		return t.a.say("%s", cleanText(e.Awaiting.Question))
	case e.Status == agent.StatusFailed || e.Status == agent.StatusTerminated:
		resp, err := t.c.Await(ctx, t.id)
		if err != nil {
			return err
		}
		return failed("%s: %s: %s", t.id, resp.Status, resp.Error)
	case e.Awaiting == nil && !t.told:
		resp, err := t.c.Await(ctx, t.id)
		if err != nil {
			return err
		}
		return t.a.say("%s", clean(string(resp.Result)))
	}
	return nil
}
