package a2e

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

var (
	errNotUTF8  = errors.New("invalid UTF-8")
	errTrailing = errors.New("there is something behind the JSON value")
)

// check says why data is not one JSON value in UTF-8 that is nested at most levels deep. Everything
// else in this package may trust what it has let pass.
func check(data []byte, levels int) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	s := scanner{data: data, levels: levels}
	s.space()
	if !s.value() {
		if s.levels < 0 {
			return fmt.Errorf("nested deeper than %d levels at byte %d", levels, s.i)
		}
		return fmt.Errorf("invalid JSON at byte %d", s.i)
	}
	s.space()
	if s.i < len(data) {
		return errTrailing
	}
	return nil
}

// A scanner walks over JSON, the grammar being that of RFC 8259. Its methods report whether what they
// are named after stands at i, and move behind it; else i stays near the offence. At the end of the
// data, peek is 0, which is no byte of JSON.
type scanner struct {
	data   []byte
	i      int
	levels int // that may still be opened; below 0: too many were
}

func (s *scanner) peek() byte {
	if s.i < len(s.data) {
		return s.data[s.i]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) space() {
	for s.i < len(s.data) && isSpace(s.data[s.i]) {
		s.i++
	}
}

func (s *scanner) value() bool {
	switch c := s.peek(); c {
	case '{':
		return s.list('}', true)
	case '[':
		return s.list(']', false)
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// list is an array, or an object when its values have keys.
func (s *scanner) list(end byte, keys bool) bool {
	if s.levels--; s.levels < 0 {
		return false
	}
	s.i++
	s.space()
	if s.take(end) {
		s.levels++
		return true
	}
	for {
		if keys && !s.key() || !s.value() {
			return false
		}
		s.space()
		if s.take(end) {
			s.levels++
			return true
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

func (s *scanner) key() bool {
	if s.peek() != '"' || !s.text() {
		return false
	}
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	return true
}

func (s *scanner) text() bool {
	for s.i++; s.i < len(s.data); s.i++ {
		switch c := s.data[s.i]; {
		case c == '"':
			s.i++
			return true
		case c < ' ':
			return false
		case c == '\\':
			s.i++
			if !s.escape() {
				return false
			}
		}
	}
	return false
}

// escape is what follows a backslash. It stays on the last byte of it.
func (s *scanner) escape() bool {
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if hex4(s.data[s.i+1:]) < 0 {
			return false
		}
		s.i += 4
		return true
	}
	return false
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.data[s.i:], []byte(w)) {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

// digits is at least one digit.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.data) && '0' <= s.data[s.i] && s.data[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func trim(data []byte) []byte { return bytes.Trim(data, " \n\t\r") }

// skip gives the index behind the value that starts at i, or len(d) if it has no end. It looks at
// quotes and brackets only, so it also finds its way through data that is broken elsewhere.
func skip(d []byte, i int) int {
	depth := 0
	for ; i < len(d); i++ {
		switch d[i] {
		case '"':
			i = skipText(d, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\n', '\t', '\r':
			continue
		default:
			i = skipWord(d, i) - 1
		}
		if depth <= 0 {
			return min(i+1, len(d))
		}
	}
	return len(d)
}

// skipText gives the index behind the string that starts at i.
func skipText(d []byte, i int) int {
	for i++; i < len(d); i++ {
		switch d[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(d)
}

// skipWord gives the index behind the number or word that starts at i.
func skipWord(d []byte, i int) int {
	for i < len(d) && !isSpace(d[i]) && !bytes.ContainsRune([]byte(`,:]}["{`), rune(d[i])) {
		i++
	}
	return i
}
