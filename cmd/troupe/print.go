package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/troupehq/troupe/a2e"
)

// json reports whether JSON was asked for.
func (a *app) json() bool { return a.output.value == "json" }

// print prints v as one line of JSON. On a terminal what would move the cursor there is escaped.
func (a *app) print(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if terminal(a.stdout) {
		text = escaped(text)
	}
	_, err := a.stdout.WriteString(text)
	return err
}

// escaped is JSON with the characters that clean takes out of texts written as escapes.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != unicode.ReplacementChar && cleaned(r) == unicode.ReplacementChar {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// say prints a line of text.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// result prints a result, text as text: exactly where it is piped, without what would move the cursor on
// a terminal.
func (a *app) result(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	return a.say("%s", shown(strings.TrimRight(textOf(raw), "\n"), terminal(a.stdout)))
}

// shown is a text of several lines as it may be written to where it goes.
func shown(text string, terminal bool) string {
	if !terminal {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return cleaned(r)
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// table prints rows in columns.
func (a *app) table(rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += pad(cell, widths[i]) + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := a.stdout.WriteString(b.String())
	return err
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
