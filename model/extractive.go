package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
)

const (
	defaultSentences = 5
	maxSentences     = 100
)

// extractive ends at once with {"summary": text, "sentences": n}: the sentences that say most of a
// document, as [Summarise] chooses them. The documents are what stands between "<document …>" and
// "</document>" in the instruction, or the whole instruction when nothing does. A session that a
// message opened has the message's text for an instruction. task.metadata.sentences, from 1 to 100,
// says how many sentences there may be; any other value fails.
type extractive struct{}

func (extractive) Step(ctx context.Context, r *Request) (*Response, error) {
	limit := int64(defaultSentences)
	if r.Task != nil && !isNull(r.Task.Metadata["sentences"]) {
		var err error
		if limit, err = integerOf(r.Task.Metadata["sentences"], 1, maxSentences); err != nil {
			return &Response{Fail: "task.metadata.sentences: " + err.Error()}, nil
		}
	}
	list, err := summarise(ctx, documents(told(r)), int(limit))
	if err != nil {
		var e *actor.Error
		if errors.As(err, &e) {
			e.ID = r.Thread
		}
		return nil, err
	}
	result, err := encode(struct {
		Summary   string `json:"summary"`
		Sentences int    `json:"sentences"`
	}{joinSentences(list), len(list)})
	if err != nil {
		return nil, err
	}
	return &Response{Done: true, Result: result}, nil
}

// Summarise gives the sentences of a text that say most of it, in the order of the text: LexRank,
// that is PageRank over a graph of sentences that share words, with a bonus for the first tenth of
// the text. The text may be Markdown; its markup, code, tables and comments are left out. Scripts
// without spaces are understood. The same text gives the same summary everywhere.
//
// At most so many sentences come back, 5 when sentences is 0; outside of 0 to 100 it is a
// schema_violation. A text of no more sentences comes back whole. Of a longer one headings come
// only when it has nothing else, and a sentence that says much the same as a better one only to fill
// up. Of more than 400 sentences, 400 are ranked: the first 40, and the heaviest by tf-idf of 360
// equal stretches of the rest. A sentence of over 1,000 letters counts as several.
//
// Sentences are put together with a space. Where a block ends without a terminator, as headings do, a
// blank line follows, so that it stays a block of its own in whatever reads the summary; a piece of a
// sentence that was too long has a line break behind it.
func Summarise(ctx context.Context, text string, sentences int) (string, error) {
	if sentences < 0 || sentences > maxSentences {
		return "", &actor.Error{Op: "model.Summarise", Kind: actor.SchemaViolation, Field: "sentences",
			Err: fmt.Errorf("%d is not from 0 to %d", sentences, maxSentences)}
	}
	if sentences == 0 {
		sentences = defaultSentences
	}
	list, err := summarise(ctx, []string{text}, sentences)
	if err != nil {
		return "", err
	}
	return joinSentences(list), nil
}

// summarise gives at most limit sentences of the documents, in order.
func summarise(ctx context.Context, docs []string, limit int) ([]sentence, error) {
	if err := interrupted(ctx, "model.Summarise", ""); err != nil {
		return nil, err
	}
	all, err := sentencesOf(ctx, docs)
	if err != nil || len(all) <= limit {
		return all, err
	}
	var list []sentence
	for _, s := range all {
		if !s.heading {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		list = all
	}
	if len(list) <= limit {
		return list, nil
	}
	return best(ctx, list, limit)
}

// best ranks the candidates and gives the limit best of them, in order.
func best(ctx context.Context, list []sentence, limit int) ([]sentence, error) {
	c, err := newCorpus(ctx, list)
	if err != nil {
		return nil, err
	}
	places := c.ranked()
	similar, err := c.similarities(ctx, places)
	if err != nil {
		return nil, err
	}
	rank, err := lexRank(ctx, similar)
	if err != nil {
		return nil, err
	}
	candidates := make([]sentence, len(places))
	for k, i := range places {
		candidates[k] = list[i]
		rank[k] *= prior(i, len(list), len(c.bags[i]) >= fullWords && terminated(list[i].text))
	}
	var out []sentence
	for _, k := range choose(candidates, rank, similar, limit) {
		out = append(out, candidates[k])
	}
	return out, nil
}

// terminated reports whether a sentence ends as one, quotes and brackets aside.
func terminated(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(s, isCloser))
	return isTerminator(last)
}

// joinSentences makes a text of sentences.
func joinSentences(list []sentence) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			before := list[i-1].text
			last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(before, isCloser))
			switch {
			case !isTerminator(last) && list[i-1].last:
				b.WriteString("\n\n")
			case !isTerminator(last):
				b.WriteByte('\n')
			case !isWide(last):
				b.WriteByte(' ')
			}
		}
		b.WriteString(s.text)
	}
	return b.String()
}

// documents gives what stands between "<document …>" and "</document>" in text, or text itself when
// nothing does. An element that is not closed does not count.
func documents(text string) []string {
	const start, end = "<document", "</document>"
	var docs []string
	for rest := text; ; {
		i := strings.Index(rest, start)
		if i < 0 {
			break
		}
		rest = rest[i+len(start):]
		if rest == "" || rest[0] != '>' && !unicode.IsSpace(rune(rest[0])) {
			continue // "<documents>"
		}
		open := strings.IndexByte(rest, '>')
		if open < 0 {
			break
		}
		closed := strings.Index(rest[open:], end)
		if closed < 0 {
			break
		}
		docs = append(docs, rest[open+1:open+closed])
		rest = rest[open+closed+len(end):]
	}
	if docs == nil {
		return []string{text}
	}
	return docs
}
