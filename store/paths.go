package store

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

// MaxPathBytes is the longest path of a file.
const MaxPathBytes = 1024

// cleanPath gives the one spelling of a path: relative, with single slashes, without "." in it.
// What could lead elsewhere, ".." or a slash in front, is refused rather than mended.
func cleanPath(p string) (string, error) {
	bad := func(why string) (string, error) {
		return "", refuse(actor.SchemaViolation, "path", "%.100q %s", p, why)
	}
	switch {
	case !utf8.ValidString(p):
		return bad("is not valid UTF-8")
	case strings.HasPrefix(p, "/"):
		return bad("is not relative")
	case strings.ContainsFunc(p, unicode.IsControl):
		return bad("has control characters in it")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return bad(`has ".." in it`)
		}
	}
	clean := path.Clean(p)
	switch {
	case clean == ".":
		return bad("names no file")
	case len(clean) > MaxPathBytes:
		return bad(fmt.Sprintf("has %d bytes, at most %d are allowed", len(clean), MaxPathBytes))
	}
	return clean, nil
}

// freePath gives p, or the first of p-2, p-3 … that is not taken; the number stands in front of the
// extension. Where the path would get too long, the name in front of the number is cut.
func freePath(p string, taken func(string) bool) string {
	if !taken(p) {
		return p
	}
	dir, name := path.Split(p)
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if stem == "" { // ".profile"
		stem, ext = name, ""
	}
	for n := 2; ; n++ {
		end := fmt.Sprintf("-%d%s", n, ext)
		free := dir + cut(stem, MaxPathBytes-len(dir)-len(end)) + end
		switch {
		case len(free) > MaxPathBytes: // without the name, too
			dir, stem, ext = "", "file", ""
		case !taken(free):
			return free
		}
	}
}

// cut shortens a name to at most n bytes, between characters, and to at least one of them.
func cut(name string, n int) string {
	for len(name) > max(n, 0) {
		_, size := utf8.DecodeLastRuneInString(name)
		if size == len(name) {
			break
		}
		name = name[:len(name)-size]
	}
	return name
}
