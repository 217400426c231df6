package model

import (
	"context"
	"strings"
	"unicode"
)

const (
	maxSentence = 1000 // runes; a longer one is cut at a space, if there is one
	maxWord     = 32   // runes of a word that are looked at
)

// A sentence is one unit of a summary. A heading is one too, but is the last to be chosen.
type sentence struct {
	text    string
	heading bool
	last    bool // of its block
}

// sentencesOf gives the sentences of the documents, in order. It is interrupted between blocks.
func sentencesOf(ctx context.Context, docs []string) ([]sentence, error) {
	var list []sentence
	for _, doc := range docs {
		for _, b := range blocksOf(doc) {
			if err := interrupted(ctx, "model.Summarise", ""); err != nil {
				return nil, err
			}
			before := len(list)
			for _, text := range split(b.text) {
				if strings.ContainsFunc(text, isWordRune) {
					list = append(list, sentence{text: text, heading: b.heading})
				}
			}
			if len(list) > before {
				list[len(list)-1].last = true
			}
		}
	}
	return list, nil
}

// split cuts a block into sentences, losing nothing but the spaces between them. White space is
// collapsed already.
func split(block string) []string {
	s := splitter{runes: []rune(block)}
	var list []string
	start, space := 0, -1
	cut := func(end int) {
		if text := strings.TrimSpace(string(s.runes[start:end])); text != "" {
			list = append(list, text)
		}
		if start, space = end, -1; start < len(s.runes) && s.runes[start] == ' ' {
			start++
		}
	}
	for i := 0; i < len(s.runes); {
		r := s.runes[i]
		if r == ' ' {
			space = i
		}
		switch end := i + 1; {
		case isTerminator(r):
			if end = s.closed(i); s.ends(start, i, end) {
				cut(end)
			}
			i = end
		case i-start >= maxSentence && space > start:
			cut(space)
			i = end
		case i-start >= maxSentence:
			cut(end)
			i = end
		default:
			i = end
		}
	}
	cut(len(s.runes))
	return list
}

// A splitter judges the terminators of one block.
type splitter struct{ runes []rune }

func isTerminator(r rune) bool {
	return r == '.' || r == '!' || r == '?' || r == '…' || r >= 0x80 && unicode.Is(unicode.STerm, r)
}

// isWide reports whether a terminator needs no space behind it.
func isWide(r rune) bool { return r == '。' || r == '！' || r == '？' || r == '｡' || r == '．' }

// isCloser reports whether r may stand between a terminator and the space after the sentence.
func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// isOpener reports whether r may stand before the first word of a sentence.
func isOpener(r rune) bool {
	return r == '"' || r == '\'' || r == '¿' || r == '¡' || unicode.In(r, unicode.Ps, unicode.Pi)
}

// closed gives the end of the terminators at i and of the quotes and brackets that close with them.
func (s splitter) closed(i int) int {
	for i < len(s.runes) && isTerminator(s.runes[i]) {
		i++
	}
	for i < len(s.runes) && isCloser(s.runes[i]) {
		i++
	}
	return i
}

// ends reports whether the sentence that began at start ends with the terminators at [i, end).
func (s splitter) ends(start, i, end int) bool {
	if end == len(s.runes) {
		return true
	}
	after := s.runes[end]
	if isWide(s.runes[i]) {
		return !strings.ContainsRune("と、，,", after) // 「…。」と goes on
	}
	if after != ' ' {
		return false // "3.14", "example.com", "e.g.,"
	}
	next, following := s.word(end + 1)
	if next == 0 || unicode.IsLower(next) {
		return false
	}
	if s.runes[i] != '.' || i+1 < end && isTerminator(s.runes[i+1]) {
		return isWordRune(next) || isOpener(next)
	}
	return s.periodEnds(start, i, next, following)
}

// word gives the first rune of the word at i, behind any openers, and the word in lower case. The
// rune is 0 when there is none.
func (s splitter) word(i int) (first rune, text string) {
	for n := 0; i < len(s.runes) && n < 8 && isOpener(s.runes[i]); n++ {
		i++
	}
	if i >= len(s.runes) {
		return 0, ""
	}
	end := i
	for end < len(s.runes) && end-i < maxWord && isWordRune(s.runes[end]) {
		end++
	}
	return s.runes[i], strings.ToLower(string(s.runes[i:end]))
}

// periodEnds judges the single period at i by the word before it and the one after the space.
func (s splitter) periodEnds(start, i int, next rune, following string) bool {
	if !isWordRune(next) {
		return unicode.In(next, unicode.Pd, unicode.S) || strings.ContainsRune("*•#@", next)
	}
	before := s.wordBefore(start, i)
	text := strings.ToLower(string(before))
	switch {
	case alwaysGoesOn[text]:
		return false
	case goesOnToNumber[text] && unicode.IsDigit(next):
		return false
	case mayGoOn[text] || isAcronym(before):
		return starters[following]
	case len(before) == 1 && unicode.IsUpper(before[0]) && before[0] != 'I':
		return starters[following] && len(following) > 1 // "J. Smith", but "Plan B. The"
	case i-len(before) == start && isNumber(before):
		return false // "1. First"
	}
	return true
}

// wordBefore gives the word that ends at i, with the periods and apostrophes inside it.
func (s splitter) wordBefore(start, i int) []rune {
	from := i
	for from > start && i-from < maxWord {
		if r := s.runes[from-1]; r == ' ' || r != '\'' && isOpener(r) {
			break
		}
		from--
	}
	for from < i && s.runes[from] == '\'' {
		from++
	}
	return s.runes[from:i]
}

// isAcronym recognises "U.S.S.R" before its last period: single letters with periods between.
func isAcronym(word []rune) bool {
	if len(word) < 3 || len(word)%2 == 0 {
		return false
	}
	for i, r := range word {
		if i%2 == 0 && !unicode.IsLetter(r) || i%2 == 1 && r != '.' {
			return false
		}
	}
	return true
}

func isNumber(word []rune) bool {
	for _, r := range word {
		if !unicode.IsDigit(r) {
			return false
		}
	}
	return len(word) > 0
}
