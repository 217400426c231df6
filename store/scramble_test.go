package store

import (
	"testing"

	"pgregory.net/rapid"
)

// unscramble undoes scramble, step by step from the last. That it exists is what makes ids unique.
func unscramble(x uint32) uint32 {
	x = unshift(x, 16)
	x *= inverse(scrambleFactor2)
	x = unshift(x, 15)
	x *= inverse(scrambleFactor1)
	x = unshift(x, 16)
	return x - scrambleOffset
}

// unshift undoes x ^= x >> n.
func unshift(x uint32, n int) uint32 {
	y := x
	for s := n; s < 32; s += n {
		y = x ^ y>>n
	}
	return y
}

// inverse is the number that an odd f times it is 1 with, modulo 2^32, by Newton's method.
func inverse(f uint32) uint32 {
	x := f
	for range 5 {
		x *= 2 - f*x
	}
	return x
}

func TestScrambleHasAnInverse(t *testing.T) {
	t.Parallel()
	for _, f := range []uint32{scrambleFactor1, scrambleFactor2} {
		if f*inverse(f) != 1 {
			t.Fatalf("factor %#x has no inverse modulo 2^32: two counts would give one id", f)
		}
	}
	for n := range uint32(1 << 20) {
		if back := unscramble(scramble(n)); back != n {
			t.Fatalf("count %d becomes %#x, which comes back as %d", n, scramble(n), back)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if n := rapid.Uint32().Draw(t, "n"); unscramble(scramble(n)) != n {
			t.Fatalf("count %d does not come back", n)
		}
	})
}

// TestScrambleStays: a namespace that exists has given out ids by these numbers.
func TestScrambleStays(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint32]uint32{0: 0x01fce552, 1: 0x9f505634, 2: 0x079f4ece, 4096: 0xffd4e5c3, 2147483648: 0x827ce94f, 4294967295: 0xa4f7896c} {
		if got := scramble(n); got != want {
			t.Errorf("scramble(%d) is %#08x, was %#08x when it was released: ids will come twice", n, got, want)
		}
	}
}
