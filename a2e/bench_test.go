package a2e_test

import (
	"testing"

	"github.com/troupehq/troupe/a2e"
)

func BenchmarkDecodeSpawn(b *testing.B)    { benchmarkDecode(b, 0) }
func BenchmarkDecodeDelegate(b *testing.B) { benchmarkDecode(b, 2) }

// benchmarkDecode reads the request in a line of the wire examples.
func benchmarkDecode(b *testing.B, line int) {
	data := lines(b, "examples.ndjson")[line]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a2e.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeDelegateResp(b *testing.B) {
	m := &a2e.DelegateResp{Accepted: true, Status: a2e.Running}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a2e.Encode(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeAwaitResp(b *testing.B) {
	m, err := a2e.DecodeAnswer(lines(b, "examples.ndjson")[5])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a2e.Encode(m); err != nil {
			b.Fatal(err)
		}
	}
}
