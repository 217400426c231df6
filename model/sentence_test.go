package model_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/model"
)

// Each line is a block; "|" stands where it should be cut.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		"One sentence.|Two sentences!|Three?|Four",
		"Dr. Smith met Mr. J. R. Jones at 3.14 p.m. on Jan. 5.|They talked.",
		"He lives in the U.S. and works.|She left the U.S.|The flight was long.",
		"Use tools, e.g. NATS, i.e. a bus, etc.|Then rest.",
		"See Fig. 3 and Sec. 4.|No. 7 is out.|She said no.|Then she left.",
		"Acme Inc. Chairman Bob spoke.|He works for Acme Inc.|The shares rose.",
		"So did I.|Then came plan B.|The end.",
		"\"Really?\" he asked.|\"Yes!\" she said.|(It was so.)|Fine.",
		"Wait... what?|Well...|Now then…|So.",
		"What?!|No way!!|Yahoo! is a name.",
		"Go to example.com/a.b?c=d. now or v1.2.3 of x.|Done.",
		"1. First things first.|2. Second.",
		"It was 1848.|Revolutions broke out.",
		"He paid.|$5 is cheap.|— So it goes.",
		"今日は晴れです。|明日は雨でしょう！|本当？|はい",
		"「行こう。」と言った。|彼は去った。",
		"你好。|他说：“走吧。”|我们走了！",
		"Das ist z. B. Herr Dr. Meier, bzw. Frau Nr. 5.|Der Rest fehlt.",
		"¿Qué?|¡Nada!|Vale.",
		"यह एक वाक्य है।|यह दूसरा है।",
		"هل هذا صحيح؟|نعم.",
		"DON'T.|Stop.",
		"Ends with 'quotes.'|New one.",
	} {
		block := strings.ReplaceAll(want, "|", " ")
		if strings.ContainsAny(want, "。！") {
			block = strings.ReplaceAll(want, "|", "")
		}
		if got := strings.Join(model.Split(block), "|"); got != want {
			t.Errorf("sentences are cut in other places\nwant %s\ngot  %s", want, got)
		}
	}
}

func TestSplitCutsEndlessSentences(t *testing.T) {
	t.Parallel()
	for _, block := range []string{strings.Repeat("word ", 1000), strings.Repeat("x", 5000), strings.Repeat("…", 5000) + "x"} {
		for _, s := range model.Split(strings.TrimSpace(block)) {
			if n := utf8.RuneCountInString(s); n > model.MaxSentence+1 && !strings.HasPrefix(s, "…") {
				t.Errorf("a sentence of %d runes was not cut; the bound is %d", n, model.MaxSentence)
			}
		}
	}
}

func TestInline(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a [link](http://x.y/(z) \"t\") b":       "a link b",
		"a [ref][1] and [sic] [x]":               "a ref and [sic] [x]",
		"[![badge](a.svg)](b) text ![img](c)":    " text ",
		"note[^1] here":                          "note here",
		"**bold** *it* __b__ _i_ ~~gone~~":       "bold it b i gone",
		"snake_case 2*3 2 * 3 a_b_c ~5":          "snake_case 2*3 2 * 3 a_b_c ~5",
		"sub_ and <ns>_registry, *.go, inbox.*":  "sub_ and <ns>_registry, *.go, inbox.*",
		"`sub_` and `<ns>_registry`, `__init__`": "sub_ and <ns>_registry, __init__",
		"_a_, (_b_) **_c_** ***d** e* **f* _g":   "a, (b) c d e *f _g",
		"use `a_*b*` and ``x ` y``":              "use a_*b* and x ` y",
		"open ` tick":                            "open ` tick",
		`\*not\* \[x\](y) C:\dir`:                `*not* [x](y) C:\dir`,
		"<b>x</b><br/>y <https://a.b> <ns>.x":    "x y https://a.b <ns>.x",
		"1 < 2 and 3 > 2":                        "1 < 2 and 3 > 2",
		"[open (paren](x":                        "[open (paren](x",
		"[a [b](c) d](e)":                        "a b d",
		`<a href="x" title="y">text</a>`:         "text",
		"\\":                                     "\\",
		"plain":                                  "plain",
	} {
		if got := model.Inline(in); got != want {
			t.Errorf("Inline(%q)\nwant %q\ngot  %q", in, want, got)
		}
	}
}

func TestBlocksOfMarkdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  string
		want string // sentences, "# " before headings, with "|" between
	}{
		"headings":          {"# One #\nText here.\n\nTwo\n===\nMore text.\n\n#hashtag stays", "# One|Text here.|# Two|More text.|#hashtag stays"},
		"rule, not title":   {"A paragraph ends.\n-----\nNext one.", "A paragraph ends.|Next one."},
		"wrapped lines":     {"A line\nthat goes on.\nAnother\n1848. Year.", "A line that goes on.|Another 1848.|Year."},
		"wrapped CJK":       {"日本語の\n文章です。\n次の文。", "日本語の文章です。|次の文。"},
		"lists":             {"Intro:\n- one\n  more of one\n* two\n1. three\n2) four\n- [x] five\n- - six", "Intro:|one more of one|two|three|four|five|six"},
		"quotes":            {"> Quoted\n> text.\n>> Deeper.", "Quoted text.|Deeper."},
		"fences":            {"Before.\n```go\ncode(). Call\n```\nAfter.\n~~~\nx\n```\n~~~\nEnd.", "Before.|After.|End."},
		"fence in a quote":  {"> Say:\n> ```\n> code\n> ```\n> done.", "Say:|done."},
		"unclosed fence":    {"Before.\n```\nAfter.", "Before.|After."},
		"inline fence":      {"```x``` is code.", "x is code."},
		"table":             {"Before.\n\n| a | b |\n|---|:-:|\n| c. D | d |\n\nAfter.\n\na | b\n-|-\nc | d\nEnd.", "Before.|After.|End."},
		"a bar is no table": {"Use a | b to pipe.", "Use a | b to pipe."},
		"comments":          {"A <!-- no. No --> b.\n<!--\nno\n\nno -->\nC.\n\nUse `<!--` here. <!-- open", "A b.|C.|Use <!-- here.|<!-- open"},
		"definitions":       {"See [x].\n\n[x]: http://y.z\n[^1]: A note.", "See [x].|A note."},
		"front matter":      {"---\ntitle: x\ntags:\n  - a\n---\nText.", "Text."},
		"no front matter":   {"---\nText goes on.\n---\nMore.", "Text goes on.|More."},
		"entities":          {"Tom &amp; Jerry&nbsp;&lt;3 &#33;", "Tom & Jerry <3 !"},
		"code only":         {"```\nHello there. Bye.\n```", "Hello there.|Bye."},
		"table only":        {"| a | b |\n|---|---|\n| c | d |", "a b|c d"},
		"line ends":         {"One\r\ntwo.\rThree.\r\n\r\nFour", "One two.|Three.|Four"},
		"nothing":           {" \n\n---\n***\n<!-- x -->\n...\n", ""},
		"invalid UTF-8":     {"A\xff b.", "A\uFFFD b."},
		"byte order mark":   {"\uFEFF# Title", "# Title"},
	} {
		texts, headings := model.Sentences(c.doc)
		for i := range texts {
			if headings[i] {
				texts[i] = "# " + texts[i]
			}
		}
		if got := strings.Join(texts, "|"); got != c.want {
			t.Errorf("%s: %q reads as other sentences\nwant %s\ngot  %s", name, c.doc, c.want, got)
		}
	}
}

// FuzzSentences holds the splitter to losing nothing of a block, and the reader to giving clean
// sentences of any bytes.
func FuzzSentences(f *testing.F) {
	for _, s := range []string{"", "A. B! C?", "Dr. Smith e.g. U.S. 3.14", "「。」と", "[a](b) `c` **d** <e>", "# x\n- y\n```\nz\n```",
		"|a|b|\n|-|-|\n|c|d|", "<!-- x --> <!--", "---\na: b\n---\n", "[[[](](]]", "\xff\xfe", strings.Repeat("x ", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		block := strings.Join(strings.Fields(strings.ToValidUTF8(doc, "?")), " ")
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := squeeze(strings.Join(model.Split(block), "")); got != squeeze(block) {
			t.Errorf("splitting lost or added text\nof  %q\ngot %q", squeeze(block), got)
		}
		texts, _ := model.Sentences(doc)
		for _, s := range texts {
			if !utf8.ValidString(s) || s != strings.Join(strings.Fields(s), " ") {
				t.Errorf("a sentence should be valid UTF-8 with single spaces: %q", s)
			}
			if !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
				t.Errorf("a sentence should have a letter or number in it: %q", s)
			}
		}
		again, _ := model.Sentences(doc)
		if !slices.Equal(texts, again) {
			t.Errorf("the same document gave other sentences the second time")
		}
	})
}
