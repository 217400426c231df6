package bench

import (
	"context"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

func TestProf(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	p, err := open(ctx, t.TempDir(), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	r, _ := newRaw(ctx, p.conn)
	defer r.close()
	n, w := 10000, 256
	for i := range 3 {
		ids, err := p.spawnAll(ctx, n, w)
		if err != nil {
			t.Fatal(err)
		}
		ceiling, _ := r.cycles(ctx, n, w)
		if i == 2 {
			f, _ := os.Create("/tmp/cpu.out")
			pprof.StartCPUProfile(f)
		}
		rate, err := p.cycles(ctx, ids, w)
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			pprof.StopCPUProfile()
		}
		t.Logf("ceiling %.0f/s; delegate %.0f/s = %.3f", ceiling, rate, rate/ceiling)
	}
}
