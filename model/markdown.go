package model

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A block is a run of prose that sentences do not cross: a paragraph, a list item, a heading.
type block struct {
	text    string // white space collapsed, no markup
	heading bool
}

// A reader turns Markdown, or plain text, into blocks. It goes over the lines once. Comments,
// fenced code, tables, link definitions, rules and front matter are left out; with code set, code
// and tables are read as if they were prose, for documents that have nothing else. Indentation
// means nothing, since plain text indents for many reasons.
type reader struct {
	code   bool
	lines  []string
	next   int // the line to be read next
	para   []string
	number int // of the last ordered list item
	blocks []block

	openComment bool         // no "-->" is left in the lines ahead
	openFence   map[byte]int // no closing fence of at least this length is left
}

var (
	atxHeading  = regexp.MustCompile(`^#{1,6}(?:[ \t]+|$)`)
	underline   = regexp.MustCompile(`^(?:=+|-{2,})$`)
	rule        = regexp.MustCompile(`^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	tableRule   = regexp.MustCompile(`^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$`)
	definition  = regexp.MustCompile(`^\[([^\]]{1,300})\]:[ \t]*`)
	bullet      = regexp.MustCompile(`^[-*+•][ \t]+(?:\[[ xX]\][ \t]+)?`)
	ordinal     = regexp.MustCompile(`^([0-9]{1,9})[.)][ \t]+`)
	frontMatter = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+:(?:[ \t]|$)|[ \t]|-[ \t]|#|$)`)
)

// blocksOf reads a document. A document of code or tables only is read as prose.
func blocksOf(doc string) []block {
	doc = strings.TrimPrefix(strings.ToValidUTF8(doc, "\uFFFD"), "\uFEFF")
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n\n").Replace(doc), "\n")
	for _, code := range []bool{false, true} {
		r := &reader{code: code, lines: lines, openFence: map[byte]int{}}
		r.skipFrontMatter()
		for r.next < len(r.lines) {
			r.line(r.take())
		}
		r.flush(false)
		if len(r.blocks) > 0 {
			return r.blocks
		}
	}
	return nil
}

// skipFrontMatter passes over "---", keys and values, "---" at the very start.
func (r *reader) skipFrontMatter() {
	if strings.TrimRight(r.lines[0], " \t") != "---" {
		return
	}
	for i, l := range r.lines[1:] {
		if strings.TrimRight(l, " \t") == "---" {
			r.next = i + 2
			return
		}
		if !frontMatter.MatchString(l) {
			return
		}
	}
}

// take gives the next line without the comments that start in it; a comment may end lines ahead.
// A "<!--" in a code span, or one that is never closed, is text.
func (r *reader) take() string {
	rest := r.lines[r.next]
	r.next++
	var b strings.Builder
	ticks := 0
	for !r.openComment {
		i := strings.Index(rest, "<!--")
		if i < 0 {
			break
		}
		b.WriteString(rest[:i])
		ticks += strings.Count(rest[:i], "`")
		rest = rest[i:]
		if ticks%2 == 1 {
			b.WriteString(rest[:4])
			rest = rest[4:]
			continue
		}
		after, ok := r.closeComment(rest[4:])
		if !ok {
			r.openComment = true
			break
		}
		b.WriteByte(' ')
		rest = after
	}
	if b.Len() == 0 {
		return rest
	}
	b.WriteString(rest)
	return b.String()
}

// closeComment gives what follows the next "-->", in rest or in the lines ahead.
func (r *reader) closeComment(rest string) (after string, ok bool) {
	for at := r.next; ; at++ {
		if i := strings.Index(rest, "-->"); i >= 0 {
			r.next = at
			return rest[i+3:], true
		}
		if at == len(r.lines) {
			return "", false
		}
		rest = r.lines[at]
	}
}

// line reads one line: it ends the block before it, starts one, or goes on with it.
func (r *reader) line(l string) {
	l = strings.TrimSpace(l)
	for strings.HasPrefix(l, ">") {
		l = strings.TrimLeft(l[1:], " \t")
	}
	switch {
	case l == "":
		r.flush(false)
	case r.fence(l), r.table(l):
	case atxHeading.MatchString(l):
		r.flush(false)
		r.para = append(r.para, strings.TrimRight(strings.TrimLeft(l, "#"), "# \t"))
		r.flush(true)
	case underline.MatchString(l) && len(r.para) > 0:
		r.flush(r.titled())
	case rule.MatchString(l):
		r.flush(false)
	default:
		r.prose(l)
	}
}

// titled reports whether what stands above an underline is a title. In plain text a line of dashes
// may just as well end a paragraph.
func (r *reader) titled() bool {
	const longest = 120
	return len(r.para) == 1 && len(r.para[0]) <= longest && !strings.HasSuffix(r.para[0], ".")
}

// prose reads a line of a paragraph or of a list item.
func (r *reader) prose(l string) {
	if m := definition.FindStringSubmatch(l); m != nil {
		r.flush(false)
		if !strings.HasPrefix(m[1], "^") {
			return // where a link goes
		}
		l = l[len(m[0]):] // a footnote
	}
	for depth := 0; depth < 8; depth++ {
		n := r.marker(l)
		if n == 0 {
			break
		}
		r.flush(false)
		l = l[n:]
	}
	if l = strings.TrimSuffix(l, `\`); l != "" {
		r.para = append(r.para, l)
	}
}

// marker gives the length of the list marker that l starts with. Inside a paragraph a number is a
// marker only if it starts a list or goes on with one: a wrapped line may start with "1848. ".
func (r *reader) marker(l string) int {
	if n := len(bullet.FindString(l)); n > 0 {
		return n
	}
	m := ordinal.FindStringSubmatch(l)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || len(r.para) > 0 && n != 1 && n != r.number+1 {
		return 0
	}
	r.number = n
	return len(m[0])
}

// fence passes over fenced code that opens at l. Without an end the fence is left out, and what
// follows is text.
func (r *reader) fence(l string) bool {
	mark, n := fenceOf(l)
	if n == 0 || mark == '`' && strings.Contains(l[n:], "`") {
		return false
	}
	r.flush(false)
	if unclosed, ok := r.openFence[mark]; r.code || ok && n >= unclosed {
		return true
	}
	for i := r.next; i < len(r.lines); i++ {
		end := strings.TrimLeft(r.lines[i], "> \t")
		if m, k := fenceOf(end); m == mark && k >= n && strings.TrimSpace(end[k:]) == "" {
			r.next = i + 1
			return true
		}
	}
	r.openFence[mark] = n
	return true
}

// fenceOf gives the character and the length of the fence that l starts with.
func fenceOf(l string) (mark byte, n int) {
	if l == "" || l[0] != '`' && l[0] != '~' {
		return 0, 0
	}
	n = len(l) - len(strings.TrimLeft(l, l[:1]))
	if n < 3 {
		return 0, 0
	}
	return l[0], n
}

// table passes over a row with bars at both ends, or a whole table whose head is l.
func (r *reader) table(l string) bool {
	row := len(l) > 1 && l[0] == '|' && l[len(l)-1] == '|'
	head := strings.Contains(l, "|") && r.next < len(r.lines) && isTableRule(r.lines[r.next])
	if !row && !head {
		return false
	}
	r.flush(false)
	if r.code {
		r.row(l)
	}
	for head && r.next < len(r.lines) && strings.Contains(r.lines[r.next], "|") {
		if l := strings.TrimSpace(r.take()); r.code {
			r.row(l)
		}
	}
	return true
}

// row reads a row of a table as prose.
func (r *reader) row(l string) {
	if !isTableRule(l) {
		r.para = append(r.para, strings.ReplaceAll(l, "|", " "))
		r.flush(false)
	}
}

func isTableRule(l string) bool {
	l = strings.TrimLeft(strings.TrimSpace(l), "> \t")
	return strings.Contains(l, "|") && strings.Contains(l, "-") && tableRule.MatchString(l)
}

// flush ends the block, if one is open. What has neither letter nor number in it is no block.
func (r *reader) flush(heading bool) {
	if len(r.para) == 0 {
		return
	}
	text := strings.Join(strings.Fields(html.UnescapeString(inline(joinLines(r.para)))), " ")
	r.para = r.para[:0]
	if strings.ContainsFunc(text, isWordRune) {
		r.blocks = append(r.blocks, block{text: text, heading: heading})
	}
}

// joinLines puts the lines of a paragraph together, with a space where the script uses spaces.
func joinLines(lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			before, _ := utf8.DecodeLastRuneInString(lines[i-1])
			after, _ := utf8.DecodeRuneInString(l)
			if !unspaced(before) || !unspaced(after) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(l)
	}
	return b.String()
}

// unspaced reports whether r belongs to a script, or its punctuation, that sets no spaces.
func unspaced(r rune) bool {
	return r >= 0x3000 && r <= 0x303F || r >= 0xFF01 && r <= 0xFF65 || isDense(r)
}

// isDense reports whether r is a letter of a script that sets no spaces between words.
func isDense(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
