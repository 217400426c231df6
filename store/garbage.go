package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupehq/troupe/actor"
	"github.com/troupehq/troupe/subjects"
)

// Marks are the blobs that something names, and all blobs there are.
type Marks struct {
	named  map[digest]struct{}
	blobs  []blobFound
	chunks map[string]time.Time // ids of chunks, and when the first of them was stored
	tails  map[string][]byte    // the end of the last chunk of each blob: a name may stand across two
}

type digest [32]byte

// A blobFound is a blob as the bucket announces it.
type blobFound struct {
	name    string
	id      string // of its chunks
	size    uint64
	seq     uint64 // of the announcement
	at      time.Time
	deleted bool // a removal that was not carried to its end
}

// Mark reads everything that is kept in the namespace, but for scoped values, and notes which blobs it names: a blob's
// name or digest anywhere in it counts, also in another blob. Buckets and queues come before the journals, and the
// journals before the blobs, in the way that references travel. It takes as long as it takes, unless ctx has a
// deadline, and remembers some 100 bytes for each blob.
func (s *Store) Mark(ctx context.Context) (*Marks, error) {
	const op = "store.Mark"
	m := &Marks{named: map[digest]struct{}{}, chunks: map[string]time.Time{}, tails: map[string][]byte{}}
	n := s.names
	for _, name := range []string{n.InboxStream(), n.WorkStream(), n.TimerStream(),
		subjects.KVStream(n.RequestsBucket()), subjects.KVStream(n.FilesBucket()), subjects.KVStream(n.MemoryBucket()),
		subjects.KVStream(n.KeysBucket()), subjects.KVStream(n.AgentsBucket()), subjects.KVStream(n.RegistryBucket()),
		n.MailStream(), n.DeadStream(), n.JournalStream()} {
		err := stream{s.Blobs.log.link, name}.scan(ctx, scan{">", 1, everything, largeMessages}, func(msg stored) error {
			m.note(msg.Data)
			return nil
		})
		if err != nil {
			return nil, fault(op, "", err)
		}
	}
	err := s.Blobs.log.scan(ctx, scan{">", 1, everything, largeMessages}, func(msg stored) error {
		m.blob(s.Blobs, msg)
		return nil
	})
	m.tails = nil
	return m, fault(op, "", err)
}

// blob notes a message of the object store.
func (m *Marks) blob(b *Blobs, msg stored) {
	if id, ok := strings.CutPrefix(msg.Subject, b.chunkSubject("")); ok {
		if _, ok := m.chunks[id]; !ok {
			m.chunks[id] = msg.Time
		}
		m.note(append(m.tails[id], msg.Data...))
		if len(msg.Data) == chunkBytes { // others are the last of theirs
			m.tails[id] = bytes.Clone(msg.Data[chunkBytes-longestName:])
		} else {
			delete(m.tails, id)
		}
		return
	}
	var info jetstream.ObjectInfo
	if json.Unmarshal(msg.Data, &info) == nil && refNamed(b.bucket, info.Name, 0).check("", b.bucket) == nil {
		m.blobs = append(m.blobs, blobFound{info.Name, info.NUID, info.Size, msg.Seq, msg.Time, info.Deleted})
	}
}

// longestName is how long a name or a digest of a blob is, at most.
const longestName = len(namePrefix) + 2*len(digest{})

// note notes the blobs that data names.
func (m *Marks) note(data []byte) {
	for _, d := range namesIn(data) {
		m.named[d] = struct{}{}
	}
	if bytes.Contains(data, []byte(`"data_b64"`)) { // of a dead letter
		var letter struct {
			Raw []byte `json:"data_b64"`
		}
		if json.Unmarshal(data, &letter) == nil {
			for _, d := range namesIn(letter.Raw) {
				m.named[d] = struct{}{}
			}
		}
	}
}

// namesIn finds what looks like the name or the digest of a blob.
func namesIn(data []byte) (found []digest) {
	for _, form := range []struct {
		prefix string
		length int
		decode func(dst, src []byte) (int, error)
	}{
		{namePrefix, hex.EncodedLen(len(digest{})), hex.Decode},
		{digestPrefix, base64.URLEncoding.EncodedLen(len(digest{})), base64.URLEncoding.Decode},
	} {
		for rest := data; ; {
			at := bytes.Index(rest, []byte(form.prefix))
			if at < 0 {
				break
			}
			rest = rest[at+len(form.prefix):]
			if len(rest) < form.length {
				break
			}
			var d [len(digest{}) + 2]byte // base64 rounds up
			if n, err := form.decode(d[:], rest[:form.length]); err == nil && n == len(digest{}) {
				found = append(found, digest(d[:n]))
			}
		}
	}
	return found
}

// BlobsIn gives the references to the blobs that data names, each once, as far as they are stored.
func (b *Blobs) BlobsIn(ctx context.Context, data ...[]byte) ([]Ref, error) {
	ctx, cancel := within(ctx, scanDeadline)
	defer cancel()
	seen := map[digest]bool{}
	var refs []Ref
	for _, one := range data {
		for _, d := range namesIn(one) {
			if seen[d] {
				continue
			}
			seen[d] = true
			ref, err := b.find(ctx, namePrefix+hex.EncodeToString(d[:]))
			if kindOf(err) == actor.NotFound {
				continue
			}
			if err != nil {
				return nil, fault("store.Blobs.BlobsIn", "", err)
			}
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Swept says what Sweep removed, or would remove.
type Swept struct {
	Blobs  int    `json:"blobs"`
	Bytes  uint64 `json:"bytes"`
	Chunks int    `json:"orphans"` // contents that never became a blob
}

// Sweep removes the blobs that were not named when they were marked and were stored, or put again, before a time, which
// should be [BlobGrace] ago when Mark was called: who has stored a blob may still be about to name it. One that is put
// again meanwhile stays. When dry, it only counts. It may be stopped anywhere, and done again after another Mark.
func (s *Store) Sweep(ctx context.Context, m *Marks, before time.Time, dry bool) (Swept, error) {
	const op = "store.Sweep"
	var swept Swept
	owned := map[string]bool{}
	for i := range m.blobs {
		f := &m.blobs[i]
		owned[f.id] = true
		if _, ok := m.named[digestOf(f.name)]; ok && !f.deleted || !f.at.Before(before) {
			continue
		}
		if !dry {
			gone, err := s.Blobs.remove(ctx, f)
			if err != nil {
				return swept, fault(op, "", err)
			}
			if !gone {
				continue
			}
		}
		swept.Blobs++
		swept.Bytes += f.size
	}
	for id, at := range m.chunks {
		if owned[id] || !at.Before(before) {
			continue
		}
		if !dry {
			if err := s.Blobs.log.purge(ctx, purge{Filter: s.Blobs.chunkSubject(id)}); err != nil {
				return swept, fault(op, "", err)
			}
		}
		swept.Chunks++
	}
	return swept, nil
}

func digestOf(name string) (d digest) {
	_, _ = hex.Decode(d[:], []byte(strings.TrimPrefix(name, namePrefix))) // it was checked
	return d
}

// remove removes a blob unless it was announced again since it was found. First it is marked as deleted, by
// compare-and-set: whoever puts it from then on stores it anew.
func (b *Blobs) remove(ctx context.Context, f *blobFound) (gone bool, err error) {
	mark := f.seq
	if !f.deleted {
		data, err := json.Marshal(jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: f.name}, Bucket: b.bucket, NUID: f.id, Deleted: true})
		if err != nil {
			return false, err
		}
		header := expect(f.seq)
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		mark, err = b.log.publish("", "", &nats.Msg{Subject: b.metaSubject(f.name), Header: header, Data: data}).Wait(ctx)
		if conflict(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if err := b.log.purge(ctx, purge{Filter: b.chunkSubject(f.id)}); err != nil {
		return false, err
	}
	return true, b.log.purge(ctx, purge{Filter: b.metaSubject(f.name), Below: mark + 1})
}
