// Package script plays state machines from files that read as transcripts: what is put in, and what
// comes out. It is for tests only.
//
//	# a comment
//	delegate t1 from=parent_1
//	----
//	accepted RUNNING
package script

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

// Updating reports whether the tests were run with -update.
func Updating() bool { return *update }

// A block of a script is some comments, what is put in, a line "----", and what came out. A blank
// line ends it.
type block struct {
	line     int
	comments []string
	input    []string
	want     string
}

// Run runs every script under testdata. Each gets its own play, which turns the input of a block
// into output.
func Run(t *testing.T, start func() func(input []string) (string, error)) {
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

// A Command is one line of input: a name, words, and options of the form key=value. A value with
// spaces is quoted, or is JSON.
type Command struct {
	Name  string
	Words []string
	Opts  map[string]string
	Lines []string // indented, behind it
}

// Parse reads the lines of a block as commands.
func Parse(input []string) ([]*Command, error) {
	var all []*Command
	for _, line := range input {
		if strings.HasPrefix(line, " ") {
			if len(all) == 0 {
				return nil, fmt.Errorf("nothing stands before %q", line)
			}
			last := all[len(all)-1]
			last.Lines = append(last.Lines, strings.TrimSpace(line))
			continue
		}
		words := split(line)
		c := &Command{Name: words[0], Opts: map[string]string{}}
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, "="); ok && !strings.ContainsAny(k, `{["`) {
				c.Opts[k] = v
			} else {
				c.Words = append(c.Words, w)
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

// Take gives an option and crosses it off.
func (c *Command) Take(key, or string) string {
	v, ok := c.Opts[key]
	delete(c.Opts, key)
	if !ok {
		return or
	}
	if text, err := strconv.Unquote(v); err == nil && key != "content" {
		return text
	}
	return v
}

// Number is Take for a number.
func (c *Command) Number(key string, or uint64) uint64 {
	n, err := strconv.ParseUint(c.Take(key, fmt.Sprint(or)), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", c.Name, key, err))
	}
	return n
}

// Duration is Take for a duration; without the option it is 0.
func (c *Command) Duration(key string) time.Duration {
	d, err := time.ParseDuration(c.Take(key, "0s"))
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", c.Name, key, err))
	}
	return d
}

// Is reports whether a word was given, and crosses it off.
func (c *Command) Is(word string) bool {
	for i, w := range c.Words {
		if w == word {
			c.Words = append(c.Words[:i], c.Words[i+1:]...)
			return true
		}
	}
	return false
}

// Word gives the first word and crosses it off.
func (c *Command) Word() string {
	if len(c.Words) == 0 {
		return ""
	}
	w := c.Words[0]
	c.Words = c.Words[1:]
	return w
}

// IDs is Take for ids with commas between.
func (c *Command) IDs(key string) []actor.ID {
	var ids []actor.ID
	for _, s := range strings.Split(c.Take(key, ""), ",") {
		if s != "" {
			ids = append(ids, actor.ID(s))
		}
	}
	return ids
}

// Left is an error when something of the command was not understood.
func (c *Command) Left() error {
	if len(c.Words)+len(c.Opts) > 0 {
		return fmt.Errorf("%s: not understood: %v %v", c.Name, c.Words, c.Opts)
	}
	return nil
}

// Session reads "id/session".
func Session(s string) (actor.ID, uint64) {
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
