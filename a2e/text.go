package a2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote reads a JSON string. It reports false for one that no Go string can hold: half a surrogate
// pair, which would otherwise make different texts equal. It also bears strings that are broken.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), utf8.Valid(raw)
	}
	b := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			b = append(b, raw...)
			break
		}
		b = append(b, raw[:i]...)
		c, n := unescape(raw[i:])
		if n == 0 {
			return "", false
		}
		b = utf8.AppendRune(b, c)
		raw = raw[i+n:]
	}
	return string(b), utf8.Valid(b)
}

// unescape reads the escape that raw starts with and gives its length, or 0 if it is not one.
func unescape(raw []byte) (c rune, n int) {
	if len(raw) < 2 {
		return 0, 0
	}
	if raw[1] != 'u' {
		if i := strings.IndexByte(`"\/bfnrt`, raw[1]); i >= 0 {
			return rune("\"\\/\b\f\n\r\t"[i]), 2
		}
		return 0, 0
	}
	c = hex4(raw[2:])
	if c < 0 {
		return 0, 0
	}
	if !utf16.IsSurrogate(c) {
		return c, 6
	}
	if len(raw) < 12 || raw[6] != '\\' || raw[7] != 'u' {
		return 0, 0
	}
	if c = utf16.DecodeRune(c, hex4(raw[8:])); c == utf8.RuneError {
		return 0, 0
	}
	return c, 12
}

// hex4 reads four hex digits; without them it is -1.
func hex4(d []byte) rune {
	if len(d) < 4 {
		return -1
	}
	var n rune
	for _, c := range d[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		n = n<<4 | rune(c)
	}
	return n
}

const hexDigits = "0123456789abcdef"

// appendText appends s as a JSON string and escapes only what must be. What is not UTF-8 becomes
// U+FFFD.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if j := strings.IndexByte("\"\\\b\f\n\r\t", c); j >= 0 {
			b = append(b, '\\', `"\bfnrt`[j])
		} else {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// appendRaw appends a value that is valid JSON; one with line breaks is compacted, so that a message
// stays one line. In valid JSON, line breaks stand between tokens only.
func appendRaw(b, raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(b, raw...)
	}
	out := bytes.NewBuffer(b)
	if err := json.Compact(out, raw); err != nil { // not valid JSON after all: leave it to the reader
		return append(b, raw...)
	}
	return out.Bytes()
}
