package sweep

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/agent"
	"github.com/troupehq/troupe/store"
	"github.com/troupehq/troupe/subjects"
)

// An Archive keeps threads that are removed, each as JSON lines. Save keeps what write writes under a name, whole or not
// at all, and durably once it returns; Has reports whether it does.
type Archive interface {
	Save(ctx context.Context, name string, write func(io.Writer) error) error
	Has(ctx context.Context, name string) (bool, error)
}

// Name is what a thread is called in an archive.
func Name(id actor.ID) string { return subjects.EncodeToken(string(id)) + ".jsonl" }

// The lines of an archived thread: one header, then each record, then the blobs that either names.
type (
	headerLine struct {
		Thread   actor.ID        `json:"thread"`
		Parent   actor.ID        `json:"parent_agent_id"`
		Root     actor.ID        `json:"root_agent_id"`
		Archived time.Time       `json:"archived"`
		Entry    json.RawMessage `json:"entry,omitempty"` // of the registry
		Files    []store.File    `json:"files,omitempty"`
	}
	recordLine struct {
		Seq    uint64          `json:"seq"`
		Time   time.Time       `json:"time"`
		Record json.RawMessage `json:"record"`
	}
	blobLine struct {
		Blob store.Ref       `json:"$blob"`
		JSON json.RawMessage `json:"json,omitempty"` // its content, if that is JSON
		Raw  []byte          `json:"b64,omitempty"`  // else
	}
)

// archive saves a thread. When a run ended while it removed the journal, the archive has it whole already, and what is
// left of it must not take its place.
func (r *run) archive(ctx context.Context, row *row, last store.Message, birth uint64) error {
	name := Name(row.id)
	if birth != 0 {
		_, _, err := r.Store.Journal.At(ctx, birth)
		if errors.Is(err, actor.NotFound) {
			if has, err := r.Archive.Has(ctx, name); has || err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	err := r.Archive.Save(ctx, name, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		if err := r.write(ctx, b, row, last); err != nil {
			return err
		}
		return b.Flush()
	})
	if err != nil {
		return &actor.Error{Op: "sweep.Run", ID: row.id, Kind: actor.KindOf(err), Err: fmt.Errorf("archive it: %w", err)}
	}
	return nil
}

func (r *run) write(ctx context.Context, w io.Writer, row *row, last store.Message) error {
	st := r.Store
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	header := headerLine{Thread: row.id, Parent: row.parent, Root: row.root, Archived: r.Now().UTC()}
	entry, err := st.Registry.Get(ctx, row.root, row.parent, row.id)
	if err != nil && !errors.Is(err, actor.NotFound) {
		return err
	}
	header.Entry = entry.Data
	if header.Files, err = st.Files.List(ctx, row.id, ""); err != nil {
		return err
	}
	if err := lines.Encode(header); err != nil {
		return err
	}
	blobs := map[string]store.Ref{}
	named := func(data []byte) error {
		refs, err := st.Blobs.BlobsIn(ctx, data)
		for _, ref := range refs {
			blobs[ref.Name] = ref
		}
		return err
	}
	for _, f := range header.Files {
		blobs[f.Blob.Name] = f.Blob
	}
	err = st.Journal.Range(ctx, actor.Address{ID: row.id}, 1, last.Seq, func(m store.Message) error {
		text, err := agent.ReadableRecord(m.Data)
		if err != nil {
			return err
		}
		if err := named(m.Data); err != nil {
			return err
		}
		return lines.Encode(recordLine{m.Seq, m.Time, text})
	})
	if err != nil {
		return err
	}
	for _, ref := range blobs {
		data, err := st.Blobs.Get(ctx, ref)
		if errors.Is(err, actor.NotFound) {
			continue // it was lost before
		}
		if err != nil {
			return err
		}
		line := blobLine{Blob: ref, Raw: data}
		if utf8.Valid(data) && json.Valid(data) {
			line.JSON, line.Raw = data, nil
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// A Dir is an archive in a directory, which it makes: a file for each thread.
type Dir string

// Save implements [Archive]. The file is on the disk under its name when it returns, or not there.
func (d Dir) Save(_ context.Context, name string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), name+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(string(d), name)); err != nil {
		return err
	}
	dir, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Has implements [Archive].
func (d Dir) Has(_ context.Context, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(string(d), name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
