package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actor"
)

// minSecret is the shortest value that is concealed in a text: a shorter one stands in any.
const minSecret = 4

// concealed takes values out of an error that should not have them. Its Kind and its causes stay.
func concealed(err error, values map[string]string) error {
	if err == nil {
		return nil
	}
	clean := &actor.Error{Kind: actor.KindOf(err)}
	cause := err
	var e *actor.Error
	if errors.As(err, &e) {
		clean.Op, clean.ID, clean.Field, cause = e.Op, e.ID, conceal(e.Field, values), e.Err
	}
	if cause != nil {
		clean.Err = &quiet{conceal(cause.Error(), values), cause}
	}
	return clean
}

// A quiet error says less than its cause.
type quiet struct {
	text  string
	cause error
}

func (q *quiet) Error() string { return q.text }
func (q *quiet) Unwrap() error { return q.cause }

func conceal(text string, values map[string]string) string {
	var all []string
	for _, v := range values {
		if len(v) >= minSecret {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be within another
	for _, v := range all {
		text = strings.ReplaceAll(text, v, "[value]")
	}
	return text
}
