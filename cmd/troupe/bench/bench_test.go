package bench

import (
	"context"

	"os"
	"testing"

	"github.com/rs/zerolog"
	"time"
)

func TestQuick(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	Log = zerolog.New(os.Stderr)
	p, err := open(ctx, t.TempDir(), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	r, err := newRaw(ctx, p.conn)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	n, w := 6000, 256
	for range 2 {
		ceiling, err := r.cycles(ctx, n, w)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := p.writes(ctx)
		ids, err := p.spawnAll(ctx, n, w)
		if err != nil {
			t.Fatal(err)
		}
		mid, _ := p.writes(ctx)
		rate, err := p.cycles(ctx, ids, w)
		if err != nil {
			t.Fatal(err)
		}
		after, _ := p.writes(ctx)
		full, err := p.lives(ctx, n, w)
		if err != nil {
			t.Fatal(err)
		}
		var a, b float64
		for k := range after {
			t.Logf("%-20s spawn %.2f cycle %.2f", k, float64(mid[k]-before[k])/float64(n), float64(after[k]-mid[k])/float64(n))
			a += float64(mid[k]-before[k]) / float64(n)
			b += float64(after[k]-mid[k]) / float64(n)
		}
		t.Logf("ceiling %.0f/s; delegate %.0f/s = %.3f; life %.0f/s = %.3f; writes spawn %.2f cycle %.2f", ceiling, rate, rate/ceiling, full, full/ceiling, a, b)
		one, _ := r.single(ctx, 300)

		two, err := p.single(ctx, ids[:300])

		if err != nil {
			t.Fatal(err)
		}
		t.Logf("single raw %v product %v", one[150], two[150])
	}
}
