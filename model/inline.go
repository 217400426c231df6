package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// How far ahead inline markup is looked for. What is not closed by then is text, which keeps a
// hostile document linear.
const (
	codeReach = 500
	linkReach = 1000
	tagReach  = 500
)

// tags are the HTML elements that are taken out. Any other "<name>" is a placeholder in somebody's
// prose and stays. True: it separates words.
var tags = map[string]bool{
	"a": false, "abbr": false, "b": false, "big": false, "cite": false, "code": false, "del": false,
	"em": false, "font": false, "i": false, "ins": false, "kbd": false, "mark": false, "q": false,
	"s": false, "small": false, "span": false, "strike": false, "strong": false, "sub": false,
	"sup": false, "tt": false, "u": false, "wbr": false,
	"article": true, "blockquote": true, "body": true, "br": true, "center": true, "dd": true,
	"details": true, "div": true, "dl": true, "dt": true, "footer": true, "h1": true, "h2": true,
	"h3": true, "h4": true, "h5": true, "h6": true, "head": true, "header": true, "hr": true,
	"html": true, "img": true, "li": true, "main": true, "nav": true, "ol": true, "p": true,
	"picture": true, "pre": true, "section": true, "source": true, "summary": true, "table": true,
	"tbody": true, "td": true, "th": true, "thead": true, "tr": true, "ul": true, "video": true,
}

// inline takes the Markdown out of a paragraph: a link leaves its text, a code span its code, an
// image nothing, emphasis what it emphasises, an escape the character. It goes over s once.
func inline(s string) string {
	if !strings.ContainsAny(s, "\\`[<*_~") {
		return s
	}
	in := inliner{s: s, pair: brackets(s), jump: map[int]int{}}
	in.out.Grow(len(s))
	for in.at < len(s) {
		n := strings.IndexAny(s[in.at:], "\\`![]<*_~")
		if n < 0 {
			break
		}
		in.out.WriteString(s[in.at : in.at+n])
		in.at += n
		in.markup()
	}
	in.out.WriteString(s[in.at:])
	return in.emphasised()
}

// An inliner is at one place of a paragraph.
type inliner struct {
	s    string
	at   int
	out  strings.Builder
	runs []run       // of emphasis, in out
	pair map[int]int // the "]" of a "["
	jump map[int]int // where a link goes on, by the place of its "]"
}

// A run is one of "*", "_" or "~~" that may open or close emphasis.
type run struct {
	at, length  int
	mark        byte
	open, close bool
	left        int // how many of its marks stay
}

// brackets pairs "[" and "]", passing over escaped ones.
func brackets(s string) map[int]int {
	pair := map[int]int{}
	var open []int
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			open = append(open, i)
		case ']':
			if len(open) > 0 {
				pair[open[len(open)-1]] = i
				open = open[:len(open)-1]
			}
		}
	}
	return pair
}

// markup reads what stands at a character that may be markup, and moves on by at least one byte.
func (in *inliner) markup() {
	rest := in.s[in.at:]
	switch c := rest[0]; c {
	case '\\':
		in.escape(rest)
	case '`':
		in.codeSpan(rest)
	case '!':
		if end, ok := in.linkEnd(in.at + 1); ok {
			in.at = end
			return
		}
		in.literal(1)
	case '[':
		in.link(rest)
	case ']':
		if end, ok := in.jump[in.at]; ok {
			in.at = end
			return
		}
		in.literal(1)
	case '<':
		in.tag(rest)
	default:
		in.emphasis(rest, c)
	}
}

func (in *inliner) literal(n int) {
	in.out.WriteString(in.s[in.at : in.at+n])
	in.at += n
}

func (in *inliner) escape(rest string) {
	if len(rest) > 1 && rest[1] < utf8.RuneSelf && unicode.In(rune(rest[1]), unicode.Punct, unicode.Symbol) {
		in.at++
	}
	in.literal(1)
}

func (in *inliner) codeSpan(rest string) {
	n := len(rest) - len(strings.TrimLeft(rest, "`"))
	reach := rest[n:min(len(rest), n+codeReach)]
	for from := 0; from < len(reach); {
		i := strings.IndexByte(reach[from:], '`')
		if i < 0 {
			break
		}
		i += from
		k := len(reach[i:]) - len(strings.TrimLeft(reach[i:], "`"))
		if k == n {
			in.out.WriteString(strings.TrimSpace(reach[:i]))
			in.at += n + i + n
			return
		}
		from = i + k
	}
	in.literal(n)
}

// link leaves out what is not the text of a link: the brackets and the destination. A reference to
// a footnote goes as a whole; brackets that are no link stay.
func (in *inliner) link(rest string) {
	end, paired := in.pair[in.at]
	if paired && strings.HasPrefix(rest, "[^") {
		in.at = end + 1
		return
	}
	if after, ok := in.linkEnd(in.at); ok {
		in.jump[end] = after
		in.at++
		return
	}
	in.literal(1)
}

// linkEnd gives the place behind the link whose "[" is at i: behind "(…)" or "[…]".
func (in *inliner) linkEnd(i int) (int, bool) {
	end, ok := in.pair[i]
	if !ok || end+1 >= len(in.s) {
		return 0, false
	}
	if in.s[end+1] == '[' {
		ref, ok := in.pair[end+1]
		return ref + 1, ok
	}
	if in.s[end+1] != '(' {
		return 0, false
	}
	deep := 0
	for k := end + 1; k < min(len(in.s), end+linkReach); k++ {
		switch in.s[k] {
		case '(':
			deep++
		case ')':
			if deep--; deep == 0 {
				return k + 1, true
			}
		}
	}
	return 0, false
}

// tag takes out an HTML tag, and the brackets around an address.
func (in *inliner) tag(rest string) {
	end := strings.IndexByte(rest[:min(len(rest), tagReach)], '>')
	if end < 0 {
		in.literal(1)
		return
	}
	inside := strings.TrimPrefix(rest[1:end], "/")
	if !strings.ContainsAny(inside, " \t") && (strings.Contains(inside, "://") || strings.HasPrefix(inside, "mailto:")) {
		in.out.WriteString(inside)
		in.at += end + 1
		return
	}
	name := strings.ToLower(inside)
	if i := strings.IndexAny(name, " \t\n/"); i >= 0 {
		name = name[:i]
	}
	separates, known := tags[name]
	if !known {
		in.literal(1)
		return
	}
	if separates {
		in.out.WriteByte(' ')
	}
	in.at += end + 1
}

// emphasis notes a run of "*", "_" or "~~" that leans on a word. Those in "2 * 3", "2*3", "snake_case"
// and "~5" are text.
func (in *inliner) emphasis(rest string, c byte) {
	n := len(rest) - len(strings.TrimLeft(rest, string(c)))
	before, _ := utf8.DecodeLastRuneInString(in.s[:in.at])
	after, _ := utf8.DecodeRuneInString(rest[n:])
	startsFree := in.at == 0 || unicode.IsSpace(before)
	endsFree := n == len(rest) || unicode.IsSpace(after)
	r := run{at: in.out.Len(), length: n, mark: c, open: !endsFree, close: !startsFree, left: n}
	switch c {
	case '*':
		if unicode.IsDigit(before) && unicode.IsDigit(after) {
			r.open, r.close = false, false
		}
		r.open = r.open && after != '.' && after != '/' // "*.go", "a.*.b", "*/5": patterns
	case '_':
		opens := r.open && (startsFree || isMark(before) || !isMark(after))
		closes := r.close && (endsFree || isMark(after) || !isMark(before))
		r.open, r.close = opens && (!closes || isMark(before)), closes && (!opens || isMark(after))
	case '~':
		r.open, r.close = r.open && n == 2, r.close && n == 2
	}
	if r.open || r.close {
		in.runs = append(in.runs, r)
	}
	in.literal(n)
}

// isMark reports whether r is punctuation or a symbol.
func isMark(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// emphasised gives what was written without the runs that open and close emphasis. One that has no
// partner is text: "sub_", "<ns>_registry" and "*.go" stay as they are.
func (in *inliner) emphasised() string {
	open := map[byte][]*run{}
	for i := range in.runs {
		r := &in.runs[i]
		waiting := open[r.mark]
		for r.close && r.left > 0 && len(waiting) > 0 {
			o := waiting[len(waiting)-1]
			n := min(o.left, r.left)
			o.left -= n
			r.left -= n
			if o.left == 0 {
				waiting = waiting[:len(waiting)-1]
			}
		}
		if r.open && r.left > 0 {
			waiting = append(waiting, r)
		}
		open[r.mark] = waiting
	}
	text, at := in.out.String(), 0
	var b strings.Builder
	for _, r := range in.runs {
		b.WriteString(text[at : r.at+r.left])
		at = r.at + r.length
	}
	b.WriteString(text[at:])
	return b.String()
}
