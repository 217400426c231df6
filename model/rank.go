package model

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode"
)

const (
	maxRanked   = 400  // sentences in the similarity graph, so at most 160,000 edges
	leadRanked  = 40   // of these, taken from the start of the document
	damping     = 0.85 // as in PageRank
	maxRounds   = 100
	settled     = 1e-7 // the rounds end when the ranks move less than this, summed
	tooAlike    = 0.7  // a cosine above this says the same again
	fullWords   = 4    // a sentence of fewer words is a fragment
	fragmentCut = 0.5  // what a fragment's rank is worth
	leadBonus   = 0.5  // what the first sentence's rank gains, falling to 0 at a tenth of the text
)

// A term is a word of a sentence, with its weight there.
type term struct {
	id     int
	weight float64
}

// A corpus is the candidates of a summary as bags of words. Terms are numbered as they come and
// stand in that order, so that sums come out the same on every run.
type corpus struct {
	bags [][]term  // by candidate; weight is the count
	all  []float64 // by term, how often it occurs
	idf  []float64 // by term: log(candidates / candidates with it)
}

func newCorpus(ctx context.Context, list []sentence) (*corpus, error) {
	c := &corpus{bags: make([][]term, len(list))}
	ids := map[string]int{}
	var with []float64
	for i, s := range list {
		if err := interrupted(ctx, "model.Summarise", ""); err != nil {
			return nil, err
		}
		var bag []int
		for _, w := range terms(s.text) {
			id, ok := ids[w]
			if !ok {
				id = len(ids)
				ids[w] = id
				c.all, with = append(c.all, 0), append(with, 0)
			}
			c.all[id]++
			bag = append(bag, id)
		}
		slices.Sort(bag)
		for k, id := range bag {
			if k == 0 || bag[k-1] != id {
				c.bags[i] = append(c.bags[i], term{id: id})
				with[id]++
			}
			c.bags[i][len(c.bags[i])-1].weight++
		}
	}
	c.idf = make([]float64, len(with))
	for id, n := range with {
		c.idf[id] = math.Log(float64(len(list)) / n)
	}
	return c, nil
}

// terms gives the words of a text in lower case; where a script sets no spaces, its pairs of
// letters instead.
func terms(text string) []string {
	var list []string
	var word strings.Builder
	var dense []rune
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
			word.Reset()
		}
		if len(dense) == 1 {
			list = append(list, string(dense))
		}
		for i := 1; i < len(dense); i++ {
			list = append(list, string(dense[i-1:i+1]))
		}
		dense = dense[:0]
	}
	for _, r := range text {
		switch {
		case isDense(r):
			if word.Len() > 0 {
				end()
			}
			dense = append(dense, r)
		case isWordRune(r) || unicode.IsMark(r):
			if len(dense) > 0 {
				end()
			}
			word.WriteRune(unicode.ToLower(r))
		default:
			end()
		}
	}
	end()
	return list
}

// weight tells how much of what the whole document talks about a candidate has, by tf-idf with the
// document's term frequencies, for its length.
func (c *corpus) weight(i int) float64 {
	sum := 0.0
	for _, t := range c.bags[i] {
		sum += float64((1 + math.Log(c.all[t.id])) * c.idf[t.id])
	}
	return sum / float64(max(len(c.bags[i]), 2*fullWords))
}

// ranked gives the candidates that take part in the ranking, ascending. In a long document these
// are its first sentences and, of each of as many equal stretches of the rest as there is room for,
// the heaviest: a summary may draw on all parts, and the graph stays small.
func (c *corpus) ranked() []int {
	n := len(c.bags)
	list := make([]int, 0, min(n, maxRanked))
	if n <= maxRanked {
		for i := range n {
			list = append(list, i)
		}
		return list
	}
	for i := range leadRanked {
		list = append(list, i)
	}
	const stretches = maxRanked - leadRanked
	for k := range stretches {
		from := leadRanked + k*(n-leadRanked)/stretches
		to := leadRanked + (k+1)*(n-leadRanked)/stretches
		best, heaviest := from, -1.0
		for i := from; i < to; i++ {
			if w := round(c.weight(i)); w > heaviest {
				best, heaviest = i, w
			}
		}
		list = append(list, best)
	}
	return list
}

// round takes off the last digits, in which processors may differ, before scores are compared.
func round(f float64) float64 { return math.Round(f*1e6) / 1e6 }

// similarities gives the cosines of the tf-idf vectors of the chosen candidates, pair by pair.
func (c *corpus) similarities(ctx context.Context, chosen []int) ([][]float64, error) {
	vectors := make([][]term, len(chosen))
	holders := map[int][]term{} // by term, the vectors that have it: id is the place in chosen
	for k, i := range chosen {
		length := 0.0
		for _, t := range c.bags[i] {
			if w := float64(t.weight * c.idf[t.id]); w > 0 {
				vectors[k] = append(vectors[k], term{t.id, w})
				length += float64(w * w)
			}
		}
		for j := range vectors[k] {
			t := &vectors[k][j]
			t.weight /= math.Sqrt(length)
			holders[t.id] = append(holders[t.id], term{k, t.weight})
		}
	}
	rows := make([][]float64, len(chosen))
	for k := range rows {
		if err := interrupted(ctx, "model.Summarise", ""); err != nil {
			return nil, err
		}
		rows[k] = make([]float64, len(chosen))
		for _, t := range vectors[k] {
			for _, h := range holders[t.id] {
				rows[k][h.id] += float64(t.weight * h.weight)
			}
		}
		rows[k][k] = 0
	}
	return rows, nil
}

// lexRank walks the graph of similarities at random and gives how often each sentence is met, 1
// being the mean.
func lexRank(ctx context.Context, similar [][]float64) ([]float64, error) {
	n := len(similar)
	rank, degree := make([]float64, n), make([]float64, n)
	for i, row := range similar {
		rank[i] = 1
		for _, s := range row {
			degree[i] += s
		}
	}
	for range maxRounds {
		if err := interrupted(ctx, "model.Summarise", ""); err != nil {
			return nil, err
		}
		next := make([]float64, n)
		stray := 0.0 // the rank of sentences like no other goes to all
		for i, row := range similar {
			if degree[i] == 0 {
				stray += rank[i]
				continue
			}
			share := rank[i] / degree[i]
			for j, s := range row {
				next[j] += float64(share * s)
			}
		}
		moved := 0.0
		for i := range next {
			next[i] = 1 - damping + float64(damping*(next[i]+stray/float64(n)))
			moved += math.Abs(next[i] - rank[i])
		}
		if rank = next; moved < settled*float64(n) {
			break
		}
	}
	return rank, nil
}

// prior is what the rank of a candidate is multiplied by, for what the graph does not see: its place
// among total candidates, and whether it is a whole sentence.
func prior(place, total int, whole bool) float64 {
	p := 1.0
	if left := 1 - 10*float64(place)/float64(total); left > 0 {
		p += float64(leadBonus * left)
	}
	if !whole {
		p *= fragmentCut
	}
	return p
}

// choose gives the places of the best-ranked sentences, at most limit, ascending. One that says
// much the same as a better one comes only when nothing else is left, an identical one never.
func choose(list []sentence, rank []float64, similar [][]float64, limit int) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(round(rank[b]), round(rank[a])) })
	var chosen, spare []int
	taken := map[string]bool{}
	for _, i := range order {
		again := slices.ContainsFunc(chosen, func(j int) bool { return similar[i][j] > tooAlike })
		if len(chosen) == limit {
			break
		} else if taken[list[i].text] {
			continue
		} else if again {
			spare = append(spare, i)
			continue
		}
		taken[list[i].text] = true
		chosen = append(chosen, i)
	}
	for _, i := range spare {
		if len(chosen) < limit && !taken[list[i].text] {
			taken[list[i].text] = true
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen
}
