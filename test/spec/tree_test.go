package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
)

// under spawns a subagent below a parent, in the name of an agent.
func (s *stage) under(agent, parent, fields string) string {
	s.t.Helper()
	got := s.ask(agent, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"child",%s},"parent_agent_id":%q}`, fields, parent)
	got.is("status", `"READY"`)
	return got.text("subagent_id")
}

// TestS0_10_Depth: "the root has 0, the limit (default 5) is the largest depth allowed."
func TestS0_10_Depth(t *testing.T) {
	t.Parallel()
	s := start(t)
	chain := []string{me}
	for range 5 {
		chain = append(chain, s.under(me, chain[len(chain)-1], `"model":"m"`))
	}
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":%q}`
	s.refused("depth_exceeded", "", me, spawn, chain[5])
	s.refused("depth_exceeded", "", chain[5], `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"}}`)
	for i, one := range s.ask(me, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents") {
		one.is("depth", fmt.Sprint(i+1))
		one.is("parent_agent_id", quote(chain[i]))
		one.is("root_agent_id", quote(me))
	}
	if n := s.entries(); n != 5 {
		t.Errorf("the registry has %d subagents, want 5: what was refused left something behind", n)
	}
}

// TestS0_10_Parents: "An unknown sub_… parent is refused; a caller may only name itself or its own
// descendants as parent. root_agent_id is derived, and a contradicting claim refused."
func TestS0_10_Parents(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.spawn(me, `"model":"m"`)
	aa, b, foreign := s.under(me, a, `"model":"m"`), s.spawn(me, `"model":"m"`), s.spawn("other", `"model":"m"`)
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"parent_agent_id":%q}`
	for _, pair := range [][2]string{{me, "sub_00000000"}, {me, "other"}, {me, foreign}, {a, me}, {a, b}, {aa, a}, {aa, "aa"}} {
		s.refused("not_found", "parent_agent_id", pair[0], spawn, pair[1])
	}
	for _, pair := range [][2]string{{me, me}, {me, aa}, {a, a}, {a, aa}} {
		s.ask(pair[0], spawn, pair[1]).is("status", `"READY"`)
	}
	const claim = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"},"root_agent_id":%q}`
	for _, root := range []string{"other", a, "sub_00000000"} {
		s.refused("schema_violation", "root_agent_id", me, claim, root)
		s.refused("schema_violation", "root_agent_id", aa, claim, root)
	}
	id := s.ask(aa, claim, me).text("subagent_id")
	list := s.ask(aa, `{"type":"SUBAGENT_LIST_REQ"}`).list("subagents")
	last := list[len(list)-1]
	last.is("subagent_id", quote(id))
	last.is("root_agent_id", quote(me))
	last.is("parent_agent_id", quote(aa))
	last.is("depth", `3`)
}

// TestS0_10_Quota: "live (not closed, not terminated) subagents in a root's tree, default 256; closed ones
// free their place. It is checked at spawn only: giving a closed one a new task may exceed it."
func TestS0_10_Quota(t *testing.T) {
	t.Parallel()
	s := startWith(t, host.Config{Limits: host.Limits{MaxLive: 3}}, nil)
	const spawn = `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"builtin/script"}}`
	ids := []string{s.spawn(me, `"model":"builtin/script"`)}
	ids = append(ids, s.under(me, ids[0], `"model":"builtin/script"`), s.under(me, ids[0], `"model":"builtin/script"`))
	s.refused("quota_exceeded", "", me, spawn)
	s.refused("quota_exceeded", "", ids[1], spawn)
	s.ask("another_root", spawn).is("status", `"READY"`)
	s.delegate(me, ids[0], `[{"result":{}}]`)
	s.await(me, ids[0]).is("status", `"COMPLETED"`)
	ids = append(ids, s.spawn(me, `"model":"builtin/script"`))
	s.refused("quota_exceeded", "", me, spawn)
	s.delegate(me, ids[0], `[{"sleep_ms":3600000}]`) // four are live now
	s.refused("quota_exceeded", "", me, spawn)
	s.cancel(me, ids[1])
	s.refused("quota_exceeded", "", me, spawn)
	s.terminate(me, ids[2])
	s.spawn(me, `"model":"m"`)
	s.refused("quota_exceeded", "", me, spawn)
}

// TestS0_10_DefaultQuota: 256 live subagents, and not one more.
func TestS0_10_DefaultQuota(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 256 {
		s.spawn(me, `"model":"m"`)
	}
	s.refused("quota_exceeded", "", me, `{"type":"SUBAGENT_SPAWN_REQ","agent":{"name":"n","model":"m"}}`)
	if n := s.entries(); n != 256 {
		t.Errorf("the registry has %d subagents, want 256", n)
	}
}

// TestS0_11_List: "answers the whole tree of the caller, closed and terminated too, in creation order, and
// takes optional filters (status, parent_agent_id, limit, cursor)."
func TestS0_11_List(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want []string
	for i := range 12 {
		parent := me
		if i%3 == 2 {
			parent = want[i-2]
		}
		want = append(want, s.under(me, parent, `"model":"builtin/script"`))
	}
	s.spawn("another_root", `"model":"m"`)
	s.delegate(me, want[11], `[{"result":{}}]`)
	s.await(me, want[11])
	s.delegate(me, want[1], `[{"fail":"no"}]`)
	s.await(me, want[1])
	s.cancel(me, want[4])
	s.terminate(me, want[7])
	check := func(agent, filter string, want ...string) string {
		t.Helper()
		list := s.ask(agent, `{"type":"SUBAGENT_LIST_REQ"%s}`, filter)
		var got []string
		for _, one := range list.list("subagents") {
			got = append(got, one.text("subagent_id"))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("LIST%s by %s gives\n%v, want\n%v", filter, agent, got, want)
		}
		if !list.has("cursor") {
			return ""
		}
		return list.text("cursor")
	}
	check(me, "", want...)
	check(me, `,"status":"COMPLETED"`, want[11])
	check(me, `,"status":["FAILED","CANCELLED","TERMINATED"]`, want[1], want[4], want[7])
	check(me, `,"status":"WAITING"`)
	check(me, `,"parent_agent_id":`+quote(want[0]), want[2])
	check(me, `,"parent_agent_id":"sub_00000000"`)
	check(me, `,"limit":12`, want...)
	cursor := check(me, `,"limit":5`, want[:5]...)
	cursor = check(me, `,"limit":5,"cursor":`+quote(cursor), want[5:10]...)
	if cursor = check(me, `,"limit":5,"cursor":`+quote(cursor), want[10:]...); cursor != "" {
		t.Errorf("the last page has a cursor, %q", cursor)
	}
	cursor = check(me, `,"limit":1,"status":["FAILED","TERMINATED"]`, want[1])
	check(me, `,"limit":1,"status":["FAILED","TERMINATED"],"cursor":`+quote(cursor), want[7])
	check(want[0], "", want[2])
	check(want[2], "")
	check("nobody", "")
}

// TestS0_11_Pages: a LIST past 512 KiB pages itself, and nothing is lost between two pages.
func TestS0_11_Pages(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want, got []string
	for range 20 {
		want = append(want, s.spawn(me, `"model":"m","system_prompt":`+quote(strings.Repeat("é", 30_000))))
	}
	cursor, pages := "", 0
	for more := true; more; pages++ {
		list := s.ask(me, `{"type":"SUBAGENT_LIST_REQ"%s}`, cursor)
		for _, one := range list.list("subagents") {
			got = append(got, one.text("subagent_id"))
		}
		if more = list.has("cursor"); more {
			cursor = `,"cursor":` + list.at("cursor").raw
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || pages < 3 {
		t.Errorf("%d pages give\n%v, want\n%v", pages, got, want)
	}
}
