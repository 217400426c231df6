package model

import "context"

// Sentences gives what a summary of a document may be made of; the second list tells which of them
// are headings.
func Sentences(doc string) (texts []string, headings []bool) {
	list, _ := sentencesOf(context.Background(), []string{doc}) // cannot be interrupted
	for _, s := range list {
		texts, headings = append(texts, s.text), append(headings, s.heading)
	}
	return texts, headings
}

// Chosen gives the sentences of a summary of a document.
func Chosen(ctx context.Context, doc string, limit int) ([]string, error) {
	list, err := summarise(ctx, []string{doc}, limit)
	var texts []string
	for _, s := range list {
		texts = append(texts, s.text)
	}
	return texts, err
}

// Split, Inline and MaxSentence are for the tests of the splitter.
var (
	Split  = split
	Inline = inline
)

const MaxSentence = maxSentence
