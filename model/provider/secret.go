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

// hide takes the key out of a text.
func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[key]")
	}
	return text
}
