package subjects

import (
	"errors"
	"fmt"
	"strings"
)

const (
	escape     = '='
	emptyToken = "=" // an escape with nothing behind it, which no name is encoded as
	hexDigits  = "0123456789ABCDEF"
)

// EncodeToken makes one token for subjects and keys out of any text: every byte outside
// [A-Za-z0-9_-] becomes "=XX", upper-case hex. The empty text becomes "=". Different texts give
// different tokens. A text that needs no escape is returned as it is.
func EncodeToken(s string) string {
	size := encodedLen(s)
	if size == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(size)
	writeToken(&b, s)
	return b.String()
}

// DecodeToken gives the text that EncodeToken made the token of. It refuses everything that
// EncodeToken does not produce, so that no text has two tokens.
func DecodeToken(token string) (string, error) {
	s, err := decode(token)
	if err != nil {
		return "", refuse("subjects.DecodeToken", "token", err)
	}
	return s, nil
}

// encodedLen is the length of EncodeToken(s).
func encodedLen(s string) int {
	if s == "" {
		return len(emptyToken)
	}
	size := len(s)
	for i := range len(s) {
		if !plain(s[i]) {
			size += 2
		}
	}
	return size
}

// writeToken writes EncodeToken(s).
func writeToken(b *strings.Builder, s string) {
	if s == "" {
		b.WriteString(emptyToken)
		return
	}
	start := 0
	for i := range len(s) {
		c := s[i]
		if plain(c) {
			continue
		}
		b.WriteString(s[start:i])
		b.WriteByte(escape)
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&0xF])
		start = i + 1
	}
	b.WriteString(s[start:])
}

// decode is DecodeToken with a bare error.
func decode(token string) (string, error) {
	switch token {
	case "":
		return "", errors.New("a token is empty")
	case emptyToken:
		return "", nil
	}
	i := 0
	for i < len(token) && plain(token[i]) {
		i++
	}
	if i == len(token) {
		return token, nil
	}
	var b strings.Builder
	b.Grow(len(token))
	b.WriteString(token[:i])
	for i < len(token) {
		if c := token[i]; plain(c) {
			b.WriteByte(c)
			i++
			continue
		}
		c, err := decodeEscape(token[i:])
		if err != nil {
			return "", fmt.Errorf("token %q: %w", token, err)
		}
		b.WriteByte(c)
		i += len("=XX")
	}
	return b.String(), nil
}

// decodeEscape reads the escape that s begins with.
func decodeEscape(s string) (byte, error) {
	if s[0] != escape {
		return 0, fmt.Errorf("byte 0x%02X needs an escape", s[0])
	}
	if len(s) < len("=XX") {
		return 0, errors.New("an escape is cut short")
	}
	hi, lo := strings.IndexByte(hexDigits, s[1]), strings.IndexByte(hexDigits, s[2])
	if hi < 0 || lo < 0 {
		return 0, fmt.Errorf("%q is not an escape in upper-case hex", s[:3])
	}
	c := byte(hi<<4 | lo)
	if plain(c) {
		return 0, fmt.Errorf("%q escapes a byte that needs none", s[:3])
	}
	return c, nil
}

// plain reports whether c stands for itself in a token.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
