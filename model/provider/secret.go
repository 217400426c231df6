package provider

import (
	"net/url"
	"strings"
)

// secrets are the spellings of a key that must not be told.
type secrets []string

// shortest is the length below which a key is none: a server that needs no key often gets a word for one.
const shortest = 8

func secretsOf(key string) secrets {
	if len(key) < shortest {
		return nil
	}
	s := secrets{key}
	if escaped := url.QueryEscape(key); escaped != key {
		s = append(s, escaped)
	}
	return s
}

// hide takes the key out of a text, and the beginning of one where the text is cut off: at its end, as a stream is that
// goes on, and before the sign of a cut.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[key]")
		for _, cut := range []string{"", "…"} {
			text = hideBeginning(text, secret, cut)
		}
	}
	return text
}

// hideBeginning takes the longest beginning of secret out of text where cut follows: at the end when cut is "".
func hideBeginning(text, secret, cut string) string {
	if cut != "" && !strings.Contains(text, cut) {
		return text
	}
	for n := len(secret) - 1; n >= shortest; n-- {
		part := secret[:n] + cut
		switch {
		case cut != "":
			text = strings.ReplaceAll(text, part, "[key]"+cut)
		case strings.HasSuffix(text, part):
			return text[:len(text)-n] + "[key]"
		}
	}
	return text
}
