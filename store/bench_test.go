package store_test

import (
	"fmt"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// BenchmarkAppend appends to many journals, pipelined: each has one record under way.
func BenchmarkAppend(b *testing.B) {
	e := single(b)
	const journals = 1000
	data := make([]byte, 512)
	last := make([]uint64, journals)
	acks := make([]actor.Ack, journals)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		n := i % journals
		if acks[n] != nil {
			last[n] = stored(b, "append", acks[n])
		}
		acks[n] = e.Journal.Append(actor.Address{ID: actor.ID(fmt.Sprint(n))}, last[n], data)
	}
	for _, a := range acks {
		if a != nil {
			stored(b, "append", a)
		}
	}
}

func BenchmarkLast(b *testing.B) {
	e := single(b)
	a := actor.Address{ID: "a"}
	fill(b, e, a, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Journal.Last(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRange1000(b *testing.B) {
	e := single(b)
	a := actor.Address{ID: "a"}
	seqs := fill(b, e, a, 1000)
	for b.Loop() {
		if err := e.Journal.Range(b.Context(), a, seqs[0], seqs[999], func(store.Message) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTree lists a tree of 10,000 in a bucket of 100,000 entries.
func BenchmarkTree(b *testing.B) {
	e := single(b)
	acks := make([]actor.Ack, 100_000)
	data := make([]byte, 300)
	for i := range acks {
		root := actor.ID("root")
		if i%10 != 0 {
			root = actor.ID(fmt.Sprint("other ", i%1000))
		}
		acks[i] = e.Registry.Put(root, "p", actor.ID(fmt.Sprint(i)), 0, data)
		if i >= 10_000 {
			stored(b, "create", acks[i-10_000])
		}
	}
	for _, a := range acks {
		stored(b, "create", a)
	}
	for _, size := range []struct {
		root actor.ID
		n    int
	}{{"root", 10_000}, {"other 501", 100}, {"nobody", 0}} {
		b.Run(fmt.Sprint(size.n), func(b *testing.B) {
			for b.Loop() {
				got, err := e.Registry.Tree(b.Context(), size.root)
				if err != nil || len(got) != size.n {
					b.Fatalf("the tree has %d entries (%v), want %d", len(got), err, size.n)
				}
			}
			b.ReportMetric(float64(size.n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func BenchmarkKeysGet(b *testing.B) {
	e := single(b)
	key := subjects.IdempotencyKey("caller", "SUBAGENT_SPAWN_REQ", "1")
	stored(b, "put", e.Keys.Put(key, make([]byte, 200)))
	b.ReportAllocs()
	for b.Loop() {
		if _, found, err := e.Keys.Get(b.Context(), key); err != nil || !found {
			b.Fatalf("found %v, %v", found, err)
		}
	}
}

func BenchmarkNextID(b *testing.B) {
	e := single(b)
	for b.Loop() {
		if _, err := e.IDs.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
