package spec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

// large makes text of n bytes with characters of one to four bytes, so that a cut shows.
func large(n int) string {
	const unit = "añ€🦜<&>\n"
	return strings.Repeat(unit, n/len(unit)) + strings.Repeat("z", n%len(unit))
}

// TestCase26_Sizes: a result of 1,200 lines, of 300 KB, of 5 MB → arrives exact, or by reference; never cut
// without a word.
func TestCase26_Sizes(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&lines, "line %d of a long result, which is not cut\n", i)
	}
	for name, text := range map[string]string{
		"1200 lines": lines.String(), "at the inline limit": strings.Repeat("z", 128<<10-len(`{"output":""}`)), "quotes at the limit": strings.Repeat(`"`, 64<<10-len(`{"output":""}`)),
		"just over it": strings.Repeat("z", 128<<10),
		"300 KB":       large(300 << 10), "5 MB": large(5 << 20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := `{"output":` + quote(text) + `}`
			s := startWith(t, host.Config{}, map[string]model.Model{
				"test/large": ends(want),
				"test/boss":  boss{children: many(1, `{"name":"c","model":"test/large"}`)},
			})
			id := s.spawn(me, `"model":"test/large"`)
			s.delegate(me, id, "null")
			check := func(where string, got json.RawMessage) {
				t.Helper()
				if string(got) != want {
					t.Errorf("%s: the result of %d bytes came as %d bytes: %.60s…", where, len(want), len(got), got)
				}
			}
			got := s.await(me, id)
			check("await", s.full(got.at("result")))
			if len(want) > 128<<10 != got.has("result.$blob") {
				t.Errorf("a result of %d bytes travels as %.200s", len(want), got.raw)
			}
			natstest.Await(t, "the mail", func() bool { return s.mails(me, id) == 1 })
			check("mail", s.full(s.mail(me, id, "1").at("result")))
			all, _ := s.shownTo(s.runBoss())
			s.onceEach(all, 1)
			check("completion in the parent's inbox", s.full(parse(t, string(all[0].Content)).at("result")))
			merged := s.merge(me, "voting", id)
			check("merge", s.full(parse(t, string(s.full(merged))).at("answer")))
		})
	}
}

// TestCase26_Many: results that are too large together are told as such, or come by reference.
func TestCase26_Many(t *testing.T) {
	t.Parallel()
	text := large(100 << 10)
	s := startWith(t, host.Config{}, map[string]model.Model{"test/large": ends(`{"output":` + quote(text) + `}`)})
	var ids []string
	for range 20 {
		id := s.spawn(me, `"model":"test/large"`)
		s.delegate(me, id, "null")
		s.await(me, id).is("result.output", quote(text))
		ids = append(ids, id)
	}
	got := s.ask(me, `{"type":"SUBAGENT_AWAIT_REQ","mode":"all","subagent_ids":["%s"]}`, strings.Join(ids, `","`))
	if got.text("type") == "error" {
		got.is("code", `"too_large"`)
	} else {
		for _, one := range got.list("results") {
			if one.text("status") == "COMPLETED" {
				parse(t, string(s.full(one.at("result")))).is("output", quote(text))
			} else if !strings.Contains(one.text("error"), "too_large") {
				t.Errorf("a result is neither there nor said to be too large: %.300s", one.raw)
			}
		}
	}
	merged := s.full(s.merge(me, "voting", ids...))
	parse(t, string(merged)).is("votes", `20`)
	if !bytes.Contains(merged, []byte("añ€🦜")) {
		t.Errorf("the merged result lacks the answer: %.200s", merged)
	}
	const await = `[{"call":"subagent_list"},{"call":"subagent_await","arguments":{"mode":"all","subagent_ids":["%s"]}},{"result":"$last"}]`
	parent := s.spawn(me, `"model":"builtin/script","capabilities":["multi_agent"]`)
	var own []string
	for range 5 {
		id := s.under(me, parent, `"model":"test/large"`)
		s.delegate(me, id, "null")
		own = append(own, id)
	}
	s.delegate(me, parent, fmt.Sprintf(await, strings.Join(own, `","`)))
	whole := parse(t, string(s.full(s.await(me, parent).at("result"))))
	told := 0
	for _, one := range whole.list("results") {
		if one.text("status") == "COMPLETED" {
			one.is("result.output", quote(text))
		} else if strings.Contains(one.text("error"), "too_large") {
			told++
		} else {
			t.Errorf("a result is neither there nor said to be too large: %.300s", one.raw)
		}
	}
	if len(whole.list("results")) != 5 || told == 5 {
		t.Errorf("%d results, %d of them too large", len(whole.list("results")), told)
	}
}

// TestCase26_Said: what a model says, why it fails, and what it calls tools with may be long as well.
func TestCase26_Said(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100 << 10, 300 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			text := large(size)
			said := modelFunc(func(_ context.Context, r *model.Request) (*model.Response, error) {
				if r.Step == 1 {
					return &model.Response{Text: text}, nil
				}
				return &model.Response{Done: true, Result: r.History[len(r.History)-1].Content}, nil
			})
			fails := modelFunc(func(context.Context, *model.Request) (*model.Response, error) {
				return &model.Response{Fail: text}, nil
			})
			s := startWith(t, host.Config{}, map[string]model.Model{"test/says": said, "test/fails": fails})
			for _, name := range []string{"test/says", "test/fails"} {
				id := s.spawn(me, `"model":`+quote(name))
				s.delegate(me, id, "null")
				got := s.await(me, id)
				var whole struct{ Output, Error string }
				if err := json.Unmarshal(s.full(got.at("result")), &whole); err != nil {
					t.Fatal(err)
				}
				cut := strings.HasSuffix(whole.Error, fmt.Sprintf("… (%d bytes in all)", len(text))) // and says so
				if whole.Output != text && whole.Error != text && !cut && !strings.Contains(whole.Error, "too_large") {
					t.Errorf("%s: a text of %d bytes came to %.300s", name, len(text), got.raw)
				}
				s.delegate(me, id, "null") // the thread is not stuck
				s.await(me, id)
			}
			s.settled(me)
		})
	}
}

// TestCase26_Messages: a message of 900 KB arrives exact, from a program, from a tool, and published.
func TestCase26_Messages(t *testing.T) {
	t.Parallel()
	s := start(t)
	w := s.watch(me)
	text := quote(large(800 << 10))
	id := s.spawn(me, `"model":"builtin/script"`)
	s.send(me, me, id, "t", text)
	s.delegate(me, id, `[{"result":"$inbox.0.content"}]`)
	if got := s.full(s.await(me, id).at("result")); canonical(t, string(got)) != `{"output":`+text+`}` {
		t.Errorf("a message of %d bytes came as %d bytes: %.60s…", len(text), len(got), got)
	}
	echo := s.spawn(me, `"model":"builtin/echo"`)
	s.publish(echo, "a", "me", `{"content":`+text+`}`)
	w.until("the end of the session", echo, func(e event) bool { return e.name == "status_changed" && e.text("content.status") == "COMPLETED" })
	if got := s.full(s.await(me, echo).at("result")); canonical(t, string(got)) != `{"output":`+text+`}` {
		t.Errorf("a published message of %d bytes came as %d bytes: %.60s…", len(text), len(got), got)
	}
	s.noDeadLetters()
}
