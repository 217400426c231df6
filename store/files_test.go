package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/store"
)

// write stores files whose content is their path.
func write(t testing.TB, e *env, thread actor.ID, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := e.Files.Write(t.Context(), thread, path, []byte(path), "text/plain"); err != nil {
			t.Fatalf("write %s of %s: %v", path, thread, err)
		}
	}
}

// paths are those of files.
func paths(files []store.File) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Path)
	}
	return strings.Join(all, " ")
}

// holds fails unless a thread has exactly these files.
func holds(t testing.TB, e *env, thread actor.ID, want string) {
	t.Helper()
	got, err := e.Files.List(t.Context(), thread, "")
	if err != nil || paths(got) != want {
		t.Errorf("%s holds %q (%v), want %q", thread, paths(got), err, want)
	}
}

func files(t *testing.T, e *env) {
	thread := actor.ID("files a.b")
	_, err := e.Files.Stat(t.Context(), thread, "x")
	wantKind(t, "Stat in a thread that has written nothing", err, actor.NotFound)
	holds(t, e, thread, "")
	big := random(3<<20, 11)
	for path, content := range map[string][]byte{"docs/big.bin": big, "docs/empty": {}, "page<1>.html": []byte("<html></html>")} {
		wrote, err := e.Files.Write(t.Context(), thread, path, content, "")
		if err != nil {
			t.Fatalf("write %s: %v", path, err)
		}
		got, file, err := e.Files.Read(t.Context(), thread, path)
		if err != nil || !bytes.Equal(got, content) || file != wrote || file.Path != path || file.Blob.Size != uint64(len(content)) {
			t.Errorf("read %d bytes, %+v (%v); want the %d that were written, and %+v", len(got), file, err, len(content), wrote)
		}
		if stat, err := e.Files.Stat(t.Context(), thread, "./"+path); err != nil || stat != wrote {
			t.Errorf("Stat says %+v (%v), want %+v", stat, err, wrote)
		}
	}
	holds(t, e, thread, "docs/big.bin docs/empty page<1>.html")
	got, err := e.Files.List(t.Context(), thread, "docs/")
	if err != nil || paths(got) != "docs/big.bin docs/empty" || got[0].MIME != "application/octet-stream" {
		t.Errorf("List of docs/ gave %+v (%v)", got, err)
	}
	if again, err := e.Files.Write(t.Context(), thread, "docs/empty", []byte("x"), "text/csv; header=present"); err != nil || again.Blob == got[1].Blob {
		t.Errorf("a replaced file has the blob %+v (%v): that of the old content", again.Blob, err)
	}
	if err := e.Files.Remove(t.Context(), thread, "docs/big.bin"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Remove again": e.Files.Remove(t.Context(), thread, "docs/big.bin"),
		"Read": func() error {
			_, _, err := e.Files.Read(t.Context(), thread, "docs/big.bin")
			return err
		}(),
	} {
		wantKind(t, what+" of a removed file", err, actor.NotFound)
	}
	holds(t, e, thread, "docs/empty page<1>.html")
	text := e.raw(t, e.names.FilesBucket(), "files=20a=2Eb")
	if !json.Valid([]byte(text)) || !strings.Contains(text, `"page<1>.html":{"blob":"sha256-`) {
		t.Errorf("a person reads %s, want JSON with the paths as they are", text)
	}
}

func filesPaths(t *testing.T, e *env) {
	thread := actor.ID("paths")
	for _, bad := range []string{"", ".", "./", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/../b", "a/..", "\xff", "a\x00b", "a\nb",
		strings.Repeat("a", store.MaxPathBytes+1)} {
		_, err := e.Files.Write(t.Context(), thread, bad, nil, "")
		wantKind(t, fmt.Sprintf("a file at %.20q", bad), err, actor.SchemaViolation)
		_, err = e.Files.Stat(t.Context(), thread, bad)
		wantKind(t, fmt.Sprintf("Stat of %.20q", bad), err, actor.SchemaViolation)
		_, err = e.Files.Copy(t.Context(), thread, []string{bad}, "paths too", "")
		wantKind(t, fmt.Sprintf("Copy of %.20q", bad), err, actor.SchemaViolation)
	}
	for _, bad := range []string{"x y", "text/", "text/plain; \n", "text/" + strings.Repeat("x", 300)} {
		_, err := e.Files.Write(t.Context(), thread, "x", nil, bad)
		wantKind(t, fmt.Sprintf("the type %.20q", bad), err, actor.SchemaViolation)
	}
	holds(t, e, thread, "")
	for spelled, path := range map[string]string{"a//b/./c/": "a/b/c", "...": "...", "a b/é 🎭.txt": "a b/é 🎭.txt", "~": "~", "*": "*", "C:\\x": "C:\\x"} {
		if got, err := e.Files.Write(t.Context(), thread, spelled, nil, ""); err != nil || got.Path != path {
			t.Errorf("%q is kept at %q (%v), want %q", spelled, got.Path, err, path)
		}
	}
	_, err := e.Files.Write(t.Context(), thread, "huge", make([]byte, store.MaxBlobBytes+1), "")
	wantKind(t, "a file over the limit", err, actor.TooLarge)
}

func filesCopy(t *testing.T, e *env) {
	from, to := actor.ID("copy from"), actor.ID("copy to")
	longest := strings.Repeat("é", store.MaxPathBytes/2)
	write(t, e, from, "report.pdf", "docs/report.pdf", "archive.tar.gz", ".profile", "plain", longest)
	write(t, e, to, "report.pdf", "report-2.pdf", ".profile", "plain", "archive.tar.gz", longest)
	got, err := e.Files.Copy(t.Context(), from, []string{"plain", "report.pdf", "./docs/report.pdf", "archive.tar.gz", ".profile", "report.pdf"}, to, "")
	if want := "plain-2 report-3.pdf docs/report.pdf archive.tar-2.gz .profile-2 report-3.pdf"; err != nil || paths(got) != want {
		t.Fatalf("the copies are called %q (%v), want %q: in the order asked for, none over what was there", paths(got), err, want)
	}
	there, err := e.Files.Stat(t.Context(), from, "report.pdf")
	if content, file, err2 := e.Files.Read(t.Context(), to, "report-3.pdf"); err != nil || err2 != nil || string(content) != "report.pdf" ||
		file.Blob != there.Blob || file.MIME != there.MIME {
		t.Errorf("the copy is %q, %+v (%v), want the blob and type of %+v", content, file, errors.Join(err, err2), there)
	}
	if content, _, err := e.Files.Read(t.Context(), to, "report.pdf"); err != nil || string(content) != "report.pdf" {
		t.Errorf("the receiver's own file holds %q now (%v)", content, err)
	}
	long, err := e.Files.Copy(t.Context(), from, []string{longest}, to, "")
	if err != nil || len(long[0].Path) > store.MaxPathBytes || !strings.HasSuffix(long[0].Path, "é-2") {
		t.Errorf("a copy of the longest name is called %v (%v), want it cut between characters", long, err)
	}
	before, _ := e.Files.List(t.Context(), to, "")
	_, err = e.Files.Copy(t.Context(), from, []string{"plain", "not there", "nor this", "report.pdf"}, to, "k")
	wantKind(t, "a copy of what is not there", err, actor.NotFound)
	var typed *actor.Error
	if errors.As(err, &typed); typed.ID != from || typed.Field != "path" || !strings.Contains(err.Error(), `["not there" "nor this"]`) {
		t.Errorf("%v does not name what is missing, and where", err)
	}
	holds(t, e, to, paths(before))
	if got, err := e.Files.Copy(t.Context(), from, nil, to, "k"); err != nil || len(got) != 0 {
		t.Errorf("a copy of nothing gave %v (%v)", got, err)
	}
	if got, err := e.Files.Copy(t.Context(), from, []string{"plain"}, from, ""); err != nil || paths(got) != "plain-2" {
		t.Errorf("a copy within a thread is called %q (%v), want plain-2", paths(got), err)
	}
}

// filesCopyAgain: a copy that is repeated under its key, as after a crash, changes nothing, whatever
// has become of the files at either end.
func filesCopyAgain(t *testing.T, e *env) {
	from, to := actor.ID("again from"), actor.ID("again to")
	write(t, e, from, "a", "b")
	write(t, e, to, "a")
	want := "a-2 b"
	ask := func(key string, from actor.ID) string {
		t.Helper()
		got, err := e.Files.Copy(t.Context(), from, []string{"a", "b"}, to, key)
		if err != nil {
			t.Fatalf("copy under %q: %v", key, err)
		}
		return paths(got)
	}
	for range 2 {
		if got := ask("job 1", from); got != want {
			t.Errorf("the copies are called %q, want %q", got, want)
		}
	}
	write(t, e, to, "b") // the receiver goes on with its copy
	if err := e.Files.Remove(t.Context(), from, "a"); err != nil {
		t.Fatal(err)
	}
	if got := ask("job 1", from); got != want {
		t.Errorf("with the source gone the copies are called %q, want %q still", got, want)
	}
	holds(t, e, to, "a a-2 b")
	write(t, e, from, "a")
	if got := ask("job 2", from); got != "a-3 b-2" {
		t.Errorf("under another key the copies are called %q, want new ones", got)
	}
	write(t, e, "again other", "a", "b")
	if got := ask("job 1", "again other"); got != "a-4 b-3" {
		t.Errorf("from another thread the copies are called %q, want new ones", got)
	}
	// Of many at the same time under one key there is one copy.
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			got, err := e.Files.Copy(t.Context(), from, []string{"a", "b"}, "again together", "job")
			if err != nil || paths(got) != "a b" {
				t.Errorf("one of many copies under a key gave %q (%v)", paths(got), err)
			}
		})
	}
	all.Wait()
	holds(t, e, "again together", "a b")
	_, err := e.Files.Copy(t.Context(), from, nil, to, strings.Repeat("k", 257))
	wantKind(t, "a key over the limit", err, actor.SchemaViolation)
}

// filesTogether: many write into one thread and none is lost; of a copy a reader sees all or nothing.
func filesTogether(t *testing.T, e *env) {
	const writers, each = 4, 5
	from, to := actor.ID("together from"), actor.ID("together to")
	write(t, e, from, "copy/1", "copy/2", "copy/3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reader, all sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			got, err := e.Files.List(t.Context(), to, "copy/")
			if err != nil || len(got)%3 != 0 {
				t.Errorf("a reader sees %q of copies of three (%v)", paths(got), err)
				return
			}
		}
	})
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, err := e.Files.Write(t.Context(), to, fmt.Sprintf("w/%d/%d", w, i), []byte("same"), ""); err != nil {
					t.Errorf("write: %v", err)
				}
			}
			if _, err := e.Files.Copy(t.Context(), from, []string{"copy/1", "copy/2", "copy/3"}, to, fmt.Sprint(w)); err != nil {
				t.Errorf("copy: %v", err)
			}
		})
	}
	all.Wait()
	cancel()
	reader.Wait()
	got, err := e.Files.List(t.Context(), to, "")
	if want := writers*each + writers*3; err != nil || len(got) != want {
		t.Errorf("there are %d files (%v), want %d: a write was lost", len(got), err, want)
	}
}

// filesFull: what does not fit into a manifest is refused and leaves it as it was.
func filesFull(t *testing.T, e *env) {
	thread := actor.ID("full")
	write(t, e, thread, "a")
	a, err := e.Files.Stat(t.Context(), thread, "a")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	n := 0
	for ; text.Len() < 511<<10; n++ {
		fmt.Fprintf(&text, `,"file %d":{"blob":%q,"size":1,"mime":"text/plain","modified":"2026-01-02T03:04:05Z"}`, n, a.Blob.Name)
	}
	e.spoil(t, e.names.FilesBucket(), "full", `{"files":{`+text.String()[1:]+`}}`)
	var refused error
	for i := 0; refused == nil && i < 20; i++ {
		_, refused = e.Files.Write(t.Context(), thread, fmt.Sprintf("more %d", i), nil, "")
		if refused == nil {
			n++
		}
	}
	wantKind(t, "a file too many", refused, actor.TooLarge)
	if got, err := e.Files.List(t.Context(), thread, ""); err != nil || len(got) != n {
		t.Errorf("a full manifest holds %d files (%v), want the %d that were written", len(got), err, n)
	}
	e.spoil(t, e.names.FilesBucket(), "full", `{"files":7}`)
	_, err = e.Files.List(t.Context(), thread, "")
	wantKind(t, "a manifest that is none", err, actor.RuntimeError)
	_, err = e.Files.Write(t.Context(), thread, "b", nil, "")
	wantKind(t, "a write into it", err, actor.RuntimeError)
}
