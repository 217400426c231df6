package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/model"
)

// A summary is the result of builtin/extractive.
type summary struct {
	Summary   string `json:"summary"`
	Sentences int    `json:"sentences"`
}

func extract(t testing.TB, r *model.Request) summary {
	t.Helper()
	resp := step(t, lookup(t, "builtin/extractive"), r)
	var s summary
	if err := json.Unmarshal(resp.Result, &s); err != nil || !resp.Done {
		t.Fatalf("a summary should end the session with a result, got %+v: %v", resp, err)
	}
	return s
}

func TestExtractiveReadsTheDocuments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]summary{
		"": {}, " \n": {}, "Sum up: <document></document>": {},
		"Only <b>one</b> sentence.": {"Only one sentence.", 1},
		"Sum up. <document title=\"x\">First. Second.</document> Be brief. <document>Third</document> Thanks.": {"First. Second. Third", 3},
		"Sum up.\n<document>\n```\nopen\n</document>\n<document>\nNot code.\n</document>":                      {"open\n\nNot code.", 2},
		"Sum up <document>never closed.":                   {"Sum up <document>never closed.", 1},
		"<documents>no</documents>":                        {"<documents>no</documents>", 1},
		"<document>One.</document> and <document>open one": {"One.", 1},
		"# Title\n\nText.":                                 {"Title\n\nText.", 2},
	} {
		if got := extract(t, request(in)); got != want {
			t.Errorf("%q should come back whole\nwant %+v\ngot  %+v", in, want, got)
		}
	}
}

func TestExtractiveReadsTheMessageWhenThereIsNoTask(t *testing.T) {
	t.Parallel()
	r := request("")
	r.Task, r.History = nil, []model.Entry{message(2, 1, "boss", `"Read this. <document>Yes. No!</document>"`)}
	if got := extract(t, r); got != (summary{"Yes. No!", 2}) {
		t.Errorf("the document of the message should be summed up, got %+v", got)
	}
}

func TestExtractiveCountsSentences(t *testing.T) {
	t.Parallel()
	doc := readme(t)
	for meta, want := range map[string]int{`null`: 5, `1`: 1, `3.0`: 3, `100`: 100} {
		if got := extract(t, request(doc, "sentences", meta)); got.Sentences != want {
			t.Errorf("sentences=%s should give %d sentences of a long document, got %d", meta, want, got.Sentences)
		}
	}
	if got := extract(t, request(doc)); got.Sentences != 5 {
		t.Errorf("5 sentences are the default, got %d", got.Sentences)
	}
	for _, bad := range []string{`0`, `101`, `-1`, `1.5`, `"5"`, `[]`, `true`, `1e99`} {
		resp := step(t, lookup(t, "builtin/extractive"), request(doc, "sentences", bad))
		if want := "task.metadata.sentences: " + bad + " is not an integer from 1 to 100"; resp.Fail != want || resp.Done {
			t.Errorf("sentences=%s should fail with %q, got %+v", bad, want, resp)
		}
	}
}

func TestSummariseBounds(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 101} {
		if _, err := model.Summarise(t.Context(), "x", n); !errors.Is(err, actor.SchemaViolation) {
			t.Errorf("%d sentences should be a schema_violation, got %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := model.Summarise(ctx, "A sentence.", 1); s != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted summary should be an error and no text, got %q and %v", s, err)
	}
}

// A countdown is a context that is cancelled when it has been looked at so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestSummariseCanBeInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	doc := readme(t)
	whole := &countdown{Context: t.Context(), left: 1 << 30}
	if _, err := model.Summarise(whole, doc, 5); err != nil {
		t.Fatal(err)
	}
	looks := 1<<30 - whole.left
	if looks < 200 {
		t.Errorf("a long document should look at its context often, but did so only %d times", looks)
	}
	for n := 0; n < looks; n += 7 {
		if s, err := model.Summarise(&countdown{Context: t.Context(), left: n}, doc, 5); s != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at look %d of %d, it should give up at once, got %q and %v", n, looks, s, err)
		}
	}
}

func readme(t testing.TB) string {
	t.Helper()
	doc, err := os.ReadFile("testdata/readme.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func TestSummaryOfARealDocument(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/readme.summary")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := model.Chosen(t.Context(), readme(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(chosen, "\n") + "\n"; got != string(want) {
		t.Errorf("the summary of readme.md changed; if the new one reads better, keep it in readme.summary\nwant\n%s\ngot\n%s", want, got)
	}
	texts, _ := model.Sentences(readme(t))
	for _, s := range texts {
		for _, trace := range []string{"Permission is hereby", "func main", "](", "```", "<!--", "-->", "img.shields.io", "| ---", "**"} {
			if strings.Contains(s, trace) {
				t.Errorf("a sentence still has %q of the markup, code or comments in it: %q", trace, s)
			}
		}
	}
}

func TestHeadingsAndRepetitionComeLast(t *testing.T) {
	t.Parallel()
	check := func(doc string, limit int, want ...string) {
		t.Helper()
		got, err := model.Chosen(t.Context(), doc, limit)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d sentences of %q\nwant %q\ngot  %q (%v)", limit, doc, want, got, err)
		}
	}
	check("# A title\n\nFirst text. Second text.", 3, "A title", "First text.", "Second text.")
	check("# A title\n\nFirst text. Second text.", 2, "First text.", "Second text.")
	check("# A title\n\nOnly text.\n\n# Another", 2, "Only text.")
	check("# Apples\n# Apples\n# Pears", 2, "Apples", "Pears")
	check(strings.Repeat("The same again. ", 50), 5, "The same again.")
}

// A merge sums summaries up again: what was a block, or a name, has to be one still.
func TestASummaryCanBeSummedUp(t *testing.T) {
	t.Parallel()
	doc := "# Purged by subject\n\n- Ids begin with `sub_`\n- Entries of `<ns>_registry` go to *.go files\n\nSettled ones __leave__ snake_case."
	want := "Purged by subject\n\nIds begin with sub_\n\nEntries of <ns>_registry go to *.go files\n\nSettled ones leave snake_case."
	for range 2 {
		got, err := model.Summarise(t.Context(), doc, 5)
		if err != nil || got != want {
			t.Fatalf("the summary of %q\nwant %q\ngot  %q (%v)", doc, want, got, err)
		}
		doc = got
	}
}

func TestSummaryOfDocumentsWithoutSpaces(t *testing.T) {
	t.Parallel()
	doc := "分散システムでは障害が避けられない。障害から回復する仕組みが必要である。昼食はうどんだった。" +
		"分散システムの回復には記録が必要である。記録があれば障害から回復できる。空は青い。"
	got, err := model.Summarise(t.Context(), doc, 3)
	if err != nil || strings.Contains(got, "うどん") || strings.Contains(got, "空") || strings.Contains(got, " ") || strings.Count(got, "。") != 3 {
		t.Errorf("the three sentences on recovery belong together, without spaces; got %q (%v)", got, err)
	}
}

func TestSummaryOfALargeDocumentDrawsOnAllOfIt(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := 0; b.Len() < 1<<20; i++ {
		fmt.Fprintf(&b, "Part%d speaks of topic%d and of subject%d at some length. ", i/1000, i%97, i%89)
	}
	got, err := model.Chosen(t.Context(), b.String(), 100)
	if err != nil || len(got) != 100 {
		t.Fatalf("a document of 1 MB should give 100 sentences, got %d (%v)", len(got), err)
	}
	parts := map[string]bool{}
	for _, s := range got {
		parts[strings.Fields(s)[0]] = true
	}
	if len(parts) < 8 {
		t.Errorf("100 sentences of a document of 18 parts should come from many of them, not from %d", len(parts))
	}
}

// A hostile document is one that makes a careless reader look ahead again and again. One that looked
// as far as the end each time would take minutes over these.
func TestHostileDocumentsStayLinear(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{"[", "](", "[](", "`a``b", "<!--", "<!-- -->", "<a", "*a ", "x", ". ", "A. ", "<document>", "<document ",
		">", "a\n", "|-", "!\"", "- ", "&", "\\", "\n```\n", "~~~\n", "[x]: ", "漢", "\xff"} {
		doc := strings.Repeat(piece, (128<<10)/len(piece))
		extract(t, request(doc))
	}
}

// TestPropertySummaryIsASubsequence: whatever the document, the chosen sentences are sentences of
// it, in its order, no more than asked for, and the same on every run.
func TestPropertySummaryIsASubsequence(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"the actor ", "a durable inbox ", "keeps order ", "Dr. ", "e.g. ", "U.S. ", "3.14 ", "fails", "wakes up"}),
		rapid.SampledFrom([]string{". ", "! ", "? ", "。", "… ", ".\" ", "\n", "\n\n", "\n# ", "\n- ", "\n1. ", "\n> ", "\n```\n", " | ", "\n|-|-|\n", "\n---\n"}),
		rapid.SampledFrom([]string{"[link](x) ", "**bold** ", "`code` ", "<!-- c -->", "<!--", "<br>", "&amp;", "漢字", "かな"}),
		rapid.StringN(0, 12, 40),
	)
	rapid.Check(t, func(t *rapid.T) {
		doc := strings.Join(rapid.SliceOfN(piece, 0, 300).Draw(t, "pieces"), "")
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		chosen, err := model.Chosen(context.Background(), doc, limit)
		if err != nil {
			t.Fatalf("no document should be an error: %v", err)
		}
		all, _ := model.Sentences(doc)
		if len(all) <= limit && !slices.Equal(chosen, all) {
			t.Fatalf("a document of %d sentences should come back whole for %d\nwant %q\ngot  %q", len(all), limit, all, chosen)
		}
		if len(chosen) > limit || len(chosen) == 0 && len(all) > 0 {
			t.Fatalf("%d sentences of %d for a limit of %d", len(chosen), len(all), limit)
		}
		rest := all
		for _, s := range chosen {
			i := slices.Index(rest, s)
			if i < 0 {
				t.Fatalf("%q is not a sentence of the document, or not in its order\nof  %q\ngot %q", s, all, chosen)
			}
			rest = rest[i+1:]
		}
		if again, _ := model.Chosen(context.Background(), doc, limit); !slices.Equal(again, chosen) {
			t.Fatalf("the same document gave another summary\nfirst  %q\nsecond %q", chosen, again)
		}
	})
}

func BenchmarkSummarise1MB(b *testing.B) {
	doc := readme(b)
	doc = strings.Repeat(doc+"\n\n", 1<<20/len(doc))
	for b.Loop() {
		if _, err := model.Summarise(b.Context(), doc, 5); err != nil {
			b.Fatal(err)
		}
	}
}
