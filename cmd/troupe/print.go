package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/troupehq/troupe/a2e"
)

// json reports whether JSON was asked for.
func (a *app) json() bool { return a.output.value == "json" }

// print prints v as one line of JSON.
func (a *app) print(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// say prints a line of text.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// result prints a result, text as text.
func (a *app) result(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	return a.say("%s", strings.TrimRight(textOf(raw), "\n"))
}

// table prints rows in columns.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t")) // what fails is told by Flush
	}
	return w.Flush()
}

// textOf is what a person wants to read of a result: its summary, output or answer when that is text,
// else its JSON.
func textOf(raw json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) == nil {
		for _, name := range []string{"summary", "output", "answer"} {
			var text string
			if json.Unmarshal(fields[name], &text) == nil && text != "" {
				return text
			}
		}
	}
	return string(raw)
}

// glyphs stand for statuses.
var glyphs = map[a2e.Status]string{
	a2e.Ready:      "○",
	a2e.Running:    "●",
	a2e.Waiting:    "◐",
	a2e.Completed:  "✓",
	a2e.Failed:     "✗",
	a2e.Cancelled:  "⊘",
	a2e.Terminated: "■",
}

// age is a duration as people say it.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
