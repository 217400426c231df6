package store

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestPaths: what is accepted is spelled in one way and leads nowhere else; a free name is one.
func TestPaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"", ".", "..", "a", "b.txt", ".c", "é", strings.Repeat("x", 600)}), rapid.String())
		p := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "/")
		clean, err := cleanPath(p)
		if err != nil {
			return
		}
		if again, err := cleanPath(clean); err != nil || again != clean {
			t.Fatalf("%q is spelled %q, and that %q (%v)", p, clean, again, err)
		}
		if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || path.Join("/root", clean) != "/root/"+clean {
			t.Fatalf("%q leads out of the thread as %q", p, clean)
		}
		taken := map[string]bool{}
		for range 12 {
			free := freePath(clean, func(p string) bool { return taken[p] })
			if _, err := cleanPath(free); err != nil || taken[free] || len(free) > MaxPathBytes || !utf8.ValidString(free) {
				t.Fatalf("the next name for %q is %q (%v)", clean, free, err)
			}
			taken[free] = true
		}
	})
}
