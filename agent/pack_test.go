package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/test/shape"
)

// packed lists what this package and the packages above pack, each by a pointer to its zero value.
func packed() []any {
	return []any{
		&actor.Record{}, &actor.Envelope{}, &[]actor.Envelope{}, &head{}, &Birth{},
		&Delegate{}, &Message{}, &Await{}, &Stop{}, &Stopped{}, &Notice{}, &Question{}, &Gone{}, &Completion{},
		&Answer{}, &Timer{}, &JobAnswer{}, &Spawn{}, &Target{}, &Merge{}, &Stored{}, &Notify{},
		&Snapshot{}, &SnapshotOf{}, &ToolCall{}, &Prepare{}, &Deliver{},
		&Reserve{}, &Granted{}, &Recall{}, &Spent{},
	}
}

func TestStructsOnlyGrowAtTheirEnd(t *testing.T) {
	t.Parallel()
	shape.Check(t, "testdata/shapes.golden", packed()...)
}

// What a program wrote that knew fewer fields is read, and the fields that it did not know are zero.
func TestUnpackOlder(t *testing.T) {
	t.Parallel()
	for _, v := range packed() {
		now := reflect.TypeOf(v).Elem()
		for missing := 1; missing <= 3; missing++ {
			old := reflect.New(reshaped(now, missing, nil))
			r := rand.New(rand.NewPCG(7, uint64(missing)))
			for range 20 {
				fill(r, old.Elem(), 4)
				read := reflect.New(now)
				if err := Unpack(Pack(old.Interface()), read.Interface()); err != nil {
					t.Fatalf("%s with %d fields less: %v", now, missing, err)
				}
				again := reflect.New(old.Type().Elem())
				prune(again.Elem(), read.Elem())
				if !bytes.Equal(Pack(again.Interface()), Pack(old.Interface())) {
					t.Fatalf("%s with %d fields less was read as something else:\nwas %+v\nis  %+v", now, missing, old.Elem(), again.Elem())
				}
				if rest := unknown(read.Elem(), missing); rest != "" {
					t.Fatalf("%s: the field %s was not written, and has a value", now, rest)
				}
			}
		}
	}
}

// What a newer program wrote is read while it does not use what this one does not know, and refused otherwise.
func TestUnpackNewer(t *testing.T) {
	t.Parallel()
	type extra struct{ A int }
	for _, kind := range []any{0, uint8(0), "", false, []byte(nil), []string(nil), map[string]int(nil), (*extra)(nil), 0.5, [2]string{"a"}} {
		k := reflect.TypeOf(kind)
		for _, v := range packed() {
			now := reflect.TypeOf(v).Elem()
			if now.Kind() != reflect.Struct {
				continue
			}
			newer := reflect.New(reshaped(now, 0, k))
			r := rand.New(rand.NewPCG(8, 8))
			if k.Kind() != reflect.Array {
				fill(r, newer.Elem(), 4)
				zeroLast(newer.Elem())
				if err := Unpack(Pack(newer.Interface()), reflect.New(now).Interface()); err != nil {
					t.Fatalf("%s with a new %s that is not used: %v", now, k, err)
				}
			}
			fill(r, newer.Elem(), 4)
			use(newer.Elem().Field(newer.Elem().NumField() - 1))
			err := Unpack(Pack(newer.Interface()), reflect.New(now).Interface())
			if !errors.Is(err, actor.NewerVersion) || !strings.Contains(err.Error(), now.Name()+"[") {
				t.Fatalf("%s with a new %s that is used: %v, want newer_version and where", now, k, err)
			}
		}
	}
}

// What was packed in a release stays readable, field by field. To add a release's files: -old testdata/old/NAME.
var writeOld = flag.String("old", "", "write what this version packs into the `directory`, for later versions to read")

func TestUnpackReleases(t *testing.T) {
	t.Parallel()
	if *writeOld != "" {
		release(t, *writeOld)
	}
	releases, err := filepath.Glob("testdata/old/*")
	if err != nil || len(releases) == 0 {
		t.Fatalf("no releases under testdata/old: %v", err)
	}
	for _, dir := range releases {
		for _, v := range packed() {
			name := filepath.Join(dir, strings.Map(fileName, reflect.TypeOf(v).Elem().String()))
			data, err := os.ReadFile(name + ".msgpack")
			if errors.Is(err, os.ErrNotExist) {
				continue // the release did not have it
			}
			if err == nil {
				err = Unpack(data, v)
			}
			text, readErr := os.ReadFile(name + ".json")
			if err = errors.Join(err, readErr); err != nil {
				t.Fatal(err)
			}
			var was, is any
			if err := json.Unmarshal(text, &was); err != nil {
				t.Fatal(err)
			}
			now, err := json.Marshal(v)
			if err == nil {
				err = json.Unmarshal(now, &is)
			}
			if err != nil {
				t.Fatal(err)
			}
			if at := lost(was, is); at != "" {
				t.Errorf("%s is read with another %s than was written:\n%s\n%s", name, at, text, now)
			}
		}
	}
}

func release(t *testing.T, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, v := range packed() {
		fill(r, reflect.ValueOf(v).Elem(), 6)
		text, err := json.Marshal(v)
		name := filepath.Join(dir, strings.Map(fileName, reflect.TypeOf(v).Elem().String()))
		err = errors.Join(err, os.WriteFile(name+".msgpack", Pack(v), 0o644), os.WriteFile(name+".json", append(text, '\n'), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func fileName(r rune) rune {
	if r == '[' || r == ']' {
		return '_'
	}
	return r
}

// lost names what of was is not in is.
func lost(was, is any) string {
	switch was := was.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		for k, v := range was {
			if at := lost(v, is[k]); at != "" {
				return k + "/" + at
			}
		}
		return ""
	case []any:
		is, _ := is.([]any)
		if len(is) != len(was) {
			return "length"
		}
		for i := range was {
			if at := lost(was[i], is[i]); at != "" {
				return fmt.Sprint(i, "/", at)
			}
		}
		return ""
	}
	if !reflect.DeepEqual(was, is) {
		return "value"
	}
	return ""
}

// Bytes of any kind are read or refused, and what is read is read again as the same.
func FuzzUnpack(f *testing.F) {
	r := rand.New(rand.NewPCG(2, 2))
	for i, v := range packed() {
		t := reflect.TypeOf(v).Elem()
		for _, like := range []reflect.Type{t, reshaped(t, 1, nil), reshaped(t, 0, reflect.TypeFor[string]())} {
			old := reflect.New(like)
			fill(r, old.Elem(), 3)
			f.Add(uint8(i), Pack(old.Interface()))
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		all := packed()
		v := all[int(i)%len(all)]
		if Unpack(data, v) != nil {
			return
		}
		again := reflect.New(reflect.TypeOf(v).Elem())
		if err := Unpack(Pack(v), again.Interface()); err != nil {
			t.Fatalf("%T was read, and can't be read again: %v", v, err)
		}
		if !bytes.Equal(Pack(v), Pack(again.Interface())) {
			t.Fatalf("%T is read in two ways:\n%+v\n%+v", v, v, again)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	r := benchRecord()
	for b.Loop() {
		Pack(&r)
	}
	b.ReportMetric(float64(len(Pack(&r))), "bytes")
}

func BenchmarkUnpack(b *testing.B) {
	data := Pack(ptr(benchRecord()))
	for b.Loop() {
		var r actor.Record
		if err := Unpack(data, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpackOlder(b *testing.B) {
	old := reflect.New(reshaped(reflect.TypeFor[actor.Record](), 1, nil))
	if err := msgpack.Unmarshal(byName(benchRecord()), old.Interface()); err != nil {
		b.Fatal(err)
	}
	data := Pack(old.Interface())
	for b.Loop() {
		var r actor.Record
		if err := Unpack(data, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func byName(v any) []byte {
	data, err := msgpack.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func benchRecord() actor.Record {
	h := head{Lineage: actor.Lineage{ID: "sub_1f0c22aa", Ancestors: []actor.ID{"cli"}}, Birth: 77, Session: 1, Open: true, Task: true,
		Step: 1, Steps: 1, SessionAt: 1.7e15, UpdatedAt: 1.7e15, Deadline: 1.7e15, Own: bytes.Repeat([]byte("o"), 300)}
	return actor.Record{V: 1, At: 1.7e15, By: "0123456789abcdef", Cursor: actor.Cursor{Queue: 4711}, Rev: 815, Head: Pack(&h),
		Took:    []actor.Taken{{From: "cli", ID: actor.EnvelopeID{J: 99, N: 1}}},
		Entries: []actor.Entry{{Kind: actor.EntryTask, At: 1.7e15, Session: 1, Content: actor.Value{JSON: []byte(`{"name":"t","instruction":"do it"}`)}}},
		Effects: []actor.Effect{{Kind: actor.EffectRegistry}, {Kind: actor.EffectSend, To: actor.Address{ID: "cli", Host: true}, Lane: actor.LaneHost, Name: KindNotice, Session: 1, Body: bytes.Repeat([]byte("b"), 60)}},
	}
}
