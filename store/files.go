package store

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// A File is what the file system of a thread says of one file.
type File struct {
	Path     string    `json:"path"`
	MIME     string    `json:"mime"`
	Modified time.Time `json:"modified"`
	Blob     Ref       `json:"blob"` // its content
}

// Files holds a file system for each thread: one entry, the manifest, that maps paths to blobs. A
// change of it is seen whole or not at all, and replaces the manifest by compare-and-set. Contents
// are kept by digest, so a copy to another thread is a change of that thread's manifest only.
//
// A path is relative, at most [MaxPathBytes] of UTF-8, with slashes between its parts and no ".."
// among them; else the Kind is SchemaViolation. There are no directories: "a" and "a/b" may both be
// files. A manifest has at most 512 KiB, which is about 2,500 files; beyond that the Kind is TooLarge.
type Files struct {
	kv    bucket
	blobs *Blobs
	now   func() time.Time
}

// A manifest is the entry of a thread.
type manifest struct {
	Files map[string]fileEntry `json:"files"`
}

type fileEntry struct {
	Blob     string    `json:"blob"` // the name of the blob
	Size     uint64    `json:"size"`
	MIME     string    `json:"mime"`
	Modified time.Time `json:"modified"`
	Copy     *origin   `json:"copy,omitempty"` // which copy brought it
}

// An origin is what tells a repeated copy from a new one.
type origin struct {
	Key  string   `json:"key"`
	From actor.ID `json:"from"`
	Path string   `json:"path"` // there
}

// Write stores a file, or replaces it, and returns once it is stored. Without a mime type it gets
// the one that its content looks like, at worst application/octet-stream. A file has at most
// [MaxBlobBytes]; else the Kind is TooLarge.
func (f *Files) Write(ctx context.Context, thread actor.ID, path string, content []byte, mime string) (File, error) {
	const op = "store.Files.Write"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	path, err := cleanPath(path)
	if err == nil {
		mime, err = validMIME(mime, content)
	}
	if err != nil {
		return File{}, fault(op, thread, err)
	}
	ref, err := f.blobs.Put(ctx, content)
	if err != nil {
		return File{}, fault(op, thread, err)
	}
	entry := fileEntry{Blob: ref.Name, Size: ref.Size, MIME: mime, Modified: f.now().UTC()}
	err = f.update(ctx, thread, func(m *manifest) (bool, error) {
		entry.Copy = m.Files[path].Copy
		m.Files[path] = entry
		return true, nil
	})
	if err != nil {
		return File{}, fault(op, thread, err)
	}
	return f.file(path, entry), nil
}

// Read gives the content of a file. NotFound means that there is none at this path.
func (f *Files) Read(ctx context.Context, thread actor.ID, path string) ([]byte, File, error) {
	const op = "store.Files.Read"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	file, err := f.stat(ctx, thread, path)
	if err != nil {
		return nil, File{}, fault(op, thread, err)
	}
	content, err := f.blobs.Get(ctx, file.Blob)
	if err != nil {
		return nil, File{}, fault(op, thread, err)
	}
	return content, file, nil
}

// Stat tells of a file without reading it. NotFound means that there is none at this path.
func (f *Files) Stat(ctx context.Context, thread actor.ID, path string) (File, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	file, err := f.stat(ctx, thread, path)
	return file, fault("store.Files.Stat", thread, err)
}

func (f *Files) stat(ctx context.Context, thread actor.ID, path string) (File, error) {
	path, err := cleanPath(path)
	if err != nil {
		return File{}, err
	}
	m, err := f.load(ctx, thread)
	if err != nil {
		return File{}, err
	}
	entry, ok := m.Files[path]
	if !ok {
		return File{}, notThere(thread, path)
	}
	return f.file(path, entry), nil
}

// List tells of all files whose paths begin with a text, which need not end with a slash, in the
// order of their paths, as of one moment. A thread that has written none has none.
func (f *Files) List(ctx context.Context, thread actor.ID, prefix string) ([]File, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	m, err := f.load(ctx, thread)
	if err != nil {
		return nil, fault("store.Files.List", thread, err)
	}
	var files []File
	for _, path := range slices.Sorted(maps.Keys(m.Files)) {
		if strings.HasPrefix(path, prefix) {
			files = append(files, f.file(path, m.Files[path]))
		}
	}
	return files, nil
}

// Remove removes a file. NotFound means that there is none at this path. The content stays, for other
// threads may have it too.
func (f *Files) Remove(ctx context.Context, thread actor.ID, path string) error {
	const op = "store.Files.Remove"
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	path, err := cleanPath(path)
	if err != nil {
		return fault(op, thread, err)
	}
	err = f.update(ctx, thread, func(m *manifest) (bool, error) {
		if _, ok := m.Files[path]; !ok {
			return false, notThere(thread, path)
		}
		delete(m.Files, path)
		return true, nil
	})
	return fault(op, thread, err)
}

// update changes the manifest of a thread, unless change reports that nothing is to be written.
func (f *Files) update(ctx context.Context, thread actor.ID, change func(m *manifest) (bool, error)) error {
	return f.kv.update(ctx, subjects.EncodeToken(string(thread)), func(data []byte) ([]byte, error) {
		m, err := readManifest(data)
		if err != nil {
			return nil, err
		}
		if write, err := change(&m); err != nil || !write {
			return nil, err
		}
		return encode(m)
	})
}

func (f *Files) load(ctx context.Context, thread actor.ID) (manifest, error) {
	data, _, err := f.kv.entry(ctx, subjects.EncodeToken(string(thread)))
	if err != nil {
		return manifest{}, err
	}
	return readManifest(data)
}

func readManifest(data []byte) (m manifest, err error) {
	err = decode(data, &m)
	if m.Files == nil {
		m.Files = map[string]fileEntry{}
	}
	return m, err
}

func (f *Files) file(path string, e fileEntry) File {
	return File{Path: path, MIME: e.MIME, Modified: e.Modified, Blob: refNamed(f.blobs.bucket, e.Blob, e.Size)}
}

// notThere names what a thread does not have.
func notThere(thread actor.ID, paths ...string) error {
	return &actor.Error{ID: thread, Kind: actor.NotFound, Field: "path", Err: fmt.Errorf("no such file: %q", paths)}
}

const maxMIME = 255 // bytes

// validMIME gives the type that a file is stored with.
func validMIME(text string, content []byte) (string, error) {
	if text == "" {
		return http.DetectContentType(content), nil
	}
	_, _, err := mime.ParseMediaType(text)
	if err != nil || len(text) > maxMIME || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", refuse(actor.SchemaViolation, "mime", "%.100q is not a media type", text)
	}
	return text, nil
}
