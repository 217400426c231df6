package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

const redrawEvery = 100 * time.Millisecond

// terminal reports whether a file is one.
func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A screen redraws a frame of lines in place.
type screen struct {
	out   *os.File
	drawn []string
}

// size is that of the terminal.
func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 1 || height < 2 {
		return 80, 24
	}
	return width, height
}

// follow draws frame, again and again, until ctx ends, and a last time then. A frame has room for all
// lines but the one that the cursor stands in.
func (s *screen) follow(ctx context.Context, frame func(width, height int) []string) error {
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		over := ctx.Err() != nil
		width, height := s.size()
		if err := s.draw(frame(width, height-1), width); err != nil || over {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// draw writes the lines over those of the frame before.
func (s *screen) draw(lines []string, width int) error {
	var b strings.Builder
	if len(s.drawn) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", len(s.drawn))
	}
	b.WriteString("\r")
	for i, line := range lines {
		lines[i] = clip(line, width)
		b.WriteString(lines[i] + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = lines
	_, err := s.out.WriteString(b.String())
	return err
}

// clip cuts a text to a number of columns, between characters, and marks the cut.
func clip(s string, columns int) string {
	used, cut := 0, 0
	for i, r := range s {
		w := columnsOf(r)
		if used+w > columns {
			return s[:cut] + "…"
		}
		used += w
		if used < columns {
			cut = i + len(string(r)) // there is still room for the mark
		}
	}
	return s
}

// pad fills a text up with spaces.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(0, to-columns(s))) }

// columns is how many columns a text takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// clean takes out of a text what would move the cursor or turn the line around.
func clean(s string) string {
	return strings.Map(cleaned, s)
}

// cleaned is the character that stands for r in a text that was cleaned.
func cleaned(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return unicode.ReplacementChar
	}
	return r
}

// wide are the characters that take two columns: East Asian ones and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115F, 1}, {0x231A, 0x231B, 1}, {0x23E9, 0x23EC, 1}, {0x2614, 0x2615, 1}, {0x26A1, 0x26A1, 1},
		{0x2705, 0x2705, 1}, {0x2728, 0x2728, 1}, {0x274C, 0x274C, 1}, {0x2753, 0x2755, 1}, {0x2E80, 0x303E, 1},
		{0x3041, 0x33FF, 1}, {0x3400, 0x4DBF, 1}, {0x4E00, 0x9FFF, 1}, {0xA000, 0xA4CF, 1}, {0xA960, 0xA97F, 1},
		{0xAC00, 0xD7A3, 1}, {0xF900, 0xFAFF, 1}, {0xFE30, 0xFE6F, 1}, {0xFF00, 0xFF60, 1}, {0xFFE0, 0xFFE6, 1},
	},
	R32: []unicode.Range32{
		{0x16FE0, 0x18DFF, 1}, {0x1B000, 0x1B2FF, 1}, {0x1F004, 0x1F004, 1}, {0x1F0CF, 0x1F0CF, 1}, {0x1F18E, 0x1F19A, 1},
		{0x1F200, 0x1F64F, 1}, {0x1F680, 0x1F6FF, 1}, {0x1F7E0, 0x1F7EB, 1}, {0x1F900, 0x1FAFF, 1}, {0x20000, 0x3FFFD, 1},
	},
}

// columnsOf is how many columns a character takes.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
