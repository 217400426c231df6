package host

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/actor"
)

var update = flag.Bool("update", false, "rewrite what the scripts under testdata expect")

// A block of a script is some comments, what is put in, a line "----", and what came out. A blank
// line ends it.
type block struct {
	line     int
	comments []string
	input    []string
	want     string
}

// runScripts runs every script under testdata. Each gets its own play, which turns the input of a block
// into output.
func runScripts(t *testing.T, start func() func(input []string) (string, error)) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts under testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file, start())
		})
	}
}

func runScript(t *testing.T, file string, play func([]string) (string, error)) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, b := range blocks(string(data)) {
		for _, c := range b.comments {
			told.WriteString(c + "\n")
		}
		if len(b.input) == 0 {
			continue
		}
		got, err := play(b.input)
		if err != nil {
			t.Fatalf("%s:%d: %s: %v", file, b.line, b.input[0], err)
		}
		if got != b.want && !*update {
			t.Errorf("%s:%d: the machine no longer does what the script says. Read both; -update takes the new one.\n%s\n---- the script says\n%s---- it does\n%s",
				file, b.line, strings.Join(b.input, "\n"), b.want, got)
		}
		told.WriteString(strings.Join(b.input, "\n") + "\n----\n" + got + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimRight(told.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func blocks(text string) []block {
	var all []block
	var b block
	output := false
	flush := func() {
		if len(b.input)+len(b.comments) > 0 {
			all = append(all, b)
		}
		b, output = block{}, false
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" && len(b.input) == 0:
			if len(b.comments) > 0 {
				b.comments = append(b.comments, "")
			}
		case line == "":
			flush()
		case output:
			b.want += line + "\n"
		case line == "----":
			output = true
		case strings.HasPrefix(line, "#") && len(b.input) == 0:
			b.comments = append(b.comments, line)
		default:
			if len(b.input) == 0 {
				b.line = i + 1
			}
			b.input = append(b.input, line)
		}
	}
	flush()
	return all
}

// A command is one line of input: a name, words, and options of the form key=value. A value with
// spaces is quoted, or is JSON.
type command struct {
	name  string
	words []string
	opts  map[string]string
	lines []string // indented, behind it
}

func commands(input []string) ([]*command, error) {
	var all []*command
	for _, line := range input {
		if strings.HasPrefix(line, " ") {
			if len(all) == 0 {
				return nil, fmt.Errorf("nothing stands before %q", line)
			}
			last := all[len(all)-1]
			last.lines = append(last.lines, strings.TrimSpace(line))
			continue
		}
		words := split(line)
		c := &command{name: words[0], opts: map[string]string{}}
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, "="); ok && !strings.ContainsAny(k, `{["`) {
				c.opts[k] = v
			} else {
				c.words = append(c.words, w)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// split cuts a line at the spaces that are not within quotes or brackets.
func split(line string) []string {
	var words []string
	depth, quoted, from := 0, false, 0
	for i, r := range line + " " {
		switch {
		case r == '"' && (i == 0 || line[i-1] != '\\'):
			quoted = !quoted
		case quoted:
		case r == '{' || r == '[':
			depth++
		case r == '}' || r == ']':
			depth--
		case r == ' ' && depth == 0:
			if i > from {
				words = append(words, line[from:i])
			}
			from = i + 1
		}
	}
	return words
}

// take gives an option and crosses it off.
func (c *command) take(key, or string) string {
	v, ok := c.opts[key]
	delete(c.opts, key)
	if !ok {
		return or
	}
	if text, err := strconv.Unquote(v); err == nil && key != "content" {
		return text
	}
	return v
}

func (c *command) number(key string, or uint64) uint64 {
	n, err := strconv.ParseUint(c.take(key, fmt.Sprint(or)), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", c.name, key, err))
	}
	return n
}

func (c *command) duration(key string) time.Duration {
	d, err := time.ParseDuration(c.take(key, "0s"))
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", c.name, key, err))
	}
	return d
}

// is reports whether a word was given, and crosses it off.
func (c *command) is(word string) bool {
	for i, w := range c.words {
		if w == word {
			c.words = append(c.words[:i], c.words[i+1:]...)
			return true
		}
	}
	return false
}

// word gives the first word and crosses it off.
func (c *command) word() string {
	if len(c.words) == 0 {
		return ""
	}
	w := c.words[0]
	c.words = c.words[1:]
	return w
}

func (c *command) ids(key string) []actor.ID {
	var ids []actor.ID
	for _, s := range strings.Split(c.take(key, ""), ",") {
		if s != "" {
			ids = append(ids, actor.ID(s))
		}
	}
	return ids
}

// left is an error when something of the command was not understood.
func (c *command) left() error {
	if len(c.words)+len(c.opts) > 0 {
		return fmt.Errorf("%s: not understood: %v %v", c.name, c.words, c.opts)
	}
	return nil
}

// session reads "id/session".
func session(s string) (actor.ID, uint64) {
	id, n, ok := strings.Cut(s, "/")
	if !ok {
		return actor.ID(s), 0
	}
	v, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		panic(err)
	}
	return actor.ID(id), v
}
