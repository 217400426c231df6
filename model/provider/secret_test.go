package provider

import (
	"strings"
	"testing"
)

// A key is hidden whole, and where a text is cut off inside it: a stream that goes on, or a message that is too long.
func TestKeyIsHiddenWhereItIsCut(t *testing.T) {
	t.Parallel()
	const key = "sk-canary-0123456789abcdef"
	s := secretsOf(key)
	for n := shortest; n <= len(key); n++ {
		for _, text := range []string{"it is " + key[:n], "it is " + key[:n] + "…", "it is " + key[:n] + "… and more", "twice " + key + " and " + key[:n]} {
			if got := s.hide(text); strings.Contains(got, key[:shortest]) || !strings.Contains(got, "[key]") {
				t.Errorf("%q is told as %q", text, got)
			}
		}
	}
	if got := s.hide("a text without one…"); got != "a text without one…" {
		t.Errorf("a text without a key became %q", got)
	}
}
