package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/test/natstest"
)

func TestReadMail(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	got := make(chan bus.Mail, 10)
	const agent = actor.ID("me.too")
	put := func(to actor.ID, session int) {
		stored(t, r.conn.SendExpect(r.names.Mail(to, "sub_1", fmt.Sprint(session)), 0, fmt.Append(nil, session)))
	}
	put(agent, 1)
	put("other", 1)
	put(agent, 2)
	_, err := r.conn.SendExpect(r.names.Mail(agent, "sub_1", "2"), 0, nil).Wait(ctx)
	wantKind(t, "a completion that was delivered before", err, actor.Conflict)
	serve(t, func(ctx context.Context) error {
		return r.conn.ReadMail(ctx, r.names, agent, 0, func(m bus.Mail) { got <- m })
	})
	put(agent, 3)
	for want := 1; want <= 3; want++ {
		m := next(t, "mail", got)
		if m.From != "sub_1" || m.Session != fmt.Sprint(want) || string(m.Data) != m.Session {
			t.Errorf("mail %+v, want session %d", m, want)
		}
	}
	later := make(chan bus.Mail, 10)
	serve(t, func(ctx context.Context) error {
		return r.conn.ReadMail(ctx, r.names, agent, 2, func(m bus.Mail) { later <- m })
	})
	if m := next(t, "mail", later); m.Session != "2" || m.Seq != 3 {
		t.Errorf("the first mail from 2 on is %+v, want session 2 at sequence 3", m)
	}
}

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	ctx := natstest.Context(t)
	s, err := r.conn.JS.Stream(ctx, r.names.DeadStream())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, data, reason string
		want               map[string]any
	}{
		{"JSON", `{"a":1}`, "no birth", map[string]any{"data": map[string]any{"a": 1.0}}},
		{"a JSON string", `"x"`, "no birth", map[string]any{"data": "x"}},
		{"not JSON", "x\x00\xff", "no birth", map[string]any{"data_b64": "eAD/"}},
		{"JSON that is not UTF-8", "\"\xff\"", "no birth", map[string]any{"data_b64": "Iv8i"}},
		{"nothing", "", "no birth", map[string]any{}},
		{"too much", strings.Repeat("x", int(r.conn.MaxPayload())), "no birth (too large to keep its data)", map[string]any{}},
	} {
		seq := stored(t, r.conn.DeadLetter(r.names, "sub_1", "no birth", "the.subject", []byte(c.data)))
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(m.Data, &got); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["at"]))
		if err != nil || time.Since(at) > time.Minute {
			t.Errorf("%s: at is %v", c.name, got["at"])
		}
		delete(got, "at")
		c.want["reason"], c.want["subject"] = c.reason, "the.subject"
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
