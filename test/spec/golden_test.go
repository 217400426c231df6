package spec

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/troupehq/troupe/host"
	"github.com/troupehq/troupe/model"
	"github.com/troupehq/troupe/test/natstest"
)

var update = flag.Bool("update", false, "rewrite the golden files with what the host says")

// What differs from run to run. The ids of subagents are told by the spawns' answers.
var (
	stamp   = regexp.MustCompile(`"ts":[0-9.]+`)
	eventID = regexp.MustCompile(`"id":"[0-9]+\.[0-9]+"`)
)

// A golden plays a file of wire lines:
//
//	> AGENT REQUEST   is asked; ids of subagents in it stand for those that were given out
//	< ANSWER          has to be the answer; the id in a spawn's answer names the subagent from here on
//	! EVENT           has to be the next event of its subagent
//
// Lines that begin with "#" are for the reader.
type golden struct {
	s     *stage
	w     *watch
	ids   *strings.Replacer // from the file to the host
	names *strings.Replacer // and back
	known []string
	last  string         // the answer to the last request
	seen  map[string]int // events so far, by the host's id
	out   bytes.Buffer
}

func (g *golden) bind(name, id string) {
	for i := 0; i < len(g.known); i += 2 {
		if g.known[i] == name {
			return
		}
	}
	g.known = append(g.known, name, id)
	var back []string
	for i := 0; i < len(g.known); i += 2 {
		back = append(back, g.known[i+1], g.known[i])
	}
	g.ids, g.names = strings.NewReplacer(g.known...), strings.NewReplacer(back...)
}

func (g *golden) line(n int, line string) {
	t := g.s.t
	t.Helper()
	mark, rest, _ := strings.Cut(line, " ")
	got := line
	switch mark {
	case ">":
		agent, request, _ := strings.Cut(rest, " ")
		g.last = g.s.Ask(t, agent, g.ids.Replace(request))
	case "<":
		if want := (answer{t, rest}); want.has("subagent_id") && strings.Contains(rest, "SPAWN_RESP") {
			g.bind(want.text("subagent_id"), parse(t, g.last).text("subagent_id"))
		}
		got = "< " + g.names.Replace(g.last)
	case "!":
		id := g.ids.Replace(answer{t, rest}.text("subagent_id"))
		n := g.seen[id]
		natstest.Await(t, "event "+line, func() bool { return len(g.w.of(id)) > n })
		g.seen[id]++
		got = "! " + g.names.Replace(g.w.of(id)[n].raw)
	}
	if mark != ">" {
		got = eventID.ReplaceAllString(stamp.ReplaceAllString(got, `"ts":0`), `"id":"J.N"`)
	}
	g.out.WriteString(got + "\n")
	if got != line && !*update {
		t.Errorf("line %d\ngot  %s\nwant %s", n, got, line)
	}
}

// TestS0_1_WireLines: "12 messages": the page lists 14 and an event. All 15 exist.
func TestS0_1_WireLines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	types := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range regexp.MustCompile(`"type":"(SUBAGENT_[A-Z_]+)"`).FindAllStringSubmatch(string(data), -1) {
			types[typ[1]] = true
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			play(t, file, string(data))
		})
	}
	if len(types) != 15 {
		t.Errorf("the golden files show %d of the 15 types of message: %v", len(types), types)
	}
}

func play(t *testing.T, file, lines string) {
	s := startWith(t, host.Config{}, map[string]model.Model{
		"claude-3.5-sonnet": ends(`{"summary":"Quantum computing advances in 2024 include...","papers":["paper1","paper2","paper3"]}`),
	})
	g := &golden{s: s, w: s.watch(me), ids: strings.NewReplacer(), names: strings.NewReplacer(), seen: map[string]int{}}
	for i, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		g.line(i+1, line)
	}
	s.noDeadLetters()
	if *update {
		if err := os.WriteFile(file, g.out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
